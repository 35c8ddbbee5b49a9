//! What was sent, kept until the job is over, to be sent again to a consumer that moved or whose link broke.
//!
//! First form of rules 11 and 12: everything of a job is kept until `ReleaseJobs`.

use bytes::Bytes;
use omniflow_flow::{EdgeId, Item, Key};
use rustc_hash::FxHashMap;

/// What an item costs beside its payload.
const ITEM_BYTES: usize = 64;

/// One item as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) epoch: u32,
    pub(crate) item: Item<Bytes>,
}

/// The sent items of one job, by edge and key.
#[derive(Debug, Default)]
pub(crate) struct Retention {
    kept: FxHashMap<(EdgeId, Key), Vec<Kept>>,
    bytes: usize,
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
        let kept = self.kept.entry((edge, key.clone())).or_default();
        kept.push(Kept { epoch, item });
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Edges with something on them, each once per key.
    pub(crate) fn edges(&self) -> impl Iterator<Item = (EdgeId, &Key)> {
        self.kept.keys().map(|(edge, key)| (*edge, key))
    }

    pub(crate) fn of(&self, edge: EdgeId, key: &Key) -> &[Kept] {
        self.kept
            .get(&(edge, key.clone()))
            .map_or(&[], Vec::as_slice)
    }

    /// Forgets what attempts before `epoch` sent. Returns the bytes given back.
    pub(crate) fn forget_older(&mut self, edge: EdgeId, key: &Key, epoch: u32) -> usize {
        let at = (edge, key.clone());
        let Some(kept) = self.kept.get_mut(&at) else {
            return 0;
        };
        let mut bytes = 0;
        kept.retain(|kept| {
            let stays = kept.epoch >= epoch;
            bytes += if stays { 0 } else { Self::cost(&kept.item) };
            stays
        });
        if kept.is_empty() {
            self.kept.remove(&at);
        }
        self.bytes -= bytes;
        bytes
    }
}
