//! What came from elsewhere: a new attempt here begins with it.
//!
//! Producers send everything again when they hear of a new attempt, which may be before this worker does: then it goes to
//! the old attempt, which has it, or has even ended. So it is kept until the job is released, like what was sent.

use std::collections::BTreeMap;

use bytes::Bytes;
use omniflow_flow::{EdgeId, Item, Key};
use rustc_hash::FxHashMap;

use crate::core::retention::Kept;

/// One edge and key: frames by sequence number, and the mark behind them. Of several attempts, the newest counts.
#[derive(Debug, Default)]
struct Arrived {
    frames: BTreeMap<u64, (u32, Bytes)>,
    mark: Option<Kept>,
}

/// See the module. The payloads are shared with the resolver and with activations, and bounded by what producers keep.
#[derive(Debug, Default)]
pub(crate) struct Received {
    arrived: FxHashMap<(EdgeId, Key), Arrived>,
}

impl Received {
    pub(crate) fn keep(&mut self, edge: EdgeId, key: &Key, epoch: u32, item: Item<Bytes>) {
        let arrived = self.arrived.entry((edge, key.clone())).or_default();
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
        let Some(arrived) = self.arrived.get(&(edge, key.clone())) else {
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

    /// Edges on which something came, each once per key.
    pub(crate) fn edges(&self) -> impl Iterator<Item = (EdgeId, &Key)> {
        self.arrived.keys().map(|(edge, key)| (*edge, key))
    }

    /// Forgets what attempts before `epoch` sent.
    pub(crate) fn forget_older(&mut self, edge: EdgeId, key: &Key, epoch: u32) {
        if let Some(arrived) = self.arrived.get_mut(&(edge, key.clone())) {
            arrived.frames.retain(|_, (of, _)| *of >= epoch);
            arrived.mark = arrived.mark.take().filter(|mark| mark.epoch >= epoch);
        }
    }
}
