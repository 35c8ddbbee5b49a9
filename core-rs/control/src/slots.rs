//! All binds of a job, by node and key.
//!
//! Binds outside of fan-outs are in a list by node: flows without fan-outs touch nothing else. Those inside are in a map by
//! key, which lives until their scope has ended: about 64 bytes for each, whatever becomes of them. Until then a lost worker
//! may take values with it that others still wait for, and which binds those were must be known.

use std::collections::BTreeMap;

use omniflow_flow::Key;

use crate::slot::{Slot, Stand};

static ROOT: Key = Key::ROOT;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    once: Box<[Slot]>,
    /// By node; empty before the first bind in a fan-out.
    keyed: Vec<BTreeMap<Key, Slot>>,
}

impl Slots {
    /// Nobody has asked for any of them.
    pub(crate) fn new(nodes: usize, epoch: u32) -> Self {
        Self {
            once: vec![Slot::new(epoch, Stand::Unasked); nodes].into(),
            keyed: Vec::new(),
        }
    }

    pub(crate) fn get(&self, node: usize, key: &Key) -> Option<&Slot> {
        if key.is_root() {
            return self.once.get(node);
        }
        self.keyed.get(node)?.get(key)
    }

    pub(crate) fn get_mut(&mut self, node: usize, key: &Key) -> Option<&mut Slot> {
        if key.is_root() {
            return self.once.get_mut(node);
        }
        self.keyed.get_mut(node)?.get_mut(key)
    }

    pub(crate) fn put(&mut self, node: usize, key: &Key, slot: Slot) {
        if key.is_root() {
            if let Some(place) = self.once.get_mut(node) {
                *place = slot;
            }
            return;
        }
        if self.keyed.is_empty() {
            self.keyed.resize_with(self.once.len(), BTreeMap::new);
        }
        if let Some(keyed) = self.keyed.get_mut(node) {
            keyed.insert(key.clone(), slot);
        }
    }

    pub(crate) fn remove(&mut self, node: usize, key: &Key) {
        if let Some(keyed) = self.keyed.get_mut(node) {
            keyed.remove(key);
        }
    }

    /// Every bind that was ever asked for or closed, by node and key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Key, &Slot)> {
        let once = self.once.iter().enumerate();
        let once = once.map(|(node, slot)| (node, &ROOT, slot));
        let keyed = self.keyed.iter().enumerate().flat_map(|(node, keyed)| {
            let of_node = keyed.iter();
            of_node.map(move |(key, slot)| (node, key, slot))
        });
        once.filter(|(_, _, slot)| slot.stand != Stand::Unasked)
            .chain(keyed)
    }

    /// Those of a node whose keys extend `prefix`.
    pub(crate) fn under(&self, node: usize, prefix: &Key) -> impl Iterator<Item = (&Key, &Slot)> {
        let once = self.once.get(node).filter(|_| prefix.is_root());
        let once = once.filter(|slot| slot.stand != Stand::Unasked);
        let keyed = self.keyed.get(node).into_iter();
        let keyed = keyed.flat_map(|keyed| keyed.range(prefix.clone()..));
        let prefix = prefix.clone();
        once.map(|slot| (&ROOT, slot))
            .into_iter()
            .chain(keyed.take_while(move |(key, _)| key.extends(&prefix)))
    }

    /// Those in fan-outs are of no interest any more.
    pub(crate) fn forget_keyed(&mut self) {
        self.keyed = Vec::new();
    }

    /// By node, those outside of fan-outs.
    pub(crate) fn once(&self) -> &[Slot] {
        &self.once
    }
}
