//! From page keys to whatever their owner keeps for them.

mod eviction;

use std::collections::BTreeSet;
use std::ops::Range;

use crate::error::{Corrupt, IndexError};
use crate::frugal::{cut_frugally, extend_frugally, shorten_frugally};
use crate::key::PageKey;
use crate::tree::{Part, Place, Segment, SegmentId, Tree};

/// When something was last used: the number of the operation that did.
type Tick = u64;

/// What the index keeps for the pages of a segment. A use or pin of a page always ends a segment: all pages of one are
/// equally old, and a pin on it is one on its last page.
#[derive(Debug)]
struct Pages<V> {
    values: Vec<V>,
    /// Set on the last segment of a match or insertion only; a parent inherits it when it becomes a leaf.
    used: Tick,
    pins: u32,
}

impl<V> Part for Pages<V> {
    fn cut_head(&mut self, pages: usize) -> Self {
        Self {
            values: cut_frugally(&mut self.values, pages),
            used: self.used,
            pins: 0,
        }
    }
}

/// Whether pages may leave from its end.
fn is_evictable<V>(segment: &Segment<Pages<V>>) -> bool {
    segment.children() == 0 && segment.part.pins == 0
}

/// What an insertion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insertion {
    /// Keys that were there before; they keep their values.
    pub present: usize,
    /// Keys that were added.
    pub added: usize,
}

/// A tree of page keys that is prefix-closed: a key is in it only when its parent is. So the longest known prefix of a
/// sequence is found by binary search, and only leaves ever leave.
///
/// A page takes 32 bytes for its key, 15 to 30 in the table (by how full that is), and its value; a segment (see
/// `tree.rs`) about 150 more. An index that is emptied holds no memory.
#[derive(Debug)]
pub struct PrefixIndex<V> {
    tree: Tree<Pages<V>>,
    /// Leaves without a pin, least recently used first.
    evictable: BTreeSet<(Tick, SegmentId)>,
    now: Tick,
}

impl<V> Default for PrefixIndex<V> {
    fn default() -> Self {
        Self::with_room(0)
    }
}

impl<V> PrefixIndex<V> {
    /// An index that holds about 15 bytes for each of so many pages from the start, and then never stops to make room
    /// for them.
    pub fn with_room(pages: usize) -> Self {
        Self {
            tree: Tree::with_room(pages),
            evictable: BTreeSet::new(),
            now: 0,
        }
    }

    /// Pages in the index.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many leading `keys` (of one chain, from its first page) are known. Counts as no use.
    pub fn find(&self, keys: &[PageKey]) -> usize {
        self.tree.deepest(keys, 0).map_or(0, Place::depth)
    }

    /// The values of the longest known prefix of `keys`, in order; it is now the most recently used.
    pub fn matched(&mut self, keys: &[PageKey]) -> Vec<&V> {
        let Some(deepest) = self.tree.deepest(keys, 0) else {
            return Vec::new();
        };
        let last = self.end_at(deepest);
        self.touch(last);
        self.values_to(last)
    }

    /// The values of a page and of all before it, in order. Counts as no use.
    pub fn values_up_to(&self, key: &PageKey) -> Result<Vec<&V>, IndexError> {
        let place = self.place(key)?;
        let mut values = self.values_to(place.segment);
        values.truncate(place.depth());
        Ok(values)
    }

    /// Adds the keys that are missing; `values` is asked once, for those of `keys[missing]`, in order. The chain is now
    /// the most recently used. Keys for which `values` gave too few are left out.
    pub fn insert<I>(
        &mut self,
        keys: &[PageKey],
        values: impl FnOnce(Range<usize>) -> I,
    ) -> Result<Insertion, IndexError>
    where
        I: IntoIterator<Item = V>,
    {
        let deepest = self.tree.deepest(keys, 0);
        let present = deepest.map_or(0, Place::depth);
        self.tree.check_chain(deepest, &keys[..present])?;
        let mut last = deepest.map(|place| self.end_at(place));
        let missing = keys.len() - present;
        let new: Vec<V> = if missing > 0 {
            // In the memory of the values, if they come in a vector.
            let given = values(present..keys.len()).into_iter();
            given.take(missing).collect()
        } else {
            Vec::new()
        };
        let added = new.len();
        if added > 0 {
            let continued = self.add(last, &keys[present..present + added], new);
            last = Some(continued.map_err(|index| IndexError::not_a_chain(present + index))?);
        }
        if let Some(last) = last {
            self.touch(last);
        }
        Ok(Insertion { present, added })
    }

    /// Keeps the page, and so all before it, from being evicted until unpinned as often.
    pub fn pin(&mut self, key: &PageKey) -> Result<(), IndexError> {
        let place = self.place(key)?;
        let segment = self.end_at(place);
        self.change(segment, |pages| pages.pins += 1);
        Ok(())
    }

    /// Takes back one [`PrefixIndex::pin`].
    pub fn unpin(&mut self, key: &PageKey) -> Result<(), IndexError> {
        let place = self.place(key)?;
        if self.pins(place) == 0 {
            return Err(IndexError::NotPinned(*key));
        }
        self.change(place.segment, |pages| pages.pins -= 1);
        Ok(())
    }

