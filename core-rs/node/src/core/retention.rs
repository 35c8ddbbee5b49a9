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
use crate::core::stored::{Freed, Stored};
use crate::ids::PeerIx;
use crate::spill::{Spill, SpillError};

/// One item as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) epoch: u32,
    pub(crate) item: Item<Bytes>,
}

/// One edge and key.
#[derive(Debug, Default)]
struct Sent {
    items: VecDeque<Stored>,
    /// How many were given up from the front.
    dropped: usize,
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
    pub(crate) fn keep(&mut self, edge: EdgeId, key: &Key, stored: Stored) {
        self.bytes += stored.cost();
        let sent = self.sent.entry(edge.0, key);
        sent.items.push_back(stored);
    }

    /// Of the job's quota.
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

    /// What is in memory, which is everything but frames of streams whose reader says how much may come.
    pub(crate) fn of(&self, edge: EdgeId, key: &Key) -> impl Iterator<Item = &Kept> {
        let sent = self.sent.get(edge.0, key).into_iter();
        sent.flat_map(|sent| sent.items.iter().filter_map(Stored::here))
    }

    /// Of such a stream: what went to the reader, and may not have been read.
    pub(crate) fn passed(
        &self,
        edge: EdgeId,
        key: &Key,
        read: u64,
    ) -> impl Iterator<Item = &Stored> {
        let sent = self.sent.get(edge.0, key).into_iter();
        sent.flat_map(move |sent| {
            let read = usize::try_from(read).unwrap_or(usize::MAX);
            let read = read.saturating_sub(sent.dropped);
            sent.items.iter().take(sent.passed).skip(read)
        })
    }

    /// The next item of such a stream that goes to the reader, if it may come. `size`: what there is to read of a payload.
    pub(crate) fn pass(
        &mut self,
        edge: EdgeId,
        key: &Key,
        allowed: Amount,
        spill: &Spill,
        size: impl Fn(&Bytes) -> usize,
    ) -> Result<Option<Kept>, SpillError> {
        let Some(sent) = self.sent.get_mut(edge.0, key) else {
            return Ok(None);
        };
        let next = sent.items.get(sent.passed);
        let may_come = |next: &&Stored| !next.is_frame() || allowed.has_room(sent.amount);
        let Some(next) = next.filter(may_come) else {
            return Ok(None);
        };
        let kept = next.load(spill)?;
        if let Item::Frame { payload, .. } = &kept.item {
            sent.amount = sent.amount.plus(Amount {
                frames: 1,
                bytes: size(payload) as u64,
            });
        }
        sent.passed += 1;
        Ok(Some(kept))
    }

