//! Content in up to three tiers: what lies where, what leaves for whom, what comes back when it is wanted.
//!
//! An entry is one page's content. Its copies lie in pages of the tiers' allocators; a hit brings it to the device, room
//! is made by moving what is worth least to the next tier, or by dropping it. This machine moves no byte: it says which
//! page to copy where ([`Move`]), and hears how that went ([`Tiers::finish`], [`Tiers::abort`]).

mod check;
mod entry;
mod error;
mod moves;
mod order;
mod room;

use std::collections::HashMap;

pub use entry::{EntryId, Tier, Worth};
pub use error::TierError;
pub use moves::{Move, MoveId};
pub use room::Room;

use crate::allocator::PageAllocator;
use crate::error::PageError;
use crate::id::PageId;
use crate::run::{Page, Run};
use crate::tiers::entry::{Entry, Tick};
use crate::tiers::moves::{Moves, is_demotion};
use crate::tiers::order::Order;

/// The allocators of the tiers. Their pages must all be of one size.
#[derive(Clone, Debug)]
pub struct TierPools {
    /// Where engines compute.
    pub device: PageAllocator,
    /// The host's memory, if pages may move there.
    pub host: Option<PageAllocator>,
    /// A file, if pages may move there.
    pub disk: Option<PageAllocator>,
}

/// Pages of entries on the device.
#[derive(Debug)]
pub struct Acquired {
    /// A page for each entry, in order; held until dropped.
    pub run: Run,
    /// To be performed now: pages that are on their way by this call.
    pub begun: Vec<Move>,
    /// Moves of earlier calls that bring other pages: read none of the run before all of these are finished, and drop it
    /// when one of them is aborted.
    pub awaited: Vec<MoveId>,
}

/// What is in one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCounters {
    /// Entries that have a copy there.
    pub copies: usize,
    /// Moves that bring one.
    pub arriving: usize,
    /// Moves that take one to a slower tier.
    pub leaving: usize,
}

/// Where an entry's copies are.
pub type Residence = [Option<PageId>; 3];

/// What lies in which tier.
#[derive(Debug)]
pub struct Tiers {
    pools: [Option<PageAllocator>; 3],
    entries: HashMap<EntryId, Entry>,
    orders: [Order; 3],
    moves: Moves,
    copies: [usize; 3],
    now: Tick,
    last: u64,
}

impl Tiers {
    /// Nothing in any tier.
    pub fn new(pools: TierPools) -> Self {
        Self {
            pools: [Some(pools.device), pools.host, pools.disk],
            entries: HashMap::new(),
            orders: Default::default(),
            moves: Moves::default(),
            copies: [0; 3],
            now: 0,
            last: 0,
        }
    }

    /// Entries in any tier.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Moves that are neither finished nor aborted.
    pub fn moves(&self) -> impl Iterator<Item = &Move> {
        self.moves.iter()
    }

    /// What is in a tier.
    pub fn counters(&self, tier: Tier) -> TierCounters {
        TierCounters {
            copies: self.copies[tier.index()],
            arriving: self.moves.iter().filter(|what| what.to.0 == tier).count(),
            leaving: self.moves.leaving(tier),
        }
    }

    /// Where the entry's copies are; a page that is still on its way is none.
    pub fn residence(&self, entry: EntryId) -> Result<Residence, TierError> {
        let copies = &self.entry(entry)?.copies;
        Ok([0, 1, 2].map(|tier| copies[tier].as_ref().map(Page::id)))
    }

    /// Takes in a page whose content is complete, in the tier that it lies in. `parent`: what comes right before it in
    /// its sequence; that one is not dropped before this one.
    pub fn insert(
        &mut self,
        page: Page,
        parent: Option<EntryId>,
        worth: Worth,
    ) -> Result<EntryId, TierError> {
        let tier = self.tier_of(&page)?;
        if let Some(parent) = parent {
            self.entry(parent)?;
            self.change(parent, |above| above.children += 1);
        }
        self.now += 1;
        self.last += 1;
        let id = EntryId(self.last);
        let mut copies = [None, None, None];
        copies[tier.index()] = Some(page);
        self.copies[tier.index()] += 1;
        let entry = Entry {
            id,
            copies,
            worth,
            used: self.now,
            parent,
            children: 0,
            moves: 0,
            aside: [false; 3],
        };
        self.queue(&entry);
        self.entries.insert(id, entry);
        Ok(id)
    }

