//! From page keys to whatever their owner keeps for them.

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use slab::Slab;

use crate::error::{Corrupt, IndexError, TooFew};
use crate::key::PageKey;

/// Place of an entry in the slab.
type Slot = usize;

/// When something was last used: the number of the operation that did.
type Tick = u64;

#[derive(Debug)]
struct Entry<V> {
    key: PageKey,
    parent: Option<Slot>,
    /// Pages from the start of the sequence to this one, itself included.
    depth: usize,
    children: u32,
    pins: u32,
    /// Set on the last page of a match or insertion only; a parent inherits it when it becomes a leaf.
    used: Tick,
    value: V,
}

impl<V> Entry<V> {
    fn is_evictable(&self) -> bool {
        self.children == 0 && self.pins == 0
    }
}

/// What [`PrefixIndex::insert`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insertion {
    /// Leading keys that were there before; they keep their values.
    pub present: usize,
    /// Keys that were added.
    pub added: usize,
}

/// A tree of page keys that is prefix-closed: a key is in it only when its parent is. So the longest known prefix of a
/// sequence is found by binary search, and only leaves ever leave.
#[derive(Debug)]
pub struct PrefixIndex<V> {
    slots: HashMap<PageKey, Slot>,
    entries: Slab<Entry<V>>,
    /// Leaves without a pin, least recently used first.
    evictable: BTreeSet<(Tick, Slot)>,
    now: Tick,
}

impl<V> Default for PrefixIndex<V> {
    fn default() -> Self {
        Self {
            slots: HashMap::new(),
            entries: Slab::new(),
            evictable: BTreeSet::new(),
            now: 0,
        }
    }
}

impl<V> PrefixIndex<V> {
    /// Pages in the index.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many leading `keys` (of one chain, from its first page) are known. Counts as no use.
    pub fn find(&self, keys: &[PageKey]) -> usize {
        self.deepest(keys)
            .map_or(0, |slot| self.entries[slot].depth)
    }

    /// The values of the longest known prefix of `keys`, in order; it is now the most recently used.
    pub fn matched(&mut self, keys: &[PageKey]) -> Vec<&V> {
        let Some(deepest) = self.deepest(keys) else {
            return Vec::new();
        };
        self.touch(deepest);
        let mut values = Vec::with_capacity(self.entries[deepest].depth);
        let mut next = Some(deepest);
        while let Some(slot) = next {
            values.push(&self.entries[slot].value);
            next = self.entries[slot].parent;
        }
        values.reverse();
        values
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
        self.now += 1;
        let mut last = self.deepest(keys);
        let present = last.map_or(0, |slot| self.entries[slot].depth);
        let before = self.len();
        let missing = keys[present..].iter().zip(values(present..keys.len()));
        for (added, (key, value)) in missing.enumerate() {
            let position = present + added;
            let Some(slot) = self.attach(*key, last, position + 1, value) else {
                self.detach_chain(last, added);
                return Err(IndexError::NotAChain { position });
            };
            last = Some(slot);
        }
        let added = self.len() - before;
        if let Some(slot) = last {
            self.touch_at(slot, self.now);
        }
        Ok(Insertion { present, added })
    }

    /// Keeps the entry, and so all before it, from being evicted until unpinned as often.
    pub fn pin(&mut self, key: &PageKey) -> Result<(), IndexError> {
        let slot = self.slot(key)?;
        self.change(slot, |entry| entry.pins += 1);
        Ok(())
    }

    /// Takes back one [`PrefixIndex::pin`].
    pub fn unpin(&mut self, key: &PageKey) -> Result<(), IndexError> {
        let slot = self.slot(key)?;
        self.change(slot, |entry| entry.pins = entry.pins.saturating_sub(1));
        Ok(())
    }

