//! Making room in a tier.

use crate::run::Page;
use crate::tiers::Tiers;
use crate::tiers::entry::{Entry, EntryId, Rank, Tier};
use crate::tiers::error::TierError;
use crate::tiers::moves::Move;

/// Copies that stepped aside and are looked at again whenever room is made.
const LOOK_AGAIN: usize = 64;

/// What [`Tiers::make_room`] could do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Pages of the tier that are free now.
    pub free: usize,
    /// Pages that are free when moves are finished, those of earlier calls included.
    pub coming: usize,
    /// To be performed now.
    pub begun: Vec<Move>,
    /// Entries that are in no tier any more, each after all behind it: forget their keys.
    pub dropped: Vec<EntryId>,
}

/// What became of the next candidate.
enum Turn {
    /// Its page is free, or will be.
    Gone,
    /// It cannot go: others come behind it.
    Stuck(EntryId),
    /// There was none.
    Nobody,
}

impl Tiers {
    /// Makes `pages` pages of a tier free, now or when moves are finished, as far as that can be had: copies that nobody
    /// holds leave, least worth first. A copy that lies in another tier, too, is simply dropped; else it is moved to a
    /// slower tier with a free page, or where an entry of less worth gives way; else it is dropped, unless others come
    /// behind it. Keep some room in slower tiers by calling this for them ahead of need.
    pub fn make_room(&mut self, tier: Tier, pages: usize) -> Result<Room, TierError> {
        let pool = self.pool(tier)?.clone();
        self.look_again(tier, LOOK_AGAIN);
        let mut room = Room::default();
        let mut stuck = Vec::new();
        let mut looked = false;
        while pool.free() + self.moves.leaving(tier) < pages {
            match self.evict_next(tier, &mut room) {
                Turn::Gone => {}
                Turn::Stuck(entry) => stuck.push(entry),
                Turn::Nobody if looked => break,
                Turn::Nobody => {
                    looked = true;
                    self.look_again(tier, usize::MAX);
                }
            }
        }
        for entry in stuck {
            self.change(entry, |entry| entry.aside[tier.index()] = false);
        }
        room.free = pool.free();
        room.coming = self.moves.leaving(tier);
        Ok(room)
    }

    fn evict_next(&mut self, tier: Tier, room: &mut Room) -> Turn {
        let Some((id, worth)) = self.candidate(tier) else {
            return Turn::Nobody;
        };
        let Some(entry) = self.entries.get(&id) else {
            return Turn::Nobody;
        };
        if entry.copy_count() > 1 {
            self.drop_copy(id, tier);
            return Turn::Gone;
        }
        let childless = entry.children == 0;
        for below in tier.below() {
            if let Some(target) = self.page_below(id, below, worth, room) {
                room.begun.extend(self.begin(id, below, target));
                return Turn::Gone;
            }
        }
        if childless {
            self.drop_entry(id);
            room.dropped.push(id);
            return Turn::Gone;
        }
        self.change(id, |entry| entry.aside[tier.index()] = true);
        Turn::Stuck(id)
    }

    /// A page of a slower tier for an entry, which one of less worth may have to leave.
    fn page_below(&mut self, id: EntryId, tier: Tier, worth: f64, room: &mut Room) -> Option<Page> {
        let pool = self.pools[tier.index()].clone()?;
        let payer = self.entries.get(&id)?.nearest()?.1.tenant();
        if pool.free() == 0 {
            self.give_way(tier, worth, room);
        }
        let run = pool.allocate_for(&payer, 1).ok()?;
        run.hold(0..1).pop()
    }

    /// Drops the least worth copy of a tier if it lies in another one, too, or is worth less than `worth`.
    fn give_way(&mut self, tier: Tier, worth: f64, room: &mut Room) {
        let Some((id, least)) = self.candidate(tier) else {
            return;
        };
        let Some(entry) = self.entries.get(&id) else {
            return;
        };
        if entry.copy_count() > 1 {
            self.drop_copy(id, tier);
        } else if entry.children == 0 && least < worth {
            self.drop_entry(id);
            room.dropped.push(id);
        }
    }

    /// The copy that leaves a tier next, with its score. Those that are found to be held step aside.
    fn candidate(&mut self, tier: Tier) -> Option<(EntryId, f64)> {
        loop {
            let &(score, _, id): &Rank = self.orders[tier.index()].ranked.first()?;
            if self
                .entries
                .get(&id)
                .is_some_and(|entry| is_free_to_go(entry, tier))
            {
                return Some((id, f64::from_bits(score)));
            }
            self.change(id, |entry| entry.aside[tier.index()] = true);
            self.orders[tier.index()].aside.insert(id);
        }
    }

    /// Takes those that stepped aside, and that nobody holds any more, back into the order.
    fn look_again(&mut self, tier: Tier, most: usize) {
        let at = tier.index();
        for id in self.orders[at].next_aside(most) {
            let entry = self.entries.get(&id);
            let held = entry.is_some_and(|entry| entry.aside[at] && !is_free_to_go(entry, tier));
            if !held {
                self.orders[at].aside.remove(&id);
                self.change(id, |entry| entry.aside[at] = false);
            }
        }
    }

    fn drop_copy(&mut self, id: EntryId, tier: Tier) {
        let mut dropped = None;
        self.change(id, |entry| dropped = entry.copies[tier.index()].take());
        self.copies[tier.index()] -= usize::from(dropped.is_some());
    }
}

fn is_free_to_go(entry: &Entry, tier: Tier) -> bool {
    entry.copies[tier.index()]
        .as_ref()
        .is_some_and(Page::is_sole)
}
