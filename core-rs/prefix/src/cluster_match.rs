//! What a cluster index knows of one sequence.

use std::sync::Arc;

use crate::cluster::Holder;
use crate::holders::HolderSet;
use crate::seats::Seats;

/// Who holds so many pages, and perhaps more.
#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) pages: usize,
    pub(crate) holders: Arc<HolderSet>,
}

/// How many pages from the start of a sequence each worker holds, as it was when it was matched.
#[derive(Debug)]
pub struct ClusterMatch {
    seats: Arc<Seats>,
    /// Most pages first; each one's holders are among the next one's.
    levels: Vec<Level>,
}

impl ClusterMatch {
    pub(crate) fn new(seats: Arc<Seats>, levels: Vec<Level>) -> Self {
        Self { seats, levels }
    }

    /// The most pages that any worker holds.
    pub fn longest(&self) -> usize {
        self.levels.first().map_or(0, |level| level.pages)
    }

    /// Workers that hold at least the first page.
    pub fn holders(&self) -> usize {
        self.levels.last().map_or(0, |level| level.holders.len())
    }

    /// How many pages this worker holds.
    pub fn pages_of(&self, holder: Holder) -> usize {
        let Some(seat) = self.seats.seat(holder) else {
            return 0;
        };
        let fewer = self
            .levels
            .partition_point(|level| !level.holders.contains(seat));
        self.levels.get(fewer).map_or(0, |level| level.pages)
    }

    /// The workers and how many pages each holds, most pages first. Costs what is taken from it.
    pub fn by_length(&self) -> impl Iterator<Item = (Holder, usize)> {
        let longer = std::iter::once(None).chain(self.levels.iter().map(Some));
        self.levels.iter().zip(longer).flat_map(|(level, longer)| {
            let new = move |seat: &u32| longer.is_none_or(|longer| !longer.holders.contains(*seat));
            let seats = level.holders.iter().filter(new);
            seats
                .filter_map(|seat| self.seats.holder(seat))
                .map(|holder| (holder, level.pages))
        })
    }

    /// How many pages are held by how many workers: one entry for each length, most pages first.
    pub fn levels(&self) -> impl Iterator<Item = (usize, usize)> {
        self.levels
            .iter()
            .map(|level| (level.pages, level.holders.len()))
    }
}
