//! Moves of pages between tiers: begun here, performed by the caller, then finished or aborted here.

use std::collections::BTreeMap;
use std::fmt;

use crate::id::PageId;
use crate::run::{Page, Pin};
use crate::tiers::entry::{EntryId, Tick, Tier};

/// Names a move; never used for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MoveId(pub u64);

impl fmt::Display for MoveId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What the caller is to do: copy one page, then call `finish` or `abort`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its name.
    pub id: MoveId,
    /// Whose page.
    pub entry: EntryId,
    /// Read this page,
    pub from: (Tier, PageId),
    /// write this one.
    pub to: (Tier, PageId),
}

/// A move that was begun. Dropping it lets go of both pages.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) what: Move,
    /// What the entry gets when it is finished.
    pub(super) target: Page,
    /// When the entry was last used before.
    pub(super) used: Tick,
    _pins: (Pin, Pin),
}

impl Begun {
    /// The page that was written; nothing is pinned any more.
    pub(super) fn into_target(self) -> Page {
        self.target
    }
}

/// Moves that are neither finished nor aborted.
#[derive(Debug, Default)]
pub(super) struct Moves {
    begun: BTreeMap<MoveId, Begun>,
    by_target: BTreeMap<(EntryId, Tier), MoveId>,
    leaving: [usize; 3],
    last: u64,
}

impl Moves {
    pub(super) fn begin(
        &mut self,
        entry: EntryId,
        from: (Tier, &Page),
        to: (Tier, Page),
        used: Tick,
    ) -> Move {
        self.last += 1;
        let what = Move {
            id: MoveId(self.last),
            entry,
            from: (from.0, from.1.id()),
            to: (to.0, to.1.id()),
        };
        self.by_target.insert((entry, to.0), what.id);
        self.leaving[from.0.index()] += usize::from(is_demotion(&what));
        let begun = Begun {
            what,
            _pins: (from.1.pin(), to.1.pin()),
            target: to.1,
            used,
        };
        self.begun.insert(what.id, begun);
        what
    }

    pub(super) fn end(&mut self, id: MoveId) -> Option<Begun> {
        let begun = self.begun.remove(&id)?;
        let what = begun.what;
        self.by_target.remove(&(what.entry, what.to.0));
        self.leaving[what.from.0.index()] -= usize::from(is_demotion(&what));
        Some(begun)
    }

    /// The move that brings the entry to the tier.
    pub(super) fn arriving(&self, entry: EntryId, tier: Tier) -> Option<&Begun> {
        self.begun.get(self.by_target.get(&(entry, tier))?)
    }

    /// Pages of a tier that will be free when their moves are finished, if nobody uses them meanwhile.
    pub(super) fn leaving(&self, tier: Tier) -> usize {
        self.leaving[tier.index()]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Move> {
        self.begun.values().map(|begun| &begun.what)
    }
}

/// Whether a move is to make room where it comes from.
pub(super) fn is_demotion(what: &Move) -> bool {
    what.to.0 > what.from.0
}
