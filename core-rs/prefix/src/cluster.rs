//! From page keys to the workers that hold the pages: what placement looks at.

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cluster_match::{ClusterMatch, Level};
use crate::error::{Corrupt, IndexError};
use crate::holders::{HolderSet, Seat};
use crate::index::Insertion;
use crate::key::PageKey;
use crate::seats::Seats;
use crate::tree::{Part, Place, SegmentId, Tree};

/// Who holds pages: one life of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder(pub u32);

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "worker {}", self.0)
    }
}

/// Who holds the pages of a segment: all of them. Who holds a page also holds those before it, so a segment's holders
/// hold its parent too. Shared with the matches that found it.
#[derive(Debug)]
struct Held(Arc<HolderSet>);

impl Part for Held {
    fn cut_head(&mut self, _: usize) -> Self {
        Self(self.0.clone())
    }
}

/// What one holder has.
#[derive(Debug, Default)]
struct Holding {
    /// Its segments, and how many segments right behind each it holds too.
    segments: FxHashMap<SegmentId, u32>,
    pages: usize,
}

/// Which worker holds which pages, for all of a cluster.
///
/// Pages that the same workers hold and that continue in one way are one segment with one set of holders. A match walks
/// the segments of one sequence and copies nothing, so its cost does not depend on how many workers or pages there are.
///
/// A page takes 32 bytes for its key and 15 to 30 in the table (by how full that is), however many hold it; a segment
/// about 200 more, and about 16 and a bit or word for each of its holders. A worker that is removed costs what it held,
/// and leaves no memory.
#[derive(Debug)]
pub struct ClusterIndex {
    tree: Tree<Held>,
    /// Shared with matches, which outlive changes.
    seats: Arc<Seats>,
    /// By seat.
    holdings: Vec<Holding>,
}

impl Default for ClusterIndex {
    fn default() -> Self {
        Self {
            tree: Tree::with_room(0),
            seats: Arc::default(),
            holdings: Vec::new(),
        }
    }
}

impl ClusterIndex {
    /// Pages that somebody holds.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether nobody holds anything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pages that this worker holds.
    pub fn held_by(&self, holder: Holder) -> usize {
        let seat = self.seats.seat(holder);
        seat.map_or(0, |seat| self.holdings[seat as usize].pages)
    }

    /// Pages, each counted as often as it is held.
    pub fn held(&self) -> usize {
        self.holdings.iter().map(|holding| holding.pages).sum()
    }

    /// How much of a sequence with these keys each worker holds, from its start.
    pub fn matched(&self, keys: &[PageKey]) -> ClusterMatch {
        let mut levels: Vec<Level> = Vec::new();
        if let Some(deepest) = self.tree.deepest(keys, 0) {
            for (_, segment) in self.tree.path(Some(deepest.segment)) {
                let holders = &segment.part.0;
                // Sets only grow towards the start: of equal size is equal.
                if levels
                    .last()
                    .is_none_or(|level| level.holders.len() < holders.len())
                {
                    levels.push(Level {
                        pages: segment.end().min(deepest.depth()),
                        holders: holders.clone(),
                    });
                }
            }
        }
        ClusterMatch::new(self.seats.clone(), levels)
    }

    /// The worker holds these pages, which continue the one with key `after`, or start a sequence. Returns how many of
    /// them it held before, and how many not.
    pub fn insert(
        &mut self,
        holder: Holder,
        after: Option<&PageKey>,
        keys: &[PageKey],
    ) -> Result<Insertion, IndexError> {
        let parent = after.map(|key| self.held_place(holder, key)).transpose()?;
        let above = parent.map_or(0, Place::depth);
        let deepest = self.tree.deepest(keys, above);
        let known = deepest.map_or(0, |place| place.depth() - above);
        self.tree.check_chain(deepest, &keys[..known])?;
        let end = deepest.or(parent);
        let new = &keys[known..];
        if new.is_empty() && end.is_none_or(|end| self.holds(holder, end)) {
            return Ok(Insertion {
                present: keys.len(),
                added: 0,
            });
        }
        let seat = self.seat(holder);
        let end = end.map(|place| self.end_at(place));
        let attached = match self.add(seat, end, new) {
            Ok(attached) => attached,
            Err(index) => {
                self.leave_if_idle(seat);
                return Err(IndexError::not_a_chain(known + index));
            }
        };
        let added = new.len() + self.join(seat, end, attached);
        self.holdings[seat as usize].pages += added;
        Ok(Insertion {
            present: keys.len().saturating_sub(added),
            added,
        })
    }

