//! What waits to be written: cuts large messages into pieces and takes turns between them.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::header::{HEADER_BYTES, Header, MAX_BODY_BYTES};
use crate::message::{Message, Piece};

/// How many messages a side may have unfinished at once; bounds what the other side has to hold.
pub(crate) const MAX_OPEN: usize = 16;

/// A message of several pieces, and the later ones of its stream, which must not overtake it.
#[derive(Debug)]
struct Bulk {
    message: Message,
    begun: bool,
    behind: VecDeque<Message>,
}

/// The queue of one link.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    fresh: VecDeque<Message>,
    open: VecDeque<Bulk>,
    waiting: VecDeque<Bulk>,
    queued: usize,
    sequence: u64,
}

impl Outbox {
    /// Bytes that wait, an estimate of the headers included.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// The number of the next piece.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.open.is_empty() && self.waiting.is_empty()
    }

    pub(crate) fn push(&mut self, message: Message) {
        self.queued += cost(&message);
        self.fresh.push_back(message);
    }

    /// Hands about `limit` bytes to `sink`, piece by piece, and at least one piece when there is one.
    ///
    /// A round takes a piece of each open bulk and then as many bytes of small messages: neither side starves.
    pub(crate) fn fill(&mut self, limit: usize, sink: &mut impl FnMut(Piece)) {
        let mut filled = 0;
        while filled < limit && !self.is_empty() {
            filled += self.fill_fresh(sink);
            filled += self.fill_bulk(limit.saturating_sub(filled), sink);
        }
    }

    fn fill_fresh(&mut self, sink: &mut impl FnMut(Piece)) -> usize {
        let mut filled = 0;
        while filled < MAX_BODY_BYTES {
            let Some(message) = self.fresh.pop_front() else {
                break;
            };
            if let Some(bulk) = self.bulk_of(message.stream) {
                bulk.behind.push_back(message);
            } else if message.len() > MAX_BODY_BYTES {
                self.begin(message);
            } else {
                filled += cost(&message);
                sink(self.whole(message));
            }
        }
        filled
    }

    fn fill_bulk(&mut self, limit: usize, sink: &mut impl FnMut(Piece)) -> usize {
        let mut filled = 0;
        for _ in 0..self.open.len() {
            if filled >= limit {
                break;
            }
            let Some(mut bulk) = self.open.pop_front() else {
                break;
            };
            let piece = self.next_piece(&mut bulk);
            filled += piece.wire_bytes();
            if piece.header.last {
                self.finish(bulk);
            } else {
                self.open.push_back(bulk);
            }
            sink(piece);
        }
        filled
    }

    fn bulk_of(&mut self, stream: u32) -> Option<&mut Bulk> {
        let all = self.open.iter_mut().chain(self.waiting.iter_mut());
        all.into_iter().find(|bulk| bulk.message.stream == stream)
    }

    fn begin(&mut self, message: Message) {
        let bulk = Bulk {
            message,
            begun: false,
            behind: VecDeque::new(),
        };
        if self.open.len() < MAX_OPEN {
            self.open.push_back(bulk);
        } else {
            self.waiting.push_back(bulk);
        }
    }

    /// The bulk's message is out: what it held up goes to the front, in order.
    fn finish(&mut self, bulk: Bulk) {
        for message in bulk.behind.into_iter().rev() {
            self.fresh.push_front(message);
        }
        if let Some(next) = self.waiting.pop_front() {
            self.open.push_back(next);
        }
    }

    fn header(&mut self, message: &Message, length: usize, first: bool, last: bool) -> Header {
        let sequence = self.sequence;
        self.sequence += 1;
        Header {
            length,
            kind: message.kind,
            first,
            last,
            stream: message.stream,
            sequence,
        }
    }

    fn whole(&mut self, message: Message) -> Piece {
        self.queued -= cost(&message);
        Piece {
            header: self.header(&message, message.len(), true, true),
            head: message.head,
            body: message.body,
        }
    }

    fn next_piece(&mut self, bulk: &mut Bulk) -> Piece {
        let length = bulk.message.len().min(MAX_BODY_BYTES);
        let head = take(&mut bulk.message.head, length);
        let body = take(&mut bulk.message.body, length - head.len());
        let last = bulk.message.is_empty();
        let header = self.header(&bulk.message, length, !bulk.begun, last);
        bulk.begun = true;
        self.queued -= length + if last { HEADER_BYTES } else { 0 };
        Piece { header, head, body }
    }
}

fn cost(message: &Message) -> usize {
    message.len() + HEADER_BYTES
}

fn take(bytes: &mut Bytes, length: usize) -> Bytes {
    bytes.split_to(length.min(bytes.len()))
}