    /// Removes a leaf.
    pub fn remove(&mut self, key: &PageKey) -> Result<V, IndexError> {
        let slot = self.slot(key)?;
        let entry = &self.entries[slot];
        if entry.pins > 0 {
            return Err(IndexError::Pinned {
                key: *key,
                pins: entry.pins,
            });
        }
        if entry.children > 0 {
            return Err(IndexError::HasChildren {
                key: *key,
                children: entry.children,
            });
        }
        Ok(self.detach(slot).value)
    }

    /// Removes up to `wanted` leaves, least recently used first, passing over pinned ones and those whose value `may`
    /// refuses. A page becomes a leaf, and so a candidate, when the last page behind it is gone.
    pub fn evict(&mut self, wanted: usize, may: impl FnMut(&V) -> bool) -> Vec<V> {
        let victims = self.victims(wanted, may);
        victims
            .into_iter()
            .map(|slot| self.detach(slot).value)
            .collect()
    }

    /// Removes exactly `wanted` leaves as [`PrefixIndex::evict`] would, or none when there are not so many.
    pub fn try_evict(
        &mut self,
        wanted: usize,
        may: impl FnMut(&V) -> bool,
    ) -> Result<Vec<V>, TooFew> {
        let victims = self.victims(wanted, may);
        if victims.len() < wanted {
            return Err(TooFew {
                available: victims.len(),
            });
        }
        Ok(victims
            .into_iter()
            .map(|slot| self.detach(slot).value)
            .collect())
    }

    /// How many pages [`PrefixIndex::evict`] could remove with this `may`. Linear in the index.
    pub fn count_evictable(&self, may: impl FnMut(&V) -> bool) -> usize {
        self.victims(usize::MAX, may).len()
    }

    /// Who would be evicted, in order: so each comes after all pages behind it.
    fn victims(&self, wanted: usize, mut may: impl FnMut(&V) -> bool) -> Vec<Slot> {
        let mut victims = Vec::new();
        let mut leaves = self.evictable.iter().copied().peekable();
        // Pages that become leaves on the way, and for those above a victim: children left, and their latest use.
        let mut new_leaves = BTreeSet::new();
        let mut above: HashMap<Slot, (u32, Tick)> = HashMap::new();
        while victims.len() < wanted {
            let next = match (leaves.peek(), new_leaves.first()) {
                (Some(old), Some(new)) if new < old => new_leaves.pop_first(),
                (None, Some(_)) => new_leaves.pop_first(),
                _ => leaves.next(),
            };
            let Some((used, slot)) = next else { break };
            let entry = &self.entries[slot];
            if !may(&entry.value) {
                continue;
            }
            victims.push(slot);
            if let Some(parent) = entry.parent {
                let state = &self.entries[parent];
                let (children, latest) =
                    above.entry(parent).or_insert((state.children, state.used));
                *children -= 1;
                *latest = used.max(*latest);
                if *children == 0 && state.pins == 0 {
                    new_leaves.insert((*latest, parent));
                }
            }
        }
        victims
    }