    /// The worker holds these pages no more, nor any behind them. Keys that it does not hold are passed over: what is
    /// said twice, or after the worker was removed, does no harm. Returns how many pages it lost.
    pub fn remove(&mut self, holder: Holder, keys: &[PageKey]) -> usize {
        let Some(seat) = self.seats.seat(holder) else {
            return 0;
        };
        // The first page to go of each segment. Only the rest of a segment keeps its name when one is split, and that
        // is what goes: the names stay right.
        let mut cuts: FxHashMap<SegmentId, usize> = FxHashMap::default();
        for place in keys.iter().filter_map(|key| self.tree.place(key)) {
            if self.segment_holds(place.segment, seat) {
                let first = cuts.entry(place.segment).or_insert(usize::MAX);
                *first = place.depth().min(*first);
            }
        }
        let mut from_the_end: Vec<(usize, SegmentId)> = cuts
            .into_iter()
            .map(|(segment, depth)| (depth - 1, segment))
            .collect();
        from_the_end.sort_unstable_by(|one, two| two.cmp(one));
        let before = self.holdings[seat as usize].pages;
        for (kept, segment) in from_the_end {
            self.forget(seat, segment, kept);
        }
        let removed = before - self.holdings[seat as usize].pages;
        self.leave_if_idle(seat);
        removed
    }

    /// The worker is gone. Returns how many pages it held, in time that grows with these alone.
    pub fn remove_holder(&mut self, holder: Holder) -> usize {
        let Some(seat) = self.seats.seat(holder) else {
            return 0;
        };
        let pages = self.holdings[seat as usize].pages;
        let segments = self.holdings[seat as usize].segments.keys();
        let mut from_the_end: Vec<SegmentId> = segments.copied().collect();
        from_the_end.sort_unstable_by_key(|id| usize::MAX - self.tree.segment(*id).start());
        for id in from_the_end {
            self.drop_from(seat, id);
        }
        self.leave_if_idle(seat);
        pages
    }

    /// Verifies every invariant, in time linear in the index.
    pub fn check(&self) -> Result<(), Corrupt> {
        self.tree.check()?;
        let mut found: Vec<Holding> = Vec::new();
        found.resize_with(self.holdings.len(), Holding::default);
        for (id, segment) in self.tree.segments() {
            let holders = &segment.part.0;
            if holders.len() == 0 {
                return Err(Corrupt(format!("nobody holds segment {id}")));
            }
            for seat in holders.iter() {
                let holding = found
                    .get_mut(seat as usize)
                    .filter(|_| self.seats.holder(seat).is_some())
                    .ok_or_else(|| {
                        Corrupt(format!("segment {id} is held by nobody's seat {seat}"))
                    })?;
                holding.pages += segment.len();
                holding.segments.entry(id).or_insert(0);
                let Some(parent) = segment.parent() else {
                    continue;
                };
                if !self.segment_holds(parent, seat) {
                    return Err(Corrupt(format!(
                        "seat {seat} holds segment {id}, not {parent} before it"
                    )));
                }
                *holding.segments.entry(parent).or_insert(0) += 1;
            }
        }
        for (seat, (found, holding)) in found.iter().zip(&self.holdings).enumerate() {
            if found.pages != holding.pages || found.segments != holding.segments {
                return Err(Corrupt(format!(
                    "what seat {seat} holds is not what it is said to hold"
                )));
            }
            if (found.pages == 0) != self.seats.holder(seat as Seat).is_none() {
                return Err(Corrupt(format!(
                    "seat {seat} is taken by one that holds nothing"
                )));
            }
        }
        Ok(())
    }

    fn held_place(&self, holder: Holder, key: &PageKey) -> Result<Place, IndexError> {
        let place = self.tree.place(key).ok_or(IndexError::UnknownKey(*key))?;
        if self.holds(holder, place) {
            Ok(place)
        } else {
            Err(IndexError::NotHeld { holder, key: *key })
        }
    }

    fn holds(&self, holder: Holder, place: Place) -> bool {
        let seat = self.seats.seat(holder);
        seat.is_some_and(|seat| self.segment_holds(place.segment, seat))
    }

    fn segment_holds(&self, id: SegmentId, seat: Seat) -> bool {
        self.tree.segment(id).part.0.contains(seat)
    }

    fn seat(&mut self, holder: Holder) -> Seat {
        let seat = match self.seats.seat(holder) {
            Some(seat) => seat,
            None => Arc::make_mut(&mut self.seats).take(holder),
        };
        if seat as usize == self.holdings.len() {
            self.holdings.push(Holding::default());
        }
        seat
    }

    fn leave_if_idle(&mut self, seat: Seat) {
        if self.holdings[seat as usize].pages > 0 {
            return;
        }
        self.holdings[seat as usize] = Holding::default();
        Arc::make_mut(&mut self.seats).leave(seat);
        if self.is_empty() {
            self.holdings = Vec::new();
        }
    }

