//! The tree of known page keys, which both indexes are made of.
//!
//! It is kept in *segments*: stretches of pages that only ever continue in one way. What an index keeps for pages, it
//! keeps by segment, so that walking a sequence costs by its branches, not by its pages. A table finds any page by its
//! key; as a key is there only when its parent is, the longest known prefix of a sequence is a binary search in it.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use slab::Slab;

use crate::error::{Corrupt, IndexError};
use crate::frugal::{cut_frugally, extend_frugally, shorten_frugally};
use crate::key::PageKey;

/// Names a segment. Four billion of them would take 400 GB: a u32 is enough.
pub(crate) type SegmentId = u32;

/// What an index keeps for the pages of a segment.
pub(crate) trait Part {
    /// Splits off what belongs to the first `pages` pages.
    fn cut_head(&mut self, pages: usize) -> Self;
}

#[derive(Debug)]
pub(crate) struct Segment<P> {
    parent: Option<SegmentId>,
    /// Pages of the sequence before its first.
    start: usize,
    keys: Vec<PageKey>,
    /// Segments that continue its last page.
    children: u32,
    pub(crate) part: P,
}

impl<P> Segment<P> {
    pub(crate) fn parent(&self) -> Option<SegmentId> {
        self.parent
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Pages from the start of the sequence to its last.
    pub(crate) fn end(&self) -> usize {
        self.start + self.keys.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn children(&self) -> u32 {
        self.children
    }
}

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: SegmentId,
    /// Pages of the sequence before it.
    position: u32,
    /// Tells most other keys apart without a look at the segment.
    tag: u32,
}

impl Place {
    /// Pages from the start of the sequence to this one, itself included.
    pub(crate) fn depth(self) -> usize {
        self.position as usize + 1
    }

