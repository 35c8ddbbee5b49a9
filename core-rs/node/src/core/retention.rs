//! What was sent, kept to be sent again to a consumer that is bound later, has moved, or whose link broke (rule 11).
//!
//! Once its reader has ended it is *spent*: kept only for a reader that has to run again, as far as there is room. What
//! belongs to an earlier round of a loop is dropped at once, for rounds follow one another.

use std::collections::VecDeque;

use bytes::Bytes;
use omniflow_flow::{EdgeId, Item, Key};

use crate::core::credits::Amount;
use crate::core::gone::Gone;
use crate::core::lanes::Lanes;
use crate::core::spent::Spent;
use crate::ids::PeerIx;

/// What an item costs beside its payload.
const ITEM_BYTES: usize = 64;

/// One item as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) epoch: u32,
    pub(crate) item: Item<Bytes>,
}

/// One edge and key.
#[derive(Debug, Default)]
struct Sent {
    items: VecDeque<Kept>,
    /// Of a stream whose reader says how much may come: how many items went to it, and what it has to read of them.
    passed: usize,
    amount: Amount,
    /// What is for every place of a scope: those that have had it.
    given: Vec<PeerIx>,
    spent: bool,
}

/// The sent items of one job, by edge and key.
#[derive(Debug, Default)]
pub(crate) struct Retention {
    sent: Lanes<Sent>,
    bytes: usize,
    spent: Spent,
    gone: Gone,
}

impl Retention {
    /// What `keep` would add.
    pub(crate) fn cost(item: &Item<Bytes>) -> usize {
        match item {
            Item::Frame { payload, .. } => ITEM_BYTES + payload.len(),
            Item::End { .. } | Item::Closed => ITEM_BYTES,
        }
    }

