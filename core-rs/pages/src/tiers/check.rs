//! Every invariant of the tiers.

use std::collections::HashMap;

use crate::error::Corrupt;
use crate::tiers::Tiers;
use crate::tiers::entry::{Entry, EntryId, Tier};

impl Tiers {
    /// Verifies every invariant, in time linear in the entries.
    pub fn check(&self) -> Result<(), Corrupt> {
        let mut children: HashMap<EntryId, u32> = HashMap::new();
        let mut moves: HashMap<EntryId, u32> = HashMap::new();
        for what in self.moves() {
            *moves.entry(what.entry).or_default() += 1;
        }
        for entry in self.entries.values() {
            if let Some(parent) = entry.parent {
                *children.entry(parent).or_default() += 1;
            }
        }
        for (id, entry) in &self.entries {
            let found = (
                children.get(id).copied().unwrap_or(0),
                moves.get(id).copied().unwrap_or(0),
            );
            self.check_entry(entry, found)
                .map_err(|what| Corrupt(format!("entry {id} {what}")))?;
        }
        if let Some(orphan) = children.keys().find(|id| !self.entries.contains_key(id)) {
            return Err(Corrupt(format!(
                "entry {orphan} was dropped before those behind it"
            )));
        }
        Tier::ALL
            .into_iter()
            .try_for_each(|tier| self.check_tier(tier))
    }

    fn check_entry(&self, entry: &Entry, (children, moves): (u32, u32)) -> Result<(), String> {
        if entry.copy_count() == 0 {
            return Err("lies nowhere".into());
        }
        if entry.children != children || entry.moves != moves {
            return Err(format!(
                "has {children} children and {moves} moves, {} and {} are counted",
                entry.children, entry.moves
            ));
        }
        for tier in Tier::ALL {
            let order = &self.orders[tier.index()];
            if entry
                .rank(tier)
                .is_some_and(|rank| !order.ranked.contains(&rank))
            {
                return Err(format!("can never leave the {tier} tier"));
            }
            if entry.aside[tier.index()] && !order.aside.contains(&entry.id) {
                return Err(format!("is never looked at again in the {tier} tier"));
            }
        }
        Ok(())
    }

    fn check_tier(&self, tier: Tier) -> Result<(), Corrupt> {
        let at = tier.index();
        let copies = |entry: &&Entry| entry.copies[at].is_some();
        let found = self.entries.values().filter(copies).count();
        if found != self.copies[at] {
            let counted = self.copies[at];
            return Err(Corrupt(format!(
                "{found} copies in the {tier} tier, {counted} are counted"
            )));
        }
        let ranked = self
            .entries
            .values()
            .filter(|entry| entry.rank(tier).is_some())
            .count();
        let queued = self.orders[at].ranked.len();
        if ranked != queued {
            return Err(Corrupt(format!(
                "{queued} copies queue to leave the {tier} tier, of {ranked}"
            )));
        }
        let gone = |id: &&EntryId| !self.entries.contains_key(id);
        match self.orders[at].aside.iter().find(gone) {
            Some(id) => Err(Corrupt(format!("entry {id} stands aside and is gone"))),
            None => Ok(()),
        }
    }
}
