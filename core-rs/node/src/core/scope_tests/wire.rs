//! What is on its way from one process to another: in order within a stream of the link, in any order among streams.

use std::collections::VecDeque;

use omniflow_wire::LinkMessage;

use crate::ids::PeerIx;

#[derive(Default)]
pub(super) struct Wire {
    queue: VecDeque<LinkMessage>,
    pub(super) peer: Option<PeerIx>,
    pub(super) up: bool,
}

impl Wire {
    pub(super) fn push(&mut self, message: LinkMessage) {
        self.queue.push_back(message);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
    }

    /// One message that none before it in its stream waits for.
    pub(super) fn pop(&mut self, choice: usize) -> Option<LinkMessage> {
        let chosen = choice.checked_rem(self.queue.len())?;
        let stream = stream(&self.queue[chosen]);
        let first = self
            .queue
            .iter()
            .position(|message| self::stream(message) == stream)?;
        self.queue.remove(first)
    }
}

/// Control messages keep their order; frames of an edge and key theirs.
fn stream(message: &LinkMessage) -> Option<(u32, Vec<u32>)> {
    match message {
        LinkMessage::Frame(frame) => Some((frame.header.edge, frame.header.key.clone())),
        _ => None,
    }
}
