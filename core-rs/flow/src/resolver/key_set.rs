//! Keys that are over: as few numbers as there are gaps, so that a loop of a thousand rounds costs what one round does.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::key::Key;

/// A set of keys of one depth. Keys with one key around them are kept as intervals of their last index.
#[derive(Debug, Default)]
pub(super) struct KeySet {
    root: bool,
    inner: FxHashMap<Key, Intervals>,
}

impl KeySet {
    pub(super) fn insert(&mut self, key: &Key) {
        match key.split_last() {
            None => self.root = true,
            Some((outer, index)) => self.inner.entry(outer).or_default().insert(index),
        }
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        match key.split_last() {
            None => self.root,
            Some((outer, index)) => self
                .inner
                .get(&outer)
                .is_some_and(|intervals| intervals.contains(index)),
        }
    }

    /// Forgets the keys that `forget` says yes to.
    pub(super) fn forget(&mut self, forget: impl Fn(&Key) -> bool) {
        self.root = self.root && !forget(&Key::ROOT);
        self.inner.retain(|outer, intervals| {
            intervals.forget(|index| forget(&outer.child(index)));
            !intervals.0.is_empty()
        });
    }

    /// Forgets all keys inside of this one, without looking at each.
    pub(super) fn forget_inside(&mut self, outer: &Key) {
        self.inner.retain(|key, _| !key.extends(outer));
    }

    /// How many numbers it keeps.
    pub(super) fn size(&self) -> usize {
        usize::from(self.root) + self.inner.values().map(|kept| kept.0.len()).sum::<usize>()
    }
}

/// First to last, both included; neighbours are joined.
#[derive(Debug, Default)]
struct Intervals(BTreeMap<u32, u32>);

impl Intervals {
    fn contains(&self, index: u32) -> bool {
        let before = self.0.range(..=index).next_back();
        before.is_some_and(|(_, last)| *last >= index)
    }

    fn insert(&mut self, index: u32) {
        if let Some((_, last)) = self.0.range_mut(..=index).next_back() {
            if *last >= index {
                return;
            }
            if *last + 1 == index {
                *last = index;
                let after = index.checked_add(1).and_then(|next| self.0.remove(&next));
                if let (Some(after), Some((_, last))) =
                    (after, self.0.range_mut(..=index).next_back())
                {
                    *last = after;
                }
                return;
            }
        }
        let after = index.checked_add(1).and_then(|next| self.0.remove(&next));
        self.0.insert(index, after.unwrap_or(index));
    }

    fn forget(&mut self, forget: impl Fn(u32) -> bool) {
        let kept = std::mem::take(&mut self.0);
        for (first, last) in kept {
            (first..=last)
                .filter(|index| !forget(*index))
                .for_each(|index| self.insert(index));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set_and_neighbours_are_joined(indices in proptest::collection::vec(0u32..40, 0..60)) {
            let (mut set, mut expected) = (KeySet::default(), BTreeSet::new());
            for index in indices {
                set.insert(&Key::new(&[7, index]));
                expected.insert(index);
            }
            for index in 0..42 {
                prop_assert_eq!(set.contains(&Key::new(&[7, index])), expected.contains(&index));
            }
            let gaps = expected.iter().filter(|index| !expected.contains(&(*index + 1))).count();
            prop_assert_eq!(set.size(), gaps);
            set.forget(|key| key.path()[1].is_multiple_of(3));
            for index in 0..42 {
                let kept = expected.contains(&index) && !index.is_multiple_of(3);
                prop_assert_eq!(set.contains(&Key::new(&[7, index])), kept);
            }
            set.forget_inside(&Key::new(&[7]));
            prop_assert_eq!(set.size(), 0);
        }
    }

    #[test]
    fn a_thousand_rounds_are_one_number() {
        let mut set = KeySet::default();
        (0..1_000).for_each(|round| set.insert(&Key::new(&[round])));
        assert_eq!(set.size(), 1);
        set.insert(&Key::ROOT);
        assert!(set.contains(&Key::ROOT) && set.contains(&Key::new(&[999])));
    }
}
