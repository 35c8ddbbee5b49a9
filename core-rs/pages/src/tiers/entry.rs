//! One page's worth of content, and where its copies are.

use std::fmt;

use crate::run::Page;
use crate::tiers::error::TierError;

/// Where a page lies, the nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Where engines compute.
    Device,
    /// The host's memory.
    Host,
    /// A file.
    Disk,
}

impl Tier {
    /// All, the nearest first.
    pub const ALL: [Self; 3] = [Self::Device, Self::Host, Self::Disk];

    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// The tiers that are slower than this one.
    pub(super) fn below(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().skip(self.index() + 1)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Device => "device",
            Self::Host => "host",
            Self::Disk => "disk",
        })
    }
}

/// Names an entry; never used for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u64);

impl fmt::Display for EntryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Why a page is worth its place: what it would take to compute it again, and how likely that is to be needed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worth {
    recompute_us: u64,
    bytes: u64,
    chance: f64,
}

impl Worth {
    /// `recompute_us`: time saved by having it, in microseconds; `bytes`: what it takes up; `chance`: of being used
    /// again, 0 to 1, as the flow and the session tell.
    pub fn new(recompute_us: u64, bytes: u64, chance: f64) -> Result<Self, TierError> {
        if bytes == 0 || !(0.0..=1.0).contains(&chance) {
            return Err(TierError::BadWorth {
                chance: chance.to_string(),
                bytes,
            });
        }
        Ok(Self {
            recompute_us,
            bytes,
            chance,
        })
    }

    /// Expected microseconds saved for a byte: who has least goes first.
    pub fn score(&self) -> f64 {
        self.chance * self.recompute_us as f64 / self.bytes as f64
    }
}

/// When something was last used: the number of the operation that did.
pub(super) type Tick = u64;

/// Place in the order of eviction: score first (bits of a float that isn't negative sort like it), then use, then age.
pub(super) type Rank = (u64, Tick, EntryId);

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: EntryId,
    pub(super) copies: [Option<Page>; 3],
    pub(super) worth: Worth,
    pub(super) used: Tick,
    /// What comes before it in its sequence, and how many come after it.
    pub(super) parent: Option<EntryId>,
    pub(super) children: u32,
    /// Moves from or to it: no copy leaves meanwhile.
    pub(super) moves: u32,
    /// Copies that somebody held when they were looked at last.
    pub(super) aside: [bool; 3],
}

impl Entry {
    /// Its place in the order of a tier; none: its copy there, if any, is not to be evicted now.
    pub(super) fn rank(&self, tier: Tier) -> Option<Rank> {
        let at = tier.index();
        if self.copies[at].is_none() || self.aside[at] || self.moves > 0 {
            return None;
        }
        let nearer = self.copies[..at].iter().any(Option::is_some);
        // A copy below another one saves nothing while that one lasts.
        let score = if nearer { 0.0 } else { self.worth.score() };
        Some((score.to_bits(), self.used, self.id))
    }

    /// The nearest tier that has it, with the page there.
    pub(super) fn nearest(&self) -> Option<(Tier, &Page)> {
        let copy = |tier: Tier| Some((tier, self.copies[tier.index()].as_ref()?));
        Tier::ALL.into_iter().find_map(copy)
    }

    pub(super) fn copy_count(&self) -> usize {
        self.copies.iter().flatten().count()
    }
}
