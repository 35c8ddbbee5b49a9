//! Keys that are over: as few numbers as there are gaps, so that a loop of a thousand rounds costs what one round does.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::key::Key;

/// A set of keys of one depth. Keys with one key around them are kept as intervals of their last index.
#[derive(Debug, Default)]
pub(super) struct KeySet {
    root: bool,
    /// Of all other keys; apart, so that it is small for a node outside of every scope.
    keyed: Option<Box<Keyed>>,
}

#[derive(Debug, Default)]
struct Keyed {
    /// Of the keys around which there is only the root.
    first: Intervals,
    /// Of the others, by the key around them; none is empty.
    inner: FxHashMap<Key, Intervals>,
}

impl KeySet {
    pub(super) fn insert(&mut self, key: &Key) {
        let Some((_, index)) = key.split_last() else {
            self.root = true;
            return;
        };
        let keyed = self.keyed.get_or_insert_default();
        let siblings = match key.depth() {
            1 => &mut keyed.first,
            depth => keyed.inner.entry(key.prefix(depth - 1)).or_default(),
        };
        siblings.insert(index);
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        let Some(keyed) = &self.keyed else {
            return self.root && key.is_root();
        };
        match key.path() {
            [] => self.root,
            [index] => keyed.first.contains(*index),
            [.., index] => {
                let siblings = keyed.inner.get(&key.prefix(key.depth() - 1));
                siblings.is_some_and(|intervals| intervals.contains(*index))
            }
        }
    }

    /// All keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        let root = self.root.then_some(Key::ROOT).into_iter();
        root.chain(self.keyed.iter().flat_map(|keyed| {
            let first = keyed.first.indices().map(|index| Key::ROOT.child(index));
            first.chain(
                keyed.inner.iter().flat_map(|(outer, intervals)| {
                    intervals.indices().map(|index| outer.child(index))
                }),
            )
        }))
    }

    /// Forgets the keys that `forget` says yes to.
    pub(super) fn forget(&mut self, forget: impl Fn(&Key) -> bool) {
        self.root = self.root && !forget(&Key::ROOT);
        if let Some(keyed) = &mut self.keyed {
            keyed.first.forget(|index| forget(&Key::ROOT.child(index)));
            keyed.inner.retain(|outer, intervals| {
                intervals.forget(|index| forget(&outer.child(index)));
                intervals.size() > 0
            });
        }
    }

    /// Forgets all keys inside of this one, without looking at each.
    pub(super) fn forget_inside(&mut self, outer: &Key) {
        let Some(keyed) = &mut self.keyed else {
            return;
        };
        if outer.is_root() {
            keyed.first = Intervals::default();
        }
        match keyed.inner.keys().next() {
            Some(key) if key.depth() == outer.depth() => drop(keyed.inner.remove(outer)),
            _ => keyed.inner.retain(|key, _| !key.extends(outer)),
        }
    }

    /// How many numbers it keeps.
    pub(super) fn size(&self) -> usize {
        let of_keyed = |keyed: &Keyed| {
            let inner = keyed.inner.values().map(Intervals::size).sum::<usize>();
            keyed.first.size() + inner
        };
        usize::from(self.root) + self.keyed.as_deref().map_or(0, of_keyed)
    }
}

/// First to last, both included; neighbours are joined. What comes in order touches the last interval only.
#[derive(Debug, Default)]
struct Intervals {
    last: Option<(u32, u32)>,
    before: BTreeMap<u32, u32>,
}

impl Intervals {
    fn size(&self) -> usize {
        usize::from(self.last.is_some()) + self.before.len()
    }

    fn contains(&self, index: u32) -> bool {
        match self.last {
            None => false,
            Some((first, last)) if index >= first => index <= last,
            Some(_) => {
                let before = self.before.range(..=index).next_back();
                before.is_some_and(|(_, last)| *last >= index)
            }
        }
    }

