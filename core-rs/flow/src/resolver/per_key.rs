//! One thing per key, with the root key on the fast side: most nodes are outside every fan-out.

use rustc_hash::FxHashMap;

use crate::ids::Key;

/// A map from keys. Nothing is allocated for the root.
#[derive(Debug)]
pub(super) struct PerKey<T> {
    root: Option<T>,
    others: FxHashMap<Key, T>,
}

impl<T> Default for PerKey<T> {
    fn default() -> Self {
        Self {
            root: None,
            others: FxHashMap::default(),
        }
    }
}

impl<T> PerKey<T> {
    pub(super) fn get(&self, key: &Key) -> Option<&T> {
        if key.is_root() {
            self.root.as_ref()
        } else {
            self.others.get(key)
        }
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut T> {
        if key.is_root() {
            self.root.as_mut()
        } else {
            self.others.get_mut(key)
        }
    }

    pub(super) fn get_or_insert_with(&mut self, key: &Key, make: impl FnOnce() -> T) -> &mut T {
        if key.is_root() {
            self.root.get_or_insert_with(make)
        } else {
            self.others.entry(key.clone()).or_insert_with(make)
        }
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if key.is_root() {
            self.root = None;
        } else {
            self.others.remove(key);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        self.root
            .iter()
            .map(|value| (&Key::ROOT, value))
            .chain(&self.others)
    }
}