    /// Verifies every invariant, in time linear in the index.
    pub fn check(&self) -> Result<(), Corrupt> {
        if self.slots.len() != self.entries.len() {
            return Err(Corrupt(format!(
                "{} keys for {} entries",
                self.slots.len(),
                self.entries.len()
            )));
        }
        let mut children = vec![0_u32; self.entries.capacity()];
        for (slot, entry) in &self.entries {
            self.check_entry(slot, entry)
                .map_err(|what| Corrupt(format!("page key {} {what}", entry.key)))?;
            if let Some(parent) = entry.parent {
                children[parent] += 1;
            }
        }
        for (slot, entry) in &self.entries {
            if children[slot] != entry.children {
                let (found, counted) = (children[slot], entry.children);
                return Err(Corrupt(format!(
                    "page key {} has {found} children, {counted} are counted",
                    entry.key
                )));
            }
        }
        let evictable = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.is_evictable())
            .count();
        if evictable != self.evictable.len() {
            return Err(Corrupt(format!(
                "{} leaves are queued of {evictable}",
                self.evictable.len()
            )));
        }
        Ok(())
    }

    fn check_entry(&self, slot: Slot, entry: &Entry<V>) -> Result<(), String> {
        if self.slots.get(&entry.key) != Some(&slot) {
            return Err("is not found under its key".into());
        }
        let above = match entry.parent {
            None => 0,
            Some(parent) => self.entries.get(parent).ok_or("has lost its parent")?.depth,
        };
        if entry.depth != above + 1 {
            return Err(format!("is at depth {} below one at {above}", entry.depth));
        }
        if entry.is_evictable() != self.evictable.contains(&(entry.used, slot)) {
            return Err(format!(
                "with {} children and {} pins is queued wrongly",
                entry.children, entry.pins
            ));
        }
        if entry.used > self.now {
            return Err(format!(
                "was used at {}, after now ({})",
                entry.used, self.now
            ));
        }
        Ok(())
    }

    fn slot(&self, key: &PageKey) -> Result<Slot, IndexError> {
        self.slots
            .get(key)
            .copied()
            .ok_or(IndexError::UnknownKey(*key))
    }

    /// The entry of the longest known prefix. A key known at another depth is of another chain: not a match.
    fn deepest(&self, keys: &[PageKey]) -> Option<Slot> {
        let known = |position: usize| {
            let slot = *self.slots.get(keys.get(position)?)?;
            (self.entries[slot].depth == position + 1).then_some(slot)
        };
        let (mut found, mut low, mut high) = (None, 0, keys.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match known(middle) {
                Some(slot) => (found, low) = (Some(slot), middle + 1),
                None => high = middle,
            }
        }
        found
    }

    /// Adds a leaf under `parent`; `None` if the key is already there.
    fn attach(
        &mut self,
        key: PageKey,
        parent: Option<Slot>,
        depth: usize,
        value: V,
    ) -> Option<Slot> {
        let MapEntry::Vacant(vacant) = self.slots.entry(key) else {
            return None;
        };
        let used = self.now;
        let slot = self.entries.insert(Entry {
            key,
            parent,
            depth,
            children: 0,
            pins: 0,
            used,
            value,
        });
        vacant.insert(slot);
        self.evictable.insert((used, slot));
        if let Some(parent) = parent {
            self.change(parent, |entry| entry.children += 1);
        }
        Some(slot)
    }

    /// Takes a leaf out.
    fn detach(&mut self, slot: Slot) -> Entry<V> {
        let entry = self.entries.remove(slot);
        self.slots.remove(&entry.key);
        self.evictable.remove(&(entry.used, slot));
        if let Some(parent) = entry.parent {
            self.change(parent, |above| {
                above.children -= 1;
                above.used = above.used.max(entry.used);
            });
        }
        entry
    }

    /// Takes out a leaf and those above it that it was added with, `count` in all.
    fn detach_chain(&mut self, leaf: Option<Slot>, count: usize) {
        let mut next = leaf;
        for _ in 0..count {
            let Some(slot) = next else { return };
            next = self.detach(slot).parent;
        }
    }

    fn touch(&mut self, slot: Slot) {
        self.now += 1;
        self.touch_at(slot, self.now);
    }

    fn touch_at(&mut self, slot: Slot, now: Tick) {
        self.change(slot, |entry| entry.used = now);
    }

    /// The one way to change an entry: keeps the queue of leaves in step.
    fn change(&mut self, slot: Slot, change: impl FnOnce(&mut Entry<V>)) {
        let entry = &mut self.entries[slot];
        let before = (entry.is_evictable(), entry.used);
        change(entry);
        let after = (entry.is_evictable(), entry.used);
        if before == after {
            return;
        }
        if before.0 {
            self.evictable.remove(&(before.1, slot));
        }
        if after.0 {
            self.evictable.insert((after.1, slot));
        }
    }
}
