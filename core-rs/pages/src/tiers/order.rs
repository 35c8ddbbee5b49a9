//! Who leaves a tier next.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::tiers::entry::{EntryId, Rank};

/// Copies of one tier that may be evicted, the least worth first, and those that somebody held when looked at last.
///
/// Handles over a page come and go without a word to anyone, so whether a copy is held is found out when its turn comes:
/// it then steps aside, and is looked at again now and then.
#[derive(Debug, Default)]
pub(super) struct Order {
    pub(super) ranked: BTreeSet<Rank>,
    pub(super) aside: BTreeSet<EntryId>,
    /// Where looking at those aside went on to last: each has its turn.
    looked: Option<EntryId>,
}

impl Order {
    /// Up to `most` of those aside, after those that were looked at last.
    pub(super) fn next_aside(&mut self, most: usize) -> Vec<EntryId> {
        let after = self.looked.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.aside.range((after, Bound::Unbounded));
        let before = self.aside.iter();
        let next: Vec<EntryId> = behind
            .chain(before)
            .take(most.min(self.aside.len()))
            .copied()
            .collect();
        self.looked = next.last().copied();
        next
    }
}