    /// Drops all copies of an entry, whoever else holds their pages. Refused while others come behind it. A move of it
    /// that was begun goes on, for nothing.
    pub fn remove(&mut self, entry: EntryId) -> Result<(), TierError> {
        let children = self.entry(entry)?.children;
        if children > 0 {
            return Err(TierError::HasChildren { entry, children });
        }
        self.drop_entry(entry);
        Ok(())
    }

    /// What the entry is worth from now on.
    pub fn set_worth(&mut self, entry: EntryId, worth: Worth) -> Result<(), TierError> {
        self.entry(entry)?;
        self.change(entry, |entry| entry.worth = worth);
        Ok(())
    }

    /// A hit: the pages of the entries on the device, where those that lie elsewhere are brought by moves. All or
    /// nothing: `OutOfPages` when the device has no room for them ([`Tiers::make_room`]), `UnknownEntry`.
    pub fn acquire(&mut self, tenant: &str, entries: &[EntryId]) -> Result<Acquired, TierError> {
        let mut missing = Vec::new();
        for &id in entries {
            let entry = self.entry(id)?;
            let device = Tier::Device;
            let here = entry.copies[device.index()].is_some();
            if !here && self.moves.arriving(id, device).is_none() && !missing.contains(&id) {
                missing.push(id);
            }
        }
        let targets = self.device_pages(&missing)?;
        self.now += 1;
        for &id in entries {
            let now = self.now;
            self.change(id, |entry| entry.used = now);
        }
        let awaited = self.awaited(entries);
        let mut begun = Vec::with_capacity(missing.len());
        for (id, target) in missing.into_iter().zip(targets) {
            begun.extend(self.begin(id, Tier::Device, target));
        }
        let run = self.run_of(tenant, entries)?;
        Ok(Acquired {
            run,
            begun,
            awaited,
        })
    }

    /// A hit that is read where it lies: the copies in `tier` of the first of `entries`, up to one that has none there,
    /// held until the run is dropped. Nothing is moved. Of these, the first count as used last: what comes behind them is
    /// worth nothing without them, whether or not they are known to be their parents.
    pub fn hold(&mut self, tier: Tier, entries: &[EntryId]) -> Result<Run, TierError> {
        let pool = self.pool(tier)?.clone();
        let mut pages = Vec::with_capacity(entries.len());
        for &id in entries {
            match &self.entry(id)?.copies[tier.index()] {
                Some(page) => pages.push(page),
                None => break,
            }
        }
        let run = pool.run_of(pages)?;
        for &id in entries[..run.len()].iter().rev() {
            self.now += 1;
            let now = self.now;
            self.change(id, |entry| entry.used = now);
        }
        Ok(run)
    }

    /// The page of a move was copied: the entry has the copy. One that was moved to a slower tier leaves the place where
    /// it was, unless it was used meanwhile. None when the entry was removed meanwhile. `UnknownMove`, and nothing
    /// happens, when the move was finished or aborted before.
    pub fn finish(&mut self, id: MoveId) -> Result<Option<EntryId>, TierError> {
        let begun = self.moves.end(id).ok_or(TierError::UnknownMove(id))?;
        let (what, used, target) = (begun.what, begun.used, begun.into_target());
        if !self.entries.contains_key(&what.entry) {
            return Ok(None);
        }
        let (from, to) = (what.from.0.index(), what.to.0.index());
        self.copies[to] += 1;
        let mut left = None;
        self.change(what.entry, |entry| {
            entry.moves -= 1;
            entry.copies[to] = Some(target);
            let unused = entry.used == used && entry.moves == 0;
            let sole = entry.copies[from].as_ref().is_some_and(Page::is_sole);
            if is_demotion(&what) && unused && sole {
                left = entry.copies[from].take();
            }
        });
        self.copies[from] -= usize::from(left.is_some());
        Ok(Some(what.entry))
    }

    /// The page of a move was not copied, or not wholly. All is as before it was begun; `UnknownMove` as for `finish`.
    pub fn abort(&mut self, id: MoveId) -> Result<(), TierError> {
        let begun = self.moves.end(id).ok_or(TierError::UnknownMove(id))?;
        let entry = begun.what.entry;
        drop(begun);
        if self.entries.contains_key(&entry) {
            self.change(entry, |entry| entry.moves -= 1);
        }
        Ok(())
    }

