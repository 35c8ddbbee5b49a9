//! One thing per key, with the root key on the fast side: most nodes are outside every fan-out.

use rustc_hash::FxHashMap;

use crate::key::Key;

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

    pub(super) fn insert(&mut self, key: &Key, value: T) {
        if key.is_root() {
            self.root = Some(value);
        } else {
            self.others.insert(key.clone(), value);
        }
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<T> {
        if key.is_root() {
            self.root.take()
        } else {
            self.others.remove(key)
        }
    }

    /// Keeps what `keep` says yes to.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Key, &mut T) -> bool) {
        if self
            .root
            .as_mut()
            .is_some_and(|root| !keep(&Key::ROOT, root))
        {
            self.root = None;
        }
        self.others.retain(|key, value| keep(key, value));
    }

    /// The keys for which there is something, of those that `wanted` says yes to.
    pub(super) fn keys(&self, wanted: impl Fn(&Key) -> bool) -> Vec<Key> {
        let keys = self.iter().map(|(key, _)| key);
        keys.filter(|key| wanted(key)).cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.root.is_some()) + self.others.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        self.root
            .iter()
            .map(|value| (&Key::ROOT, value))
            .chain(&self.others)
    }
}
