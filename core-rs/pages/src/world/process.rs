//! One process of the world: what it holds, and how it ends.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Broken;
use crate::{
    Claim, EntryId, ExtentId, LeaseId, Moment, Move, OwnerId, PageAllocator, PageId, Pin,
    PrivateGenerations, Reading, Run, Stamped, TierPools, Tiers,
};

/// Pages of another process under a lease, and what was in them.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) owner: OwnerId,
    /// Of the owner's; of the book's, once the owner is dead and this was reported.
    pub(super) lease: LeaseId,
    pub(super) at_book: bool,
    pub(super) until: Moment,
    pub(super) noted: Vec<(Stamped, u64)>,
}

impl Read {
    pub(super) fn pages(&self) -> Box<[PageId]> {
        self.noted.iter().map(|(stamped, _)| stamped.page).collect()
    }
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) allocator: PageAllocator,
    pub(super) extents: BTreeSet<ExtentId>,
    /// Pages of its extents that it has not adopted yet.
    pub(super) withheld: BTreeSet<PageId>,
    pub(super) runs: Vec<Run>,
    pub(super) pins: Vec<Pin>,
    pub(super) reads: Vec<Read>,
    pub(super) tiers: Tiers,
    pub(super) entries: Vec<EntryId>,
    pub(super) moves: Vec<Move>,
    slower: [PageAllocator; 2],
}

impl Process {
    pub(super) fn new(generations: Arc<PrivateGenerations>, reserved: u32) -> Self {
        let allocator = PageAllocator::in_pool(generations, reserved);
        let slower = [6, 9].map(|pages| PageAllocator::new(pages, 0).unwrap());
        let tiers = Tiers::new(TierPools {
            device: allocator.clone(),
            host: Some(slower[0].clone()),
            disk: Some(slower[1].clone()),
        });
        Self {
            allocator,
            extents: BTreeSet::new(),
            withheld: BTreeSet::new(),
            runs: Vec::new(),
            pins: Vec::new(),
            reads: Vec::new(),
            tiers,
            entries: Vec::new(),
            moves: Vec::new(),
            slower,
        }
    }

    /// What it says to a new book.
    pub(super) fn claim(&self, owner: OwnerId) -> Claim {
        let reads = self.reads.iter().map(|read| Reading {
            owner: read.owner,
            pages: read.pages(),
            until: read.until,
        });
        Claim {
            owner,
            extents: self.extents.iter().copied().collect(),
            withheld: self.withheld.iter().copied().collect(),
            reads: reads.collect(),
        }
    }

    /// Pages of the pool that it uses or may read.
    pub(super) fn uses(&self, now: Moment) -> Vec<PageId> {
        let runs = self.runs.iter().flat_map(|run| run.pages().to_vec());
        let pins = self.pins.iter().flat_map(|pin| pin.pages().to_vec());
        let reads = self.reads.iter().filter(|read| read.until > now);
        let reads = reads.flat_map(Read::pages);
        let device = |&entry: &EntryId| self.tiers.residence(entry).ok()?[0];
        let cached = self.entries.iter().filter_map(device);
        runs.chain(pins).chain(reads).chain(cached).collect()
    }

    pub(super) fn check(&self) -> Result<(), Broken> {
        let mut pools = self.slower.iter().chain([&self.allocator]);
        let sound = pools.try_for_each(PageAllocator::check);
        let sound = sound.and_then(|()| self.tiers.check());
        sound.map_err(|corrupt| corrupt.to_string())
    }

    /// Ends all work: what is left held is lost.
    pub(super) fn end(&mut self) -> Result<(), Broken> {
        self.runs.clear();
        self.pins.clear();
        for begun in std::mem::take(&mut self.moves) {
            self.tiers
                .abort(begun.id)
                .map_err(|error| error.to_string())?;
        }
        self.entries.clear();
        self.tiers = Tiers::new(TierPools {
            device: self.allocator.clone(),
            host: None,
            disk: None,
        });
        self.check()?;
        for pool in self.slower.iter().chain([&self.allocator]) {
            let counters = pool.counters();
            if !counters.is_idle() {
                return Err(format!("pages were lost: {counters:?}"));
            }
            if !pool.tenants().is_empty() {
                return Err(format!("tenants still pay: {:?}", pool.tenants()));
            }
        }
        Ok(())
    }
}