    /// Gives up the oldest frame of such a stream that has been read: the reader cannot run again.
    pub(crate) fn give_up_read(&mut self, edge: EdgeId, key: &Key, read: u64) -> Option<Freed> {
        let sent = self.sent.get_mut(edge.0, key)?;
        let is_read = sent.passed > 0 && (sent.dropped as u64) < read;
        let oldest = sent.items.front().filter(|stored| stored.is_frame());
        oldest.filter(|_| is_read)?;
        sent.passed -= 1;
        sent.dropped += 1;
        let freed: Freed = sent.items.pop_front().into_iter().collect();
        self.bytes -= freed.bytes;
        Some(freed)
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

    /// Forgets what attempts before `epoch` sent.
    pub(crate) fn forget_older(&mut self, edge: EdgeId, key: &Key, epoch: u32) -> Freed {
        let Some(sent) = self.sent.get_mut(edge.0, key) else {
            return Freed::default();
        };
        let items = std::mem::take(&mut sent.items).into_iter();
        let (older, newer): (Vec<_>, Vec<_>) = items.partition(|stored| stored.epoch() < epoch);
        // What is new goes from its beginning, and what of it went already is dropped as repeated.
        *sent = Sent {
            items: newer.into(),
            given: std::mem::take(&mut sent.given),
            spent: sent.spent,
            ..Sent::default()
        };
        if sent.items.is_empty() {
            self.sent.remove(edge.0, key);
        }
        self.let_go(older)
    }

    /// A new attempt sends everything of this key anew: nothing of it counts as gone.
    pub(crate) fn begin_again(&mut self, edge: EdgeId, key: &Key) {
        self.gone.forget(edge, key);
    }

    /// Its reader has ended.
    pub(crate) fn spend(&mut self, edge: EdgeId, key: &Key) -> Freed {
        let mut freed = Freed::default();
        let Some(sent) = self.sent.get_mut(edge.0, key).filter(|sent| !sent.spent) else {
            return freed;
        };
        sent.spent = true;
        let bytes = sent.items.iter().map(Stored::cost).sum();
        self.spent.push(edge, key, bytes);
        while let Some((edge, key)) = self.spent.pop_excess() {
            freed.join(self.drop_spent(edge, &key));
        }
        freed
    }

    /// Its reader runs again.
    pub(crate) fn revive(&mut self, edge: EdgeId, key: &Key) {
        if let Some(sent) = self.sent.get_mut(edge.0, key) {
            sent.spent = false;
        }
    }

    /// Gives up the oldest of what is spent; `None`: nothing is.
    pub(crate) fn give_up(&mut self) -> Option<Freed> {
        let (edge, key) = self.spent.pop()?;
        Some(self.drop_spent(edge, &key))
    }

    /// Whether frames of such a stream were given up.
    pub(crate) fn has_given_up(&self, edge: EdgeId, key: &Key) -> bool {
        let sent = self.sent.get(edge.0, key);
        sent.is_some_and(|sent| sent.dropped > 0)
    }

    /// How many frames of it were kept, and whether that is all there is. `stream`: as opposed to a plain value.
    pub(crate) fn extent(&self, edge: EdgeId, key: &Key, stream: bool) -> (usize, bool) {
        let Some(sent) = self.sent.get(edge.0, key) else {
            return (0, false);
        };
        let marked = sent.items.back().is_some_and(|last| !last.is_frame());
        let frames = sent.dropped + sent.items.len() - usize::from(marked);
        (frames, marked || !stream && frames > 0)
    }

    /// What is kept behind the first frames; none: some of it was given up.
    pub(crate) fn behind(
        &self,
        edge: EdgeId,
        key: &Key,
        frames: usize,
    ) -> Option<impl Iterator<Item = &Stored>> {
        let sent = self.sent.get(edge.0, key)?;
        let kept = frames.checked_sub(sent.dropped)?;
        Some(sent.items.iter().skip(kept))
    }

    /// Whether something for this key, or right inside of it, was given up.
    pub(crate) fn is_gone(&self, edge: EdgeId, key: &Key) -> bool {
        self.gone.any(edge, key) || self.has_given_up(edge, key)
    }

    /// Drops what earlier rounds sent.
    pub(crate) fn drop_rounds_before(&mut self, edge: EdgeId, outer: &Key, round: u32) -> Freed {
        let taken = self.sent.take_rounds_before(edge.0, outer, round);
        self.let_go(taken.into_iter().flat_map(|sent| sent.items))
    }

    /// The job is over.
    pub(crate) fn take_all(&mut self) -> Freed {
        let rows = std::mem::take(&mut self.sent).into_values();
        self.let_go(rows.flat_map(|sent| sent.items))
    }

    fn drop_spent(&mut self, edge: EdgeId, key: &Key) -> Freed {
        if !self.sent.get(edge.0, key).is_some_and(|sent| sent.spent) {
            return Freed::default();
        }
        let sent = self.sent.remove(edge.0, key).unwrap_or_default();
        self.gone.add(edge, key);
        self.let_go(sent.items)
    }

    fn let_go(&mut self, items: impl IntoIterator<Item = Stored>) -> Freed {
        let freed: Freed = items.into_iter().collect();
        self.bytes -= freed.bytes;
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Stored {
        let item = Item::Frame {
            seq: 0,
            payload: vec![7; 100].into(),
        };
        Stored::Here(Kept { epoch: 1, item })
    }

    #[test]
    fn rule_11_what_readers_have_ended_with_is_kept_only_as_far_as_there_is_room() {
        let (mut retention, edge) = (Retention::default(), EdgeId(2));
        let mut held = 0;
        for index in 0..20_000 {
            let key = Key::new(&[index]);
            held += frame().cost();
            retention.keep(edge, &key, frame());
            held -= retention.spend(edge, &key).bytes;
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
        retention.keep(edge, &key, frame());
        assert_eq!(retention.spend(edge, &key).bytes, 0);
        retention.revive(edge, &key);
        assert_eq!(retention.give_up().map(|freed| freed.bytes), Some(0));
        assert!(retention.give_up().is_none());
        assert_eq!(retention.of(edge, &key).count(), 1);
    }

    #[test]
    fn a_loop_of_ten_thousand_rounds_keeps_what_one_round_sends() {
        let (mut retention, edge) = (Retention::default(), EdgeId(0));
        for round in 0..10_000 {
            let _ = retention.drop_rounds_before(edge, &Key::ROOT, round);
            retention.keep(edge, &Key::new(&[round]), frame());
            assert_eq!(retention.items(), 1);
        }
    }
}
