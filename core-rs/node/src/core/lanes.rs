//! Things by row (an edge, a node) and key, found by key, by what a key is inside of, or by round.

use std::collections::BTreeMap;
use std::ops::Bound;

use omniflow_flow::Key;

/// See the module. What is outside of every scope costs no tree.
#[derive(Debug)]
pub(crate) struct Lanes<T> {
    rows: Vec<Lane<T>>,
}

#[derive(Debug)]
struct Lane<T> {
    root: Option<T>,
    keyed: BTreeMap<Key, T>,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self { rows: Vec::new() }
    }
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self {
            root: None,
            keyed: BTreeMap::new(),
        }
    }
}

impl<T> Lanes<T> {
    pub(crate) fn get(&self, row: u32, key: &Key) -> Option<&T> {
        let lane = self.rows.get(row as usize)?;
        match key.is_root() {
            true => lane.root.as_ref(),
            false => lane.keyed.get(key),
        }
    }

    pub(crate) fn get_mut(&mut self, row: u32, key: &Key) -> Option<&mut T> {
        let lane = self.rows.get_mut(row as usize)?;
        match key.is_root() {
            true => lane.root.as_mut(),
            false => lane.keyed.get_mut(key),
        }
    }

    pub(crate) fn insert(&mut self, row: u32, key: &Key, value: T) -> Option<T> {
        let lane = self.lane(row);
        match key.is_root() {
            true => lane.root.replace(value),
            false => lane.keyed.insert(key.clone(), value),
        }
    }

    pub(crate) fn remove(&mut self, row: u32, key: &Key) -> Option<T> {
        let lane = self.rows.get_mut(row as usize)?;
        match key.is_root() {
            true => lane.root.take(),
            false => lane.keyed.remove(key),
        }
    }

    /// What is there, or a new one.
    pub(crate) fn entry(&mut self, row: u32, key: &Key) -> &mut T
    where
        T: Default,
    {
        let lane = self.lane(row);
        match key.is_root() {
            true => lane.root.get_or_insert_with(T::default),
            false => lane.keyed.entry(key.clone()).or_default(),
        }
    }

    /// Everything, by row.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Key, &T)> {
        let rows = (0..).zip(&self.rows);
        rows.flat_map(|(row, lane)| lane.iter().map(move |(key, value)| (row, key, value)))
    }

    /// Everything, taken out.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        let rows = self.rows.into_iter();
        rows.flat_map(|lane| lane.root.into_iter().chain(lane.keyed.into_values()))
    }

    /// Everything of one row.
    pub(crate) fn of(&self, row: u32) -> impl Iterator<Item = (&Key, &T)> {
        self.rows.get(row as usize).into_iter().flat_map(Lane::iter)
    }

    /// What of a row has a key that is this one or inside of it.
    pub(crate) fn inside<'a>(
        &'a self,
        row: u32,
        outer: &'a Key,
    ) -> impl Iterator<Item = (&'a Key, &'a T)> {
        let lane = self.rows.get(row as usize);
        let root = lane.and_then(|lane| lane.root.as_ref().filter(|_| outer.is_root()));
        let keyed = lane.into_iter().flat_map(move |lane| {
            let from = lane.keyed.range(outer.clone()..);
            from.take_while(move |(key, _)| key.extends(outer))
        });
        root.into_iter()
            .map(|value| (&Key::ROOT, value))
            .chain(keyed)
    }

    /// Takes out what of a row belongs to rounds before `round` of the loop at this key.
    pub(crate) fn take_rounds_before(&mut self, row: u32, outer: &Key, round: u32) -> Vec<T> {
        let Some(lane) = self.rows.get_mut(row as usize) else {
            return Vec::new();
        };
        let mut taken = Vec::new();
        // The first key is looked up again each time: seldom is there more than one round.
        loop {
            let earlier = (
                Bound::Included(outer.child(0)),
                Bound::Excluded(outer.child(round)),
            );
            let Some((key, _)) = lane.keyed.range(earlier).next() else {
                return taken;
            };
            let key = key.clone();
            taken.extend(lane.keyed.remove(&key));
        }
    }

    /// Takes out what of a row has a key that is this one or inside of it.
    pub(crate) fn remove_inside(&mut self, row: u32, outer: &Key) {
        let keys: Vec<Key> = self
            .inside(row, outer)
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.remove(row, &key);
        }
    }

    fn lane(&mut self, row: u32) -> &mut Lane<T> {
        let row = row as usize;
        if self.rows.len() <= row {
            self.rows.resize_with(row + 1, Lane::default);
        }
        &mut self.rows[row]
    }
}

impl<T> Lane<T> {
    fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        let root = self.root.iter().map(|value| (&Key::ROOT, value));
        root.chain(&self.keyed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(lanes: &Lanes<u32>, outer: &[u32]) -> Vec<Vec<u32>> {
        let outer = Key::new(outer);
        let inside = lanes.inside(1, &outer);
        inside.map(|(key, _)| key.path().to_vec()).collect()
    }

    #[test]
    fn what_is_inside_of_a_key_is_found_and_rounds_go_one_after_the_other() {
        let mut lanes = Lanes::default();
        for path in [
            &[][..],
            &[1],
            &[1, 0],
            &[1, 1],
            &[1, 1, 7],
            &[1, 2],
            &[2, 0],
        ] {
            *lanes.entry(1, &Key::new(path)) += 1;
        }
        assert_eq!(keys(&lanes, &[]).len(), 7);
        assert_eq!(keys(&lanes, &[1, 1]), [vec![1, 1], vec![1, 1, 7]]);
        let taken = lanes.take_rounds_before(1, &Key::new(&[1]), 2);
        assert_eq!(taken, [1, 1, 1]);
        assert_eq!(keys(&lanes, &[1]), [vec![1], vec![1, 2]]);
        assert_eq!(lanes.take_rounds_before(9, &Key::ROOT, 2), []);
    }
}