    pub(crate) fn keep(&mut self, edge: EdgeId, key: &Key, epoch: u32, item: Item<Bytes>) {
        self.bytes += Self::cost(&item);
        let sent = self.sent.entry(edge.0, key);
        sent.items.push_back(Kept { epoch, item });
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Items kept.
    pub(crate) fn items(&self) -> usize {
        self.sent.iter().map(|(_, _, sent)| sent.items.len()).sum()
    }

    /// Edges with something on them, each once per key.
    pub(crate) fn edges(&self) -> impl Iterator<Item = (EdgeId, &Key)> {
        self.sent.iter().map(|(edge, key, _)| (EdgeId(edge), key))
    }

    /// The keys of an edge with something on them.
    pub(crate) fn keys(&self, edge: EdgeId) -> impl Iterator<Item = &Key> {
        self.sent.of(edge.0).map(|(key, _)| key)
    }

    /// The same, of keys that are this one or inside of it.
    pub(crate) fn keys_inside<'a>(
        &'a self,
        edge: EdgeId,
        outer: &'a Key,
    ) -> impl Iterator<Item = &'a Key> {
        self.sent.inside(edge.0, outer).map(|(key, _)| key)
    }

    pub(crate) fn of(&self, edge: EdgeId, key: &Key) -> impl Iterator<Item = &Kept> {
        let sent = self.sent.get(edge.0, key).into_iter();
        sent.flat_map(|sent| &sent.items)
    }

    /// The same, as far as it went to the reader of a stream that says how much may come.
    pub(crate) fn passed(&self, edge: EdgeId, key: &Key) -> impl Iterator<Item = &Kept> {
        let sent = self.sent.get(edge.0, key).into_iter();
        sent.flat_map(|sent| sent.items.iter().take(sent.passed))
    }

    /// The next item that goes to the reader, if it may come. `size`: what there is to read of a payload.
    pub(crate) fn pass(
        &mut self,
        edge: EdgeId,
        key: &Key,
        allowed: Amount,
        size: impl Fn(&Bytes) -> usize,
    ) -> Option<Kept> {
        let sent = self.sent.get_mut(edge.0, key)?;
        let kept = sent.items.get(sent.passed)?;
        if let Item::Frame { payload, .. } = &kept.item {
            if !allowed.has_room(sent.amount) {
                return None;
            }
            sent.amount = sent.amount.plus(Amount {
                frames: 1,
                bytes: size(payload) as u64,
            });
        }
        sent.passed += 1;
        Some(kept.clone())
    }

    /// A new attempt of the reader has had nothing.
    pub(crate) fn rewind(&mut self, edge: EdgeId, key: &Key) {
        if let Some(sent) = self.sent.get_mut(edge.0, key) {
            sent.passed = 0;
            sent.amount = Amount::default();
        }
    }

    /// It goes to one more place of those that all get it. False: it went there before.
    pub(crate) fn give(&mut self, edge: EdgeId, key: &Key, peer: PeerIx) -> bool {
        let Some(sent) = self.sent.get_mut(edge.0, key) else {
            return false;
        };
        let new = !sent.given.contains(&peer);
        if new {
            sent.given.push(peer);
        }
        new
    }

    /// Forgets what attempts before `epoch` sent. Returns the bytes given back.
    pub(crate) fn forget_older(&mut self, edge: EdgeId, key: &Key, epoch: u32) -> usize {
        let Some(sent) = self.sent.get_mut(edge.0, key) else {
            return 0;
        };
        let mut bytes = 0;
        sent.items.retain(|kept| {
            let stays = kept.epoch >= epoch;
            bytes += if stays { 0 } else { Self::cost(&kept.item) };
            stays
        });
        // What is new goes from its beginning, and what of it went already is dropped as repeated.
        sent.passed = 0;
        sent.amount = Amount::default();
        if sent.items.is_empty() {
            self.sent.remove(edge.0, key);
        }
        self.bytes -= bytes;
        bytes
    }

    /// A new attempt sends everything of this key anew: nothing of it counts as gone.
    pub(crate) fn begin_again(&mut self, edge: EdgeId, key: &Key) {
        self.gone.forget(edge, key);
    }

    /// Its reader has ended. Returns the bytes given back.
    pub(crate) fn spend(&mut self, edge: EdgeId, key: &Key) -> usize {
        let Some(sent) = self.sent.get_mut(edge.0, key).filter(|sent| !sent.spent) else {
            return 0;
        };
        sent.spent = true;
        let bytes = sent.items.iter().map(|kept| Self::cost(&kept.item)).sum();
        self.spent.push(edge, key, bytes);
        let mut freed = 0;
        while let Some((edge, key)) = self.spent.pop_excess() {
            freed += self.drop_spent(edge, &key);
        }
        freed
    }

    /// Its reader runs again.
    pub(crate) fn revive(&mut self, edge: EdgeId, key: &Key) {
        if let Some(sent) = self.sent.get_mut(edge.0, key) {
            sent.spent = false;
        }
    }

    /// Gives up the oldest of what is spent. Returns the bytes given back; `None`: nothing is.
    pub(crate) fn give_up(&mut self) -> Option<usize> {
        let (edge, key) = self.spent.pop()?;
        Some(self.drop_spent(edge, &key))
    }

    /// Whether something for this key, or right inside of it, was given up.
    pub(crate) fn is_gone(&self, edge: EdgeId, key: &Key) -> bool {
        self.gone.any(edge, key)
    }

    /// Drops what earlier rounds sent. Returns the bytes given back.
    pub(crate) fn drop_rounds_before(&mut self, edge: EdgeId, outer: &Key, round: u32) -> usize {
        let taken = self.sent.take_rounds_before(edge.0, outer, round);
        let items = taken.iter().flat_map(|sent| &sent.items);
        let bytes = items.map(|kept| Self::cost(&kept.item)).sum();
        self.bytes -= bytes;
        bytes
    }

    fn drop_spent(&mut self, edge: EdgeId, key: &Key) -> usize {
        if !self.sent.get(edge.0, key).is_some_and(|sent| sent.spent) {
            return 0;
        }
        let sent = self.sent.remove(edge.0, key).unwrap_or_default();
        let bytes = sent.items.iter().map(|kept| Self::cost(&kept.item)).sum();
        self.gone.add(edge, key);
        self.bytes -= bytes;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Item<Bytes> {
        Item::Frame {
            seq: 0,
            payload: vec![7; 100].into(),
        }
    }

    #[test]
    fn rule_11_what_readers_have_ended_with_is_kept_only_as_far_as_there_is_room() {
        let (mut retention, edge) = (Retention::default(), EdgeId(2));
        let mut held = 0;
        for index in 0..20_000 {
            let key = Key::new(&[index]);
            held += Retention::cost(&frame());
            retention.keep(edge, &key, 1, frame());
            held -= retention.spend(edge, &key);
            assert_eq!(held, retention.bytes());
        }
        assert!(retention.items() <= 1_024);
        assert!(retention.is_gone(edge, &Key::new(&[0])));
        let last = Key::new(&[19_999]);
        assert!(!retention.is_gone(edge, &last) && retention.of(edge, &last).count() == 1);
    }

    #[test]
    fn what_is_read_again_is_not_given_up() {
        let (mut retention, edge, key) = (Retention::default(), EdgeId(0), Key::new(&[0]));
        retention.keep(edge, &key, 1, frame());
        retention.spend(edge, &key);
        retention.revive(edge, &key);
        assert_eq!(retention.give_up(), Some(0));
        assert_eq!(retention.give_up(), None);
        assert_eq!(retention.of(edge, &key).count(), 1);
    }

    #[test]
    fn a_loop_of_ten_thousand_rounds_keeps_what_one_round_sends() {
        let (mut retention, edge) = (Retention::default(), EdgeId(0));
        for round in 0..10_000 {
            retention.drop_rounds_before(edge, &Key::ROOT, round);
            retention.keep(edge, &Key::new(&[round]), 1, frame());
            assert_eq!(retention.items(), 1);
        }
    }
}