    fn insert(&mut self, index: u32) {
        let Some((first, last)) = &mut self.last else {
            self.last = Some((index, index));
            return;
        };
        if (*first..=*last).contains(&index) {
            return;
        }
        if index < *first {
            insert_before(&mut self.before, index);
            // What was inserted may have closed the gap before the last interval.
            let touching = self
                .before
                .last_key_value()
                .map(|(begin, end)| (*begin, *end));
            if let Some((begin, end)) = touching
                && end + 1 == *first
            {
                self.before.remove(&begin);
                *first = begin;
            }
        } else if index - 1 == *last {
            *last = index;
        } else {
            self.before.insert(*first, *last);
            (*first, *last) = (index, index);
        }
    }

    fn indices(&self) -> impl Iterator<Item = u32> {
        let before = self.before.iter().map(|(first, last)| (*first, *last));
        before
            .chain(self.last)
            .flat_map(|(first, last)| first..=last)
    }

    fn forget(&mut self, forget: impl Fn(u32) -> bool) {
        let kept = std::mem::take(self);
        for (first, last) in kept.before.into_iter().chain(kept.last) {
            (first..=last)
                .filter(|index| !forget(*index))
                .for_each(|index| self.insert(index));
        }
    }
}

fn insert_before(intervals: &mut BTreeMap<u32, u32>, index: u32) {
    let before = intervals.range_mut(..=index).next_back();
    if let Some((_, last)) = before
        && *last >= index
    {
        return;
    }
    // It stands before another interval, so that there is a number after it.
    let after = intervals.remove(&(index + 1)).unwrap_or(index);
    match intervals.range_mut(..=index).next_back() {
        Some((_, last)) if *last + 1 == index => *last = after,
        _ => {
            intervals.insert(index, after);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn assert_is(set: &KeySet, expected: &BTreeSet<u32>, key: impl Fn(u32) -> Key) {
        for index in 0..42 {
            assert_eq!(set.contains(&key(index)), expected.contains(&index));
        }
        let mut keys: Vec<Key> = set.keys().collect();
        keys.sort();
        assert_eq!(
            keys,
            expected.iter().map(|index| key(*index)).collect::<Vec<_>>()
        );
        let after = |index: &u32| index.checked_add(1);
        let ends = |index: &&u32| after(index).is_none_or(|after| !expected.contains(&after));
        let gaps = expected.iter().filter(ends);
        assert_eq!(set.size(), gaps.count());
    }

    fn check(indices: &[u32], outer: &Key) {
        let (mut set, mut expected) = (KeySet::default(), BTreeSet::new());
        let key = |index| outer.child(index);
        for index in indices {
            set.insert(&key(*index));
            expected.insert(*index);
            assert_is(&set, &expected, key);
        }
        set.forget(|key| {
            key.path()
                .last()
                .is_some_and(|index| index.is_multiple_of(3))
        });
        expected.retain(|index| !index.is_multiple_of(3));
        assert_is(&set, &expected, key);
        set.forget_inside(outer);
        assert_eq!(set.size(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_is_a_set_and_neighbours_are_joined(indices in proptest::collection::vec(0u32..40, 0..60)) {
            for outer in [Key::ROOT, Key::new(&[7]), Key::new(&[7, 1])] {
                check(&indices, &outer);
            }
        }
    }

    #[test]
    fn an_empty_set_can_be_asked_and_emptied() {
        check(&[], &Key::new(&[7]));
        check(&[u32::MAX], &Key::ROOT);
    }

    #[test]
    fn a_thousand_rounds_are_one_number() {
        let mut set = KeySet::default();
        (0..1_000).for_each(|round| set.insert(&Key::new(&[round])));
        assert_eq!(set.size(), 1);
        (0..1_000)
            .rev()
            .for_each(|round| set.insert(&Key::new(&[7, round])));
        assert_eq!(set.size(), 2);
        set.insert(&Key::ROOT);
        assert!(set.contains(&Key::ROOT) && set.contains(&Key::new(&[999])));
        set.forget_inside(&Key::new(&[7]));
        assert_eq!(set.size(), 2);
    }
}
