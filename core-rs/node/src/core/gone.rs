//! Keys of which something was given up: as few numbers as there are gaps.

use std::collections::BTreeMap;

use omniflow_flow::{EdgeId, Key};
use rustc_hash::FxHashMap;

/// Frames that are kept no longer, though the job goes on: whoever needs them again cannot be given them.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    /// By edge and the key around: first to last index, both included.
    spans: FxHashMap<(EdgeId, Key), BTreeMap<u32, u32>>,
}

impl Gone {
    /// What has no index is never given up.
    pub(crate) fn add(&mut self, edge: EdgeId, key: &Key) {
        let Some((outer, index)) = key.split_last() else {
            return;
        };
        let spans = self.spans.entry((edge, outer)).or_default();
        let before = spans
            .range(..=index)
            .next_back()
            .map(|(first, last)| (*first, *last));
        let mut first = index;
        if let Some((start, last)) = before {
            if last >= index {
                return;
            }
            if last + 1 == index {
                first = start;
            }
        }
        let after = index.checked_add(1).and_then(|next| spans.remove(&next));
        spans.insert(first, after.unwrap_or(index));
    }

    /// Whether anything of an edge is gone for this key, or right inside of it.
    pub(crate) fn any(&self, edge: EdgeId, key: &Key) -> bool {
        self.spans.contains_key(&(edge, key.clone()))
            || key.split_last().is_some_and(|(outer, index)| {
                let spans = self.spans.get(&(edge, outer));
                let before = spans.and_then(|spans| spans.range(..=index).next_back());
                before.is_some_and(|(_, last)| *last >= index)
            })
    }

    /// It is sent anew.
    pub(crate) fn forget(&mut self, edge: EdgeId, outer: &Key) {
        let around = outer.split_last().map(|(around, _)| around);
        self.spans.retain(|(of, key), _| {
            *of != edge || !(key.extends(outer) || Some(key) == around.as_ref())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_span() {
        let (mut gone, edge) = (Gone::default(), EdgeId(3));
        for index in [0, 1, 3, 2, 2, 7] {
            gone.add(edge, &Key::new(&[5, index]));
        }
        let spans: Vec<(u32, u32)> = gone
            .spans
            .values()
            .flatten()
            .map(|(a, b)| (*a, *b))
            .collect();
        assert_eq!(spans, [(0, 3), (7, 7)]);
        assert!(gone.any(edge, &Key::new(&[5, 2])) && gone.any(edge, &Key::new(&[5])));
        assert!(!gone.any(edge, &Key::new(&[5, 4])) && !gone.any(EdgeId(1), &Key::new(&[5])));
        gone.forget(edge, &Key::new(&[5]));
        assert!(!gone.any(edge, &Key::new(&[5, 2])));
    }
}
