//! Who still reads pages whose owner is dead.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::id::{LeaseId, Moment, OwnerId, PageId};
use crate::lease::{Lease, LeaseTable};

/// Reads of pages of dead owners, as their readers reported them.
#[derive(Debug, Default)]
pub(super) struct Readers {
    leases: LeaseTable,
    /// Reads of each page.
    reads: BTreeMap<PageId, u32>,
}

impl Readers {
    /// Pages that are read.
    pub(super) fn len(&self) -> usize {
        self.reads.len()
    }

    /// Those of `pages` that are read, in order.
    pub(super) fn pages(&self, pages: Range<u32>) -> Vec<PageId> {
        let range = PageId(pages.start)..PageId(pages.end);
        self.reads.range(range).map(|(&page, _)| page).collect()
    }

    pub(super) fn add(&mut self, reader: OwnerId, pages: Box<[PageId]>, until: Moment) -> LeaseId {
        for &page in &pages {
            *self.reads.entry(page).or_default() += 1;
        }
        self.leases.grant(reader, pages, until)
    }

    /// Whether the lease lives on.
    pub(super) fn renew(&mut self, lease: LeaseId, now: Moment, until: Moment) -> bool {
        let lives = |lease: &Lease| lease.until > now;
        self.leases.get(lease).is_some_and(lives) && self.leases.renew(lease, until)
    }

    /// The pages that nobody reads any more.
    pub(super) fn end(&mut self, lease: LeaseId) -> Option<Vec<PageId>> {
        let ended = self.leases.end(lease)?;
        let mut unread = Vec::new();
        self.drop_reads(&ended, &mut unread);
        Some(unread)
    }

    /// The pages that nobody reads any more.
    pub(super) fn expire(&mut self, now: Moment) -> Vec<PageId> {
        let mut unread = Vec::new();
        while let Some(lease) = self.leases.end_expired(now) {
            self.drop_reads(&lease, &mut unread);
        }
        unread
    }

    /// When [`Readers::expire`] has something to do next.
    pub(super) fn next_end(&self) -> Option<Moment> {
        self.leases.next_end()
    }

    /// The pages that nobody reads any more.
    pub(super) fn drop_reader(&mut self, reader: OwnerId) -> Vec<PageId> {
        let mut unread = Vec::new();
        while let Some(lease) = self.leases.end_held_by(reader) {
            self.drop_reads(&lease, &mut unread);
        }
        unread
    }

    pub(super) fn check(&self, living: impl Fn(OwnerId) -> bool) -> Result<(), String> {
        self.leases.check()?;
        let mut reads = BTreeMap::new();
        for lease in self.leases.iter() {
            if !living(lease.holder) {
                return Err(format!("dead owner {} still reads", lease.holder));
            }
            for &page in &lease.pages {
                *reads.entry(page).or_default() += 1;
            }
        }
        if reads != self.reads {
            return Err(format!("{reads:?} are read, {:?} are counted", self.reads));
        }
        Ok(())
    }

    fn drop_reads(&mut self, ended: &Lease, unread: &mut Vec<PageId>) {
        for page in &ended.pages {
            if let Some(reads) = self.reads.get_mut(page) {
                *reads -= 1;
                if *reads == 0 {
                    self.reads.remove(page);
                    unread.push(*page);
                }
            }
        }
    }
}