    /// Removes a leaf.
    pub fn remove(&mut self, key: &PageKey) -> Result<V, IndexError> {
        let place = self.place(key)?;
        let pins = self.pins(place);
        if pins > 0 {
            return Err(IndexError::Pinned { key: *key, pins });
        }
        let children = if self.tree.is_end(place) {
            self.tree.segment(place.segment).children()
        } else {
            1
        };
        if children > 0 {
            return Err(IndexError::HasChildren {
                key: *key,
                children,
            });
        }
        let mut values = self.cut(place.segment, 1);
        // A segment has a value for each page, and at least one page.
        values.pop().ok_or(IndexError::UnknownKey(*key))
    }

    /// Verifies every invariant, in time linear in the index.
    pub fn check(&self) -> Result<(), Corrupt> {
        self.tree.check()?;
        let mut evictable = 0;
        for (id, segment) in self.tree.segments() {
            let Pages { values, used, pins } = &segment.part;
            let queued = self.evictable.contains(&(*used, id));
            let wrong = if values.len() != segment.len() {
                format!("has {} values for {} pages", values.len(), segment.len())
            } else if queued != is_evictable(segment) {
                let children = segment.children();
                format!("with {children} children and {pins} pins is queued wrongly")
            } else if *used > self.now {
                format!("was used at {used}, after now ({})", self.now)
            } else {
                evictable += usize::from(queued);
                continue;
            };
            return Err(Corrupt(format!("segment {id} {wrong}")));
        }
        if evictable != self.evictable.len() {
            let queued = self.evictable.len();
            return Err(Corrupt(format!(
                "{queued} leaves are queued of {evictable}"
            )));
        }
        Ok(())
    }

    fn place(&self, key: &PageKey) -> Result<Place, IndexError> {
        self.tree.place(key).ok_or(IndexError::UnknownKey(*key))
    }

    fn pins(&self, place: Place) -> u32 {
        if self.tree.is_end(place) {
            self.tree.segment(place.segment).part.pins
        } else {
            0
        }
    }

    fn values_to(&self, last: SegmentId) -> Vec<&V> {
        let mut path: Vec<&[V]> = self
            .tree
            .path(Some(last))
            .map(|(_, segment)| segment.part.values.as_slice())
            .collect();
        path.reverse();
        let mut values = Vec::with_capacity(self.tree.segment(last).end());
        path.into_iter().for_each(|part| values.extend(part));
        values
    }

    /// The segment that ends with this page; made, if there is none.
    fn end_at(&mut self, place: Place) -> SegmentId {
        if self.tree.is_end(place) {
            return place.segment;
        }
        let pages = place.depth() - self.tree.segment(place.segment).start();
        self.tree.split(place.segment, pages)
    }

    /// Adds pages behind a segment; returns the one that they are in. `Err`: the index of a key that is known already.
    fn add(
        &mut self,
        last: Option<SegmentId>,
        keys: &[PageKey],
        values: Vec<V>,
    ) -> Result<SegmentId, usize> {
        if let Some(last) = last
            && is_evictable(self.tree.segment(last))
        {
            self.tree.grow(last, keys)?;
            let pages = &mut self.tree.segment_mut(last).part;
            extend_frugally(&mut pages.values, keys.len(), values);
            return Ok(last);
        }
        let pages = Pages {
            values,
            used: self.now,
            pins: 0,
        };
        let id = self.tree.attach(last, keys, pages)?;
        self.queue(id);
        Ok(id)
    }

    /// Takes the last `pages` pages out of a leaf without pins, the last one first.
    fn cut(&mut self, id: SegmentId, pages: usize) -> Vec<V> {
        let kept = self.tree.segment(id).len() - pages;
        if kept > 0 {
            self.tree.shorten(id, kept);
            let values = &mut self.tree.segment_mut(id).part.values;
            let removed = values.drain(kept..).rev().collect();
            shorten_frugally(values, kept);
            return removed;
        }
        self.unqueue(id);
        let parent = self.tree.segment(id).parent();
        let Pages {
            mut values, used, ..
        } = self.tree.detach(id);
        if let Some(parent) = parent {
            let above = &mut self.tree.segment_mut(parent).part;
            above.used = above.used.max(used);
            self.queue(parent);
        }
        if self.is_empty() {
            // An emptied set keeps a node.
            self.evictable = BTreeSet::new();
        }
        values.reverse();
        values
    }

    fn touch(&mut self, last: SegmentId) {
        self.now += 1;
        let now = self.now;
        self.change(last, |pages| pages.used = now);
    }

    /// The one way to change a segment's use or pins: keeps the queue of leaves in step.
    fn change(&mut self, id: SegmentId, change: impl FnOnce(&mut Pages<V>)) {
        self.unqueue(id);
        change(&mut self.tree.segment_mut(id).part);
        self.queue(id);
    }

    fn queue(&mut self, id: SegmentId) {
        let segment = self.tree.segment(id);
        if is_evictable(segment) {
            self.evictable.insert((segment.part.used, id));
        }
    }

    fn unqueue(&mut self, id: SegmentId) {
        let used = self.tree.segment(id).part.used;
        self.evictable.remove(&(used, id));
    }
}
