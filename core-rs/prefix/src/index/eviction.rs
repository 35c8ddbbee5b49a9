//! Who leaves a prefix index, and in what order: always from the ends.

use std::collections::{BTreeSet, HashMap};

use super::{PrefixIndex, Tick, is_evictable};
use crate::error::TooFew;
use crate::tree::SegmentId;

impl<V> PrefixIndex<V> {
    /// Removes up to `wanted` leaves, least recently used first, passing over pinned ones and those whose value `may`
    /// refuses. A page becomes a leaf, and so a candidate, when the last page behind it is gone.
    pub fn evict(&mut self, wanted: usize, may: impl FnMut(&V) -> bool) -> Vec<V> {
        let victims = self.victims(wanted, may);
        self.cut_all(victims)
    }

    /// Removes exactly `wanted` leaves as [`PrefixIndex::evict`] would, or none when there are not so many.
    pub fn try_evict(
        &mut self,
        wanted: usize,
        may: impl FnMut(&V) -> bool,
    ) -> Result<Vec<V>, TooFew> {
        let victims = self.victims(wanted, may);
        let available = victims.iter().map(|(_, pages)| pages).sum();
        if available < wanted {
            return Err(TooFew { available });
        }
        Ok(self.cut_all(victims))
    }

    /// How many pages [`PrefixIndex::evict`] could remove with this `may`. Linear in the index.
    pub fn count_evictable(&self, may: impl FnMut(&V) -> bool) -> usize {
        let victims = self.victims(usize::MAX, may);
        victims.into_iter().map(|(_, pages)| pages).sum()
    }

    /// Removes every page whose value `keep` refuses, and all pages behind it: what a worker leaves when it dies. Those
    /// that a pin holds stay. Linear in the index.
    pub fn retain(&mut self, mut keep: impl FnMut(&V) -> bool) -> Vec<V> {
        let mut by_start: Vec<(usize, SegmentId)> = self
            .tree
            .segments()
            .map(|(id, segment)| (segment.start(), id))
            .collect();
        by_start.sort_unstable();
        // Pages that each segment may keep; a segment behind a shortened one keeps none.
        let mut kept: HashMap<SegmentId, usize> = HashMap::new();
        for &(_, id) in &by_start {
            let segment = self.tree.segment(id);
            let whole = |parent| kept.get(&parent) == Some(&self.tree.segment(parent).len());
            let pages = match segment.parent() {
                Some(parent) if !whole(parent) => 0,
                _ => {
                    let values = &segment.part.values;
                    values.iter().take_while(|value| keep(value)).count()
                }
            };
            kept.insert(id, pages);
        }
        let mut removed = Vec::new();
        for (_, id) in by_start.into_iter().rev() {
            let segment = self.tree.segment(id);
            let pages = segment.len() - kept.get(&id).copied().unwrap_or(segment.len());
            if pages > 0 && is_evictable(segment) {
                removed.extend(self.cut(id, pages));
            }
        }
        removed
    }

    /// Who would be evicted, in order: from the ends of segments, each after all that is behind it.
    fn victims(&self, wanted: usize, mut may: impl FnMut(&V) -> bool) -> Vec<(SegmentId, usize)> {
        let mut victims = Vec::new();
        let mut left = wanted;
        let mut leaves = self.evictable.iter().copied().peekable();
        // Segments that become leaves on the way, and for those above a victim: children left, and their latest use.
        let mut new_leaves = BTreeSet::new();
        let mut above: HashMap<SegmentId, (u32, Tick)> = HashMap::new();
        while left > 0 {
            let next = match (leaves.peek(), new_leaves.first()) {
                (Some(old), Some(new)) if new < old => new_leaves.pop_first(),
                (None, Some(_)) => new_leaves.pop_first(),
                _ => leaves.next(),
            };
            let Some((used, id)) = next else { break };
            let segment = self.tree.segment(id);
            let from_the_end = segment.part.values.iter().rev().take(left);
            let pages = from_the_end.take_while(|value| may(value)).count();
            if pages == 0 {
                continue;
            }
            victims.push((id, pages));
            left -= pages;
            if let Some(parent) = segment.parent()
                && pages == segment.len()
            {
                let state = self.tree.segment(parent);
                let (children, latest) = above
                    .entry(parent)
                    .or_insert((state.children(), state.part.used));
                *children -= 1;
                *latest = used.max(*latest);
                if *children == 0 && state.part.pins == 0 {
                    new_leaves.insert((*latest, parent));
                }
            }
        }
        victims
    }

    fn cut_all(&mut self, victims: Vec<(SegmentId, usize)>) -> Vec<V> {
        let mut removed = Vec::with_capacity(victims.iter().map(|(_, pages)| pages).sum());
        for (id, pages) in victims {
            removed.extend(self.cut(id, pages));
        }
        removed
    }
}
