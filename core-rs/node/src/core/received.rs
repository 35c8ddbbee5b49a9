//! What came from elsewhere: a new attempt here begins with it.
//!
//! Producers send everything again when they hear of a new attempt, which may be before this worker does: then it goes to
//! the old attempt, which has it, or has even ended. So it is kept until the job is released, or, inside of scopes, like
//! what was sent: in full until its reader has ended, then as far as there is room.

use std::collections::BTreeMap;

use bytes::Bytes;
use omniflow_flow::{EdgeId, Item, Key};

use crate::core::lanes::Lanes;
use crate::core::retention::Kept;
use crate::core::spent::Spent;

/// One edge and key: frames by sequence number, and the mark behind them. Of several attempts, the newest counts.
#[derive(Debug, Default)]
struct Arrived {
    frames: BTreeMap<u64, (u32, Bytes)>,
    mark: Option<Kept>,
    spent: bool,
}

/// See the module. The payloads are shared with the resolver and with activations, and bounded by what producers keep.
#[derive(Debug, Default)]
pub(crate) struct Received {
    arrived: Lanes<Arrived>,
    spent: Spent,
}

impl Received {
    pub(crate) fn keep(&mut self, edge: EdgeId, key: &Key, epoch: u32, item: Item<Bytes>) {
        let arrived = self.arrived.entry(edge.0, key);
        match item {
            Item::Frame { seq, payload } => {
                let known = arrived.frames.get(&seq);
                if known.is_none_or(|(known, _)| *known < epoch) {
                    arrived.frames.insert(seq, (epoch, payload));
                }
            }
            mark => {
                let known = arrived.mark.as_ref();
                if known.is_none_or(|known| known.epoch < epoch) {
                    arrived.mark = Some(Kept { epoch, item: mark });
                }
            }
        }
    }

    /// Everything of an edge and key, in sequence.
    pub(crate) fn of(&self, edge: EdgeId, key: &Key) -> Vec<Kept> {
        let Some(arrived) = self.arrived.get(edge.0, key) else {
            return Vec::new();
        };
        let frame = |(seq, (epoch, payload)): (&u64, &(u32, Bytes))| Kept {
            epoch: *epoch,
            item: Item::Frame {
                seq: *seq,
                payload: payload.clone(),
            },
        };
        let frames = arrived.frames.iter().map(frame);
        frames.chain(arrived.mark.clone()).collect()
    }

    /// Items kept.
    pub(crate) fn items(&self) -> usize {
        self.arrived
            .iter()
            .map(|(_, _, arrived)| arrived.items())
            .sum()
    }

    /// The keys of an edge on which something came.
    pub(crate) fn keys(&self, edge: EdgeId) -> impl Iterator<Item = &Key> {
        self.arrived.of(edge.0).map(|(key, _)| key)
    }

    /// The same, of keys that are this one or inside of it.
    pub(crate) fn keys_inside<'a>(
        &'a self,
        edge: EdgeId,
        outer: &'a Key,
    ) -> impl Iterator<Item = &'a Key> {
        self.arrived.inside(edge.0, outer).map(|(key, _)| key)
    }

    /// Forgets what attempts before `epoch` sent.
    pub(crate) fn forget_older(&mut self, edge: EdgeId, key: &Key, epoch: u32) {
        if let Some(arrived) = self.arrived.get_mut(edge.0, key) {
            arrived.frames.retain(|_, (of, _)| *of >= epoch);
            arrived.mark = arrived.mark.take().filter(|mark| mark.epoch >= epoch);
        }
    }

    /// Its reader has ended.
    pub(crate) fn spend(&mut self, edge: EdgeId, key: &Key) {
        let Some(arrived) = self
            .arrived
            .get_mut(edge.0, key)
            .filter(|arrived| !arrived.spent)
        else {
            return;
        };
        arrived.spent = true;
        let bytes = arrived
            .frames
            .values()
            .map(|(_, payload)| payload.len())
            .sum();
        self.spent.push(edge, key, bytes);
        while let Some((edge, key)) = self.spent.pop_excess() {
            if self
                .arrived
                .get(edge.0, &key)
                .is_some_and(|arrived| arrived.spent)
            {
                self.arrived.remove(edge.0, &key);
            }
        }
    }

    /// Its reader runs again.
    pub(crate) fn revive(&mut self, edge: EdgeId, key: &Key) {
        if let Some(arrived) = self.arrived.get_mut(edge.0, key) {
            arrived.spent = false;
        }
    }

    /// Drops what earlier rounds brought.
    pub(crate) fn drop_rounds_before(&mut self, edge: EdgeId, outer: &Key, round: u32) {
        self.arrived.take_rounds_before(edge.0, outer, round);
    }
}

impl Arrived {
    fn items(&self) -> usize {
        self.frames.len() + usize::from(self.mark.is_some())
    }
}
