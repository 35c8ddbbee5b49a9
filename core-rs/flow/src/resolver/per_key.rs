//! One thing per key, with the cheap cases on the fast side: most nodes are outside every fan-out, and most of the others in
//! one only.

use rustc_hash::FxHashMap;

use crate::key::Key;

/// A map from keys of one depth. Nothing is allocated for the root, and nothing but an index is hashed for a key of depth 1.
#[derive(Debug)]
pub(super) struct PerKey<T> {
    root: Option<T>,
    /// Of all other keys; apart, so that a node outside of every scope is small.
    keyed: Option<Box<Keyed<T>>>,
}

#[derive(Debug)]
struct Keyed<T> {
    /// Of the keys around which there is only the root.
    first: FxHashMap<u32, T>,
    /// Of the others, by the key around them; none is empty.
    inner: FxHashMap<Key, FxHashMap<u32, T>>,
}

impl<T> Default for PerKey<T> {
    fn default() -> Self {
        Self {
            root: None,
            keyed: None,
        }
    }
}

impl<T> Default for Keyed<T> {
    fn default() -> Self {
        Self {
            first: FxHashMap::default(),
            inner: FxHashMap::default(),
        }
    }
}

impl<T> PerKey<T> {
    pub(super) fn get(&self, key: &Key) -> Option<&T> {
        match key.path() {
            [] => self.root.as_ref(),
            [index] => self.keyed.as_ref()?.first.get(index),
            [.., index] => self.keyed.as_ref()?.inner.get(&around(key))?.get(index),
        }
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut T> {
        match key.path() {
            [] => self.root.as_mut(),
            [index] => self.keyed.as_mut()?.first.get_mut(index),
            [.., index] => {
                let siblings = self.keyed.as_mut()?.inner.get_mut(&around(key))?;
                siblings.get_mut(index)
            }
        }
    }

    pub(super) fn get_or_insert_with(&mut self, key: &Key, make: impl FnOnce() -> T) -> &mut T {
        match key.path() {
            [] => self.root.get_or_insert_with(make),
            [.., index] => self.siblings(key).entry(*index).or_insert_with(make),
        }
    }

    pub(super) fn insert(&mut self, key: &Key, value: T) {
        match key.path() {
            [] => self.root = Some(value),
            [.., index] => {
                self.siblings(key).insert(*index, value);
            }
        }
    }

    /// The map for a key that is not the root's.
    fn siblings(&mut self, key: &Key) -> &mut FxHashMap<u32, T> {
        let keyed = self.keyed.get_or_insert_default();
        match key.depth() {
            0 | 1 => &mut keyed.first,
            _ => keyed.inner.entry(around(key)).or_default(),
        }
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<T> {
        match key.path() {
            [] => self.root.take(),
            [index] => self.keyed.as_mut()?.first.remove(index),
            [.., index] => {
                let inner = &mut self.keyed.as_mut()?.inner;
                let outer = around(key);
                let siblings = inner.get_mut(&outer)?;
                let removed = siblings.remove(index);
                if siblings.is_empty() {
                    inner.remove(&outer);
                }
                removed
            }
        }
    }

    /// Keeps what `keep` says yes to.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Key, &mut T) -> bool) {
        let root = self.root.as_mut();
        if root.is_some_and(|root| !keep(&Key::ROOT, root)) {
            self.root = None;
        }
        let Some(keyed) = &mut self.keyed else {
            return;
        };
        let mut keep_of = |outer: &Key, siblings: &mut FxHashMap<u32, T>| {
            siblings.retain(|index, value| keep(&outer.child(*index), value));
        };
        keep_of(&Key::ROOT, &mut keyed.first);
        keyed.inner.retain(|outer, siblings| {
            keep_of(outer, siblings);
            !siblings.is_empty()
        });
    }

    /// Takes out everything inside of this key, without looking at what is beside it.
    pub(super) fn remove_inside(&mut self, outer: &Key, mut removed: impl FnMut(Key, T)) {
        let Some(keyed) = &mut self.keyed else {
            return;
        };
        let mut take = |outer: &Key, siblings: FxHashMap<u32, T>| {
            let siblings = siblings.into_iter();
            siblings.for_each(|(index, value)| removed(outer.child(index), value));
        };
        if outer.is_root() {
            take(outer, std::mem::take(&mut keyed.first));
        }
        match keyed.inner.keys().next() {
            Some(key) if key.depth() == outer.depth() => {
                let siblings = keyed.inner.remove(outer);
                siblings
                    .into_iter()
                    .for_each(|siblings| take(outer, siblings));
            }
            _ => {
                let inside = keyed.inner.extract_if(|key, _| key.extends(outer));
                inside.for_each(|(outer, siblings)| take(&outer, siblings));
            }
        }
    }

    /// Whether there is something for a key that extends this one.
    pub(super) fn has_inside(&self, outer: &Key) -> bool {
        let inside = |keyed: &Keyed<T>| match outer.is_root() {
            true => !keyed.first.is_empty() || !keyed.inner.is_empty(),
            false => keyed.inner.keys().any(|key| key.extends(outer)),
        };
        self.get(outer).is_some() || self.keyed.as_deref().is_some_and(inside)
    }

    /// The keys for which there is something, of those that extend this one.
    pub(super) fn keys_inside(&self, outer: &Key) -> Vec<Key> {
        if self.get(outer).is_some() {
            return vec![outer.clone()];
        }
        if outer.is_root() {
            return self.keys(|_| true);
        }
        let inner = self.keyed.iter().flat_map(|keyed| &keyed.inner);
        let inside = inner.filter(|(key, _)| key.extends(outer));
        inside
            .flat_map(|(key, siblings)| siblings.keys().map(|index| key.child(*index)))
            .collect()
    }

    /// The keys for which there is something, of those that `wanted` says yes to.
    pub(super) fn keys(&self, wanted: impl Fn(&Key) -> bool) -> Vec<Key> {
        let keys = self.iter().map(|(key, _)| key);
        keys.filter(|key| wanted(key)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.iter().count()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let root = self.root.iter().map(|value| (Key::ROOT, value));
        let keyed = self.keyed.iter().flat_map(|keyed| {
            let inner = keyed.inner.iter();
            let families = inner.map(|(outer, siblings)| (outer.clone(), siblings));
            families.chain([(Key::ROOT, &keyed.first)])
        });
        root.chain(keyed.flat_map(|(outer, siblings)| {
            let siblings = siblings.iter();
            siblings.map(move |(index, value)| (outer.child(*index), value))
        }))
    }
}

/// The key around one that is not the root.
fn around(key: &Key) -> Key {
    key.prefix(key.depth() - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Keys of one depth, and one of at most that.
    fn steps() -> impl Strategy<Value = Vec<(Key, Key, u32, u32)>> {
        (0usize..4).prop_flat_map(|depth| {
            let path = |length: std::ops::RangeInclusive<usize>| {
                vec(0u32..3, length).prop_map(|path| Key::new(&path))
            };
            vec(
                (path(depth..=depth), path(0..=depth), 0u32..9, 0u32..8),
                0..60,
            )
        })
    }

    fn sorted(map: &PerKey<u32>) -> Vec<(Key, u32)> {
        let mut all: Vec<_> = map.iter().map(|(key, value)| (key, *value)).collect();
        all.sort();
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_is_a_map(steps in steps()) {
            let (mut map, mut expected) = (PerKey::default(), BTreeMap::new());
            for (key, outer, value, step) in steps {
                match step {
                    0..=2 => {
                        map.insert(&key, value);
                        expected.insert(key.clone(), value);
                    }
                    3 => {
                        let made = *map.get_or_insert_with(&key, || value);
                        prop_assert_eq!(made, *expected.entry(key.clone()).or_insert(value));
                    }
                    4 => prop_assert_eq!(map.remove(&key), expected.remove(&key)),
                    5 => {
                        let is_inside = |other: &Key| other.extends(&outer) && *other != outer;
                        let mut removed = Vec::new();
                        map.remove_inside(&outer, |key, value| removed.push((key, value)));
                        removed.sort();
                        let (inside, rest) =
                            expected.into_iter().partition(|(other, _)| is_inside(other));
                        expected = rest;
                        let inside: BTreeMap<Key, u32> = inside;
                        prop_assert_eq!(removed, inside.into_iter().collect::<Vec<_>>());
                    }
                    6 => {
                        map.retain(|other, kept| *kept != value || other.extends(&outer));
                        expected.retain(|other, kept| *kept != value || other.extends(&outer));
                    }
                    _ => {
                        let mut inside = map.keys_inside(&outer);
                        inside.sort();
                        prop_assert_eq!(map.has_inside(&outer), !inside.is_empty());
                        let wanted = expected.keys().filter(|other| other.extends(&outer));
                        prop_assert_eq!(inside, wanted.cloned().collect::<Vec<_>>());
                    }
                }
                prop_assert_eq!(map.get(&key), expected.get(&key));
                prop_assert_eq!(map.get_mut(&key), expected.get_mut(&key));
                prop_assert_eq!(map.len(), expected.len());
                prop_assert!(map.keyed.iter().flat_map(|keyed| keyed.inner.values()).all(|siblings| !siblings.is_empty()));
                prop_assert_eq!(
                    sorted(&map),
                    expected.iter().map(|(key, value)| (key.clone(), *value)).collect::<Vec<_>>()
                );
            }
        }
    }
}