    fn hash(self) -> u64 {
        spread(self.tag)
    }
}

/// Both ends of the result vary: the table uses them for different things.
fn spread(tag: u32) -> u64 {
    u64::from(tag).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[derive(Debug)]
pub(crate) struct Tree<P> {
    segments: Slab<Segment<P>>,
    table: HashTable<Place>,
    /// The table keeps room for so many pages, however few there are.
    room: usize,
    /// Keeps chosen keys from sharing their tags.
    seed: u64,
}

impl<P: Part> Tree<P> {
    /// With room for so many pages before the table grows, which takes as long as entering as many.
    pub(crate) fn with_room(pages: usize) -> Self {
        Self {
            segments: Slab::new(),
            table: HashTable::with_capacity(pages),
            room: pages,
            seed: RandomState::new().hash_one(0),
        }
    }

    /// Pages in the tree.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn segment(&self, id: SegmentId) -> &Segment<P> {
        &self.segments[id as usize]
    }

    pub(crate) fn segment_mut(&mut self, id: SegmentId) -> &mut Segment<P> {
        &mut self.segments[id as usize]
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = (SegmentId, &Segment<P>)> {
        self.segments
            .iter()
            .map(|(id, segment)| (id as SegmentId, segment))
    }

    /// Whether the page is the last of its segment.
    pub(crate) fn is_end(&self, place: Place) -> bool {
        self.segment(place.segment).end() == place.depth()
    }

    pub(crate) fn place(&self, key: &PageKey) -> Option<Place> {
        let tag = tag(self.seed, key);
        let found = self.table.find(spread(tag), |place| {
            place.tag == tag && key_at(&self.segments, *place) == Some(key)
        });
        found.copied()
    }

    /// The page of the longest known prefix of `keys`, which continue a page at depth `above`. A key that is known at
    /// another depth is of another sequence: not a match.
    pub(crate) fn deepest(&self, keys: &[PageKey], above: usize) -> Option<Place> {
        let known = |position: usize| {
            let place = self.place(&keys[position])?;
            (place.depth() == above + position + 1).then_some(place)
        };
        // All or nothing are the most frequent answers, and cost one look.
        let last = keys.len().checked_sub(1)?;
        if let Some(place) = known(last) {
            return Some(place);
        }
        let (mut found, mut low, mut high) = (None, 0, last);
        while low < high {
            let middle = low + (high - low) / 2;
            match known(middle) {
                Some(place) => (found, low) = (Some(place), middle + 1),
                None => high = middle,
            }
        }
        found
    }

    /// Whether `keys` are those of the pages that end at `last`, as they are if they are of one chain.
    pub(crate) fn check_chain(
        &self,
        last: Option<Place>,
        keys: &[PageKey],
    ) -> Result<(), IndexError> {
        let above = last.map_or(0, Place::depth) - keys.len();
        for (_, segment) in self.path(last.map(|place| place.segment)) {
            let Some(end) = segment.end().checked_sub(above) else {
                break;
            };
            let known = &keys[segment.start().saturating_sub(above)..end.min(keys.len())];
            let same = &segment.keys[above.saturating_sub(segment.start())..][..known.len()];
            if known != same {
                let pairs = known.iter().zip(same).enumerate();
                let differ = pairs.filter(|(_, (known, same))| known != same);
                let last = differ.map(|(index, _)| index).next_back().unwrap_or(0);
                let from = segment.start().saturating_sub(above);
                return Err(IndexError::not_a_chain(from + last + 1));
            }
        }
        Ok(())
    }

    /// From a segment to the first of its sequence.
    pub(crate) fn path(
        &self,
        from: Option<SegmentId>,
    ) -> impl Iterator<Item = (SegmentId, &Segment<P>)> {
        let of = |id: SegmentId| (id, self.segment(id));
        std::iter::successors(from.map(of), move |(_, segment)| segment.parent.map(of))
    }

    /// Adds a leaf with at least one page. `Err`: the index of a key that is known already; then nothing changed.
    pub(crate) fn attach(
        &mut self,
        parent: Option<SegmentId>,
        keys: &[PageKey],
        part: P,
    ) -> Result<SegmentId, usize> {
        let segment = Segment {
            parent,
            start: parent.map_or(0, |parent| self.segment(parent).end()),
            keys: keys.to_vec(),
            children: 0,
            part,
        };
        let id = self.segments.insert(segment) as SegmentId;
        if let Err(index) = self.enter(id, 0) {
            self.segments.remove(id as usize);
            return Err(index);
        }
        if let Some(parent) = parent {
            self.segment_mut(parent).children += 1;
        }
        Ok(id)
    }

    /// Adds pages at the end of a leaf. `Err` as of [`Tree::attach`].
    pub(crate) fn grow(&mut self, leaf: SegmentId, keys: &[PageKey]) -> Result<(), usize> {
        let segment = self.segment_mut(leaf);
        debug_assert_eq!(segment.children, 0, "only a leaf grows");
        let before = segment.keys.len();
        extend_frugally(&mut segment.keys, keys.len(), keys.iter().copied());
        self.enter(leaf, before)
            .inspect_err(|_| shorten_frugally(&mut self.segment_mut(leaf).keys, before))
    }

    /// Makes a segment of its own, which it returns, of the first `pages` pages. The rest keeps its name: those who
    /// refer to the end of a segment need not be told.
    pub(crate) fn split(&mut self, id: SegmentId, pages: usize) -> SegmentId {
        let tail = &mut self.segments[id as usize];
        debug_assert!(0 < pages && pages < tail.keys.len());
        let head = Segment {
            parent: tail.parent,
            start: tail.start,
            keys: cut_frugally(&mut tail.keys, pages),
            children: 1,
            part: tail.part.cut_head(pages),
        };
        tail.start += pages;
        let head = self.segments.insert(head) as SegmentId;
        self.segments[id as usize].parent = Some(head);
        let moved = &self.segments[head as usize];
        for (key, position) in moved.keys.iter().zip(moved.start as u32..) {
            let same = |place: &Place| place.segment == id && place.position == position;
            if let Some(place) = self.table.find_mut(spread(tag(self.seed, key)), same) {
                place.segment = head;
            }
        }
        head
    }

    /// Keeps the first `pages` pages, at least one, of a leaf.
    pub(crate) fn shorten(&mut self, leaf: SegmentId, pages: usize) {
        debug_assert_eq!(self.segment(leaf).children, 0, "only a leaf is shortened");
        self.leave(leaf, pages..self.segment(leaf).len());
        shorten_frugally(&mut self.segment_mut(leaf).keys, pages);
        self.shrink();
    }

    /// Takes a leaf out.
    pub(crate) fn detach(&mut self, leaf: SegmentId) -> P {
        debug_assert_eq!(self.segment(leaf).children, 0, "only leaves leave");
        self.leave(leaf, 0..self.segment(leaf).len());
        let segment = self.segments.remove(leaf as usize);
        if let Some(parent) = segment.parent {
            self.segment_mut(parent).children -= 1;
        }
        self.shrink();
        segment.part
    }

    /// Enters the pages of a segment from its `first` on into the table; none of them, when one is known.
    fn enter(&mut self, id: SegmentId, first: usize) -> Result<(), usize> {
        let segments = &self.segments;
        let segment = &segments[id as usize];
        let new = &segment.keys[first..];
        self.table.reserve(new.len(), |place| place.hash());
        let mut clash = None;
        for (index, key) in new.iter().enumerate() {
            let place = Place {
                segment: id,
                position: (segment.start + first + index) as u32,
                tag: tag(self.seed, key),
            };
            let same =
                |other: &Place| other.tag == place.tag && key_at(segments, *other) == Some(key);
            match self.table.entry(place.hash(), same, |place| place.hash()) {
                Entry::Vacant(vacant) => {
                    vacant.insert(place);
                }
                Entry::Occupied(_) => {
                    clash = Some(index);
                    break;
                }
            }
        }
        let Some(index) = clash else { return Ok(()) };
        self.leave(id, first..first + index);
        Err(index)
    }

    fn leave(&mut self, id: SegmentId, pages: std::ops::Range<usize>) {
        let segment = &self.segments[id as usize];
        for position in pages {
            let tag = tag(self.seed, &segment.keys[position]);
            let position = (segment.start + position) as u32;
            let same = |place: &Place| place.segment == id && place.position == position;
            if let Ok(entry) = self.table.find_entry(spread(tag), same) {
                entry.remove();
            }
        }
    }

    /// Gives memory back once most of it is unused: a burst leaves nothing behind.
    fn shrink(&mut self) {
        let pages = self.table.len();
        if pages == 0 {
            self.segments = Slab::new();
        }
        let room = self.room.max(pages * 2);
        if room < self.table.capacity() / 2 {
            self.table.shrink_to(room, |place| place.hash());
            self.segments.shrink_to_fit();
        }
    }

    /// Verifies every invariant, in time linear in the tree.
    pub(crate) fn check(&self) -> Result<(), Corrupt> {
        let mut children = vec![0_u32; self.segments.capacity()];
        let mut pages = 0;
        for (id, segment) in self.segments() {
            pages += segment.len();
            self.check_segment(id, segment)
                .map_err(|what| Corrupt(format!("segment {id} {what}")))?;
            if let Some(parent) = segment.parent {
                children[parent as usize] += 1;
            }
        }
        for (id, segment) in self.segments() {
            let (found, counted) = (children[id as usize], segment.children);
            if found != counted {
                return Err(Corrupt(format!(
                    "segment {id} has {found} children, {counted} are counted"
                )));
            }
        }
        if pages != self.table.len() {
            let entered = self.table.len();
            return Err(Corrupt(format!(
                "{pages} pages are in segments, {entered} in the table"
            )));
        }
        Ok(())
    }

    fn check_segment(&self, id: SegmentId, segment: &Segment<P>) -> Result<(), String> {
        if segment.keys.is_empty() {
            return Err("has no page".into());
        }
        let above = match segment.parent {
            None => 0,
            Some(parent) => self
                .segments
                .get(parent as usize)
                .ok_or("has lost its parent")?
                .end(),
        };
        if segment.start != above {
            let start = segment.start;
            return Err(format!("starts at {start} behind one that ends at {above}"));
        }
        for (index, key) in segment.keys.iter().enumerate() {
            let place = self.place(key);
            let right =
                |place: Place| place.segment == id && place.depth() == segment.start + index + 1;
            if !place.is_some_and(right) {
                return Err(format!("has page key {key}, which leads to {place:?}"));
            }
        }
        Ok(())
    }
}

impl<P> Segment<P> {
    fn key_of(&self, place: Place) -> Option<&PageKey> {
        self.keys
            .get((place.position as usize).checked_sub(self.start)?)
    }
}

fn key_at<P>(segments: &Slab<Segment<P>>, place: Place) -> Option<&PageKey> {
    segments.get(place.segment as usize)?.key_of(place)
}

/// 32 bits of the key, mixed with the seed.
fn tag(seed: u64, key: &PageKey) -> u32 {
    let mixed = u128::from(key.head() ^ seed) * 0xF39C_C060_5CED_C835;
    (mixed >> 64) as u32 ^ mixed as u32
}
