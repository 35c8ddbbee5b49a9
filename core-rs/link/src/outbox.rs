//! What waits to be written: cuts large messages into pieces and takes turns between them.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::batch::Batch;
use crate::header::{HEADER_BYTES, Header, MAX_BODY_BYTES};
use crate::message::Message;

/// How many messages a side may have unfinished at once; bounds what the other side has to hold.
pub(crate) const MAX_OPEN: usize = 16;

/// A message of several pieces, and the later ones of its stream, which must not overtake it.
#[derive(Debug)]
struct Bulk {
    message: Message,
    begun: bool,
    behind: VecDeque<Message>,
}

/// The queue of one link. Pure: bytes go to a [`Batch`].
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

    pub(crate) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.open.is_empty() && self.waiting.is_empty()
    }

    pub(crate) fn push(&mut self, message: Message) {
        self.queued += cost(&message);
        self.fresh.push_back(message);
    }

    /// Moves about `limit` bytes to `batch`, and at least one piece when there is one.
    ///
    /// A round takes a piece of each open bulk and then as many bytes of small messages: neither side starves.
    pub(crate) fn fill(&mut self, batch: &mut Batch, limit: usize) {
        while batch.len() < limit && !self.is_empty() {
            self.fill_fresh(batch);
            self.fill_bulk(batch, limit);
        }
    }

    fn fill_fresh(&mut self, batch: &mut Batch) {
        let until = batch.len() + MAX_BODY_BYTES;
        while batch.len() < until {
            let Some(message) = self.fresh.pop_front() else {
                return;
            };
            if let Some(bulk) = self.bulk_of(message.stream) {
                bulk.behind.push_back(message);
            } else if message.len() > MAX_BODY_BYTES {
                self.begin(message);
            } else {
                self.write_whole(message, batch);
            }
        }
    }

    fn fill_bulk(&mut self, batch: &mut Batch, limit: usize) {
        for _ in 0..self.open.len() {
            if batch.len() >= limit {
                return;
            }
            let Some(mut bulk) = self.open.pop_front() else {
                return;
            };
            if self.write_piece(&mut bulk, batch) {
                self.finish(bulk);
            } else {
                self.open.push_back(bulk);
            }
        }
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

    fn write_whole(&mut self, message: Message, batch: &mut Batch) {
        self.queued -= cost(&message);
        let header = self.header(&message, message.len(), true, true);
        batch.push_slice(&header.encode());
        batch.push(message.head);
        batch.push(message.body);
    }

    /// Writes one piece; true when it was the last.
    fn write_piece(&mut self, bulk: &mut Bulk, batch: &mut Batch) -> bool {
        let length = bulk.message.len().min(MAX_BODY_BYTES);
        let head = take(&mut bulk.message.head, length);
        let body = take(&mut bulk.message.body, length - head.len());
        let last = bulk.message.is_empty();
        let header = self.header(&bulk.message, length, !bulk.begun, last);
        bulk.begun = true;
        self.queued -= length + if last { HEADER_BYTES } else { 0 };
        batch.push_slice(&header.encode());
        batch.push(head);
        batch.push(body);
        last
    }
}

fn cost(message: &Message) -> usize {
    message.len() + HEADER_BYTES
}

fn take(bytes: &mut Bytes, length: usize) -> Bytes {
    bytes.split_to(length.min(bytes.len()))
}