    fn entry(&self, id: EntryId) -> Result<&Entry, TierError> {
        self.entries.get(&id).ok_or(TierError::UnknownEntry(id))
    }

    fn pool(&self, tier: Tier) -> Result<&PageAllocator, TierError> {
        let pool = self.pools[tier.index()].as_ref();
        pool.ok_or(TierError::NoTier(tier))
    }

    fn tier_of(&self, page: &Page) -> Result<Tier, TierError> {
        let mine = |tier: &Tier| {
            let pool = self.pools[tier.index()].as_ref();
            pool.is_some_and(|pool| pool.is_same(page.allocator()))
        };
        let tier = Tier::ALL.into_iter().find(mine);
        tier.ok_or(TierError::Page(PageError::Foreign))
    }

    /// A page on the device for each of `missing`, paid by who pays for the copy; consecutive where possible.
    fn device_pages(&self, missing: &[EntryId]) -> Result<Vec<Page>, TierError> {
        let device = self.pool(Tier::Device)?;
        let mut payers = Vec::with_capacity(missing.len());
        for &id in missing {
            let nearest = self.entry(id)?.nearest();
            payers.push(nearest.map_or_else(|| "".into(), |(_, page)| page.tenant()));
        }
        let mut pages = Vec::with_capacity(missing.len());
        for same in payers.chunk_by(|a, b| a == b) {
            let run = device.allocate_for(&same[0], same.len())?;
            pages.extend(run.hold(0..run.len()));
        }
        Ok(pages)
    }

    fn awaited(&self, entries: &[EntryId]) -> Vec<MoveId> {
        let mut moves: Vec<MoveId> = entries
            .iter()
            .filter_map(|&id| self.moves.arriving(id, Tier::Device))
            .map(|begun| begun.what.id)
            .collect();
        moves.sort_unstable();
        moves.dedup();
        moves
    }

    fn run_of(&self, tenant: &str, entries: &[EntryId]) -> Result<Run, TierError> {
        let mut pages = Vec::with_capacity(entries.len());
        for &id in entries {
            let copy = self.entry(id)?.copies[Tier::Device.index()].as_ref();
            let arriving = || Some(&self.moves.arriving(id, Tier::Device)?.target);
            pages.push(copy.or_else(arriving).ok_or(TierError::UnknownEntry(id))?);
        }
        let mut run = self.pool(Tier::Device)?.run_of(pages)?;
        run.charge_to(tenant);
        Ok(run)
    }

    /// Begins to bring the entry to `tier`; `None` if it lies nowhere.
    fn begin(&mut self, id: EntryId, tier: Tier, target: Page) -> Option<Move> {
        let entry = self.entries.get(&id)?;
        let from = entry.nearest()?;
        let what = self.moves.begin(id, from, (tier, target), entry.used);
        self.change(id, |entry| entry.moves += 1);
        Some(what)
    }

    /// Takes an entry without children out, with its copies.
    fn drop_entry(&mut self, id: EntryId) {
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        for tier in Tier::ALL {
            let order = &mut self.orders[tier.index()];
            if let Some(rank) = entry.rank(tier) {
                order.ranked.remove(&rank);
            }
            order.aside.remove(&id);
            self.copies[tier.index()] -= usize::from(entry.copies[tier.index()].is_some());
        }
        if let Some(parent) = entry.parent {
            self.change(parent, |above| {
                above.children -= 1;
                above.used = above.used.max(entry.used);
                // It may be a leaf now: worth another look.
                above.aside = [false; 3];
            });
        }
    }

    fn queue(&mut self, entry: &Entry) {
        for tier in Tier::ALL {
            if let Some(rank) = entry.rank(tier) {
                self.orders[tier.index()].ranked.insert(rank);
            }
        }
    }

    /// The one way to change an entry: keeps the orders in step.
    fn change(&mut self, id: EntryId, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let before = Tier::ALL.map(|tier| entry.rank(tier));
        change(entry);
        let after = Tier::ALL.map(|tier| entry.rank(tier));
        for (order, (before, after)) in self.orders.iter_mut().zip(before.into_iter().zip(after)) {
            if before == after {
                continue;
            }
            if let Some(rank) = before {
                order.ranked.remove(&rank);
            }
            if let Some(rank) = after {
                order.ranked.insert(rank);
            }
        }
    }
}
