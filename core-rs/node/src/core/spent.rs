//! What is kept only in case that an attempt has to be repeated: its reader has ended. The oldest goes first.

use std::collections::VecDeque;

use omniflow_flow::{EdgeId, Key};

/// The most of it that one job may have here.
const MAX_ENTRIES: usize = 1_024;
const MAX_BYTES: usize = 4 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    queue: VecDeque<(EdgeId, Key, usize)>,
    bytes: usize,
}

impl Spent {
    pub(crate) fn push(&mut self, edge: EdgeId, key: &Key, bytes: usize) {
        self.queue.push_back((edge, key.clone(), bytes));
        self.bytes += bytes;
    }

    /// The oldest, when there is more than may be.
    pub(crate) fn pop_excess(&mut self) -> Option<(EdgeId, Key)> {
        let excess = self.queue.len() > MAX_ENTRIES || self.bytes > MAX_BYTES;
        excess.then(|| self.pop()).flatten()
    }

    /// The oldest.
    pub(crate) fn pop(&mut self) -> Option<(EdgeId, Key)> {
        let (edge, key, bytes) = self.queue.pop_front()?;
        self.bytes -= bytes;
        Some((edge, key))
    }
}