    /// The segment that ends with this page; made, if there is none.
    fn end_at(&mut self, place: Place) -> SegmentId {
        if self.tree.is_end(place) {
            return place.segment;
        }
        self.split(place.segment, place.depth())
    }

    /// Makes a segment of its own of the pages up to `depth`.
    fn split(&mut self, id: SegmentId, depth: usize) -> SegmentId {
        let pages = depth - self.tree.segment(id).start();
        let head = self.tree.split(id, pages);
        for seat in self.tree.segment(head).part.0.iter() {
            self.holdings[seat as usize].segments.insert(head, 1);
        }
        head
    }

    /// Adds pages that nobody held behind a segment. Returns how many segments were added: one or none. `Err`: the index of
    /// a key that is known already.
    fn add(&mut self, seat: Seat, end: Option<SegmentId>, new: &[PageKey]) -> Result<u32, usize> {
        if new.is_empty() {
            return Ok(0);
        }
        if let Some(end) = end {
            let segment = self.tree.segment(end);
            if segment.children() == 0 && segment.part.0.is_only(seat) {
                return self.tree.grow(end, new).map(|()| 0);
            }
        }
        let held = Held(Arc::new(HolderSet::of(seat)));
        let id = self.tree.attach(end, new, held)?;
        self.holdings[seat as usize].segments.insert(id, 0);
        Ok(1)
    }

    /// Adds the holder to a segment, behind which it holds `behind` now, and to all before it. Returns how many pages
    /// it did not hold.
    fn join(&mut self, seat: Seat, from: Option<SegmentId>, mut behind: u32) -> usize {
        let mut pages = 0;
        let mut next = from;
        let segments = &mut self.holdings[seat as usize].segments;
        while let Some(id) = next {
            *segments.entry(id).or_insert(0) += behind;
            let segment = self.tree.segment_mut(id);
            if segment.part.0.contains(seat) {
                break;
            }
            Arc::make_mut(&mut segment.part.0).insert(seat);
            pages += segment.len();
            behind = 1;
            next = segment.parent();
        }
        pages
    }

    /// Takes the pages of a segment from depth `kept` on from the holder, with all that it holds behind them.
    fn forget(&mut self, seat: Seat, id: SegmentId, kept: usize) {
        if self.holdings[seat as usize]
            .segments
            .get(&id)
            .is_some_and(|behind| *behind > 0)
        {
            for behind in self.held_behind(seat, id) {
                self.drop_from(seat, behind);
            }
        }
        let segment = self.tree.segment(id);
        let (start, end) = (segment.start(), segment.end());
        if kept == start {
            self.drop_from(seat, id);
        } else if segment.part.0.is_only(seat) {
            // It has no child, as nobody else could hold one.
            self.tree.shorten(id, kept - start);
            self.holdings[seat as usize].pages -= end - kept;
        } else {
            self.split(id, kept);
            self.drop_from(seat, id);
        }
    }

    /// The segments behind this one that the holder has, the last ones first. Only for workers that lose a page before
    /// those behind it: it looks at all that the holder has.
    fn held_behind(&self, seat: Seat, id: SegmentId) -> Vec<SegmentId> {
        let held = self.holdings[seat as usize].segments.keys();
        let mut by_start: Vec<SegmentId> = held.copied().collect();
        by_start.sort_unstable_by_key(|id| self.tree.segment(*id).start());
        let mut behind = rustc_hash::FxHashSet::default();
        let mut found = Vec::new();
        for each in by_start {
            let parent = self.tree.segment(each).parent();
            if parent.is_some_and(|parent| parent == id || behind.contains(&parent)) {
                behind.insert(each);
                found.push(each);
            }
        }
        found.reverse();
        found
    }

    /// Takes a whole segment from a holder that holds nothing behind it.
    fn drop_from(&mut self, seat: Seat, id: SegmentId) {
        let segment = self.tree.segment_mut(id);
        let (parent, pages) = (segment.parent(), segment.len());
        if segment.part.0.is_only(seat) {
            self.tree.detach(id);
        } else {
            Arc::make_mut(&mut segment.part.0).remove(seat);
        }
        let holding = &mut self.holdings[seat as usize];
        holding.pages -= pages;
        holding.segments.remove(&id);
        if let Some(behind) = parent.and_then(|parent| holding.segments.get_mut(&parent)) {
            *behind -= 1;
        }
        let (left, room) = (holding.segments.len(), holding.segments.capacity());
        if room > 64 && left < room / 8 {
            holding.segments.shrink_to(left * 2);
        }
    }
}
