//! One direction of a link as its sender sees it: what waits, what may have to go again, and the words in between. Pure.

use crate::batch::Batch;
use crate::error::Malformation;
use crate::header::Word;
use crate::message::Message;
use crate::outbox::Outbox;
use crate::sent::Sent;

/// How far the sender is with saying that nothing follows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Finish {
    #[default]
    NotYet,
    Wanted,
    Said,
}

/// See the module. `received` is everywhere the number of pieces that this side has taken of the other direction.
#[derive(Debug)]
pub(crate) struct Outbound {
    outbox: Outbox,
    sent: Sent,
    /// The most bytes that may be under way: what a broken socket can cost in memory.
    window: usize,
    ask: bool,
    /// `Received` must go even when nothing else does.
    owed: bool,
    /// What the peer was last told that this side has.
    told: u64,
    finish: Finish,
}

impl Outbound {
    pub(crate) fn new(window: usize) -> Self {
        Self {
            outbox: Outbox::default(),
            sent: Sent::default(),
            window,
            ask: false,
            owed: false,
            told: 0,
            finish: Finish::NotYet,
        }
    }

    pub(crate) fn push(&mut self, message: Message) {
        self.outbox.push(message);
    }

    /// Whether messages wait to be sent for the first time.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Bytes that wait to be sent for the first time.
    pub(crate) fn queued(&self) -> usize {
        self.outbox.queued()
    }

    /// Bytes that were sent and that the peer has not said it has.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.sent.bytes()
    }

    /// Whether messages wait for the peer to say what it has.
    pub(crate) fn is_held_up(&self) -> bool {
        self.sent.bytes() >= self.window && !self.outbox.is_empty()
    }

    /// Whether the peer has everything that was sent.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.sent.is_empty()
    }

    /// Whether the peer waits to be told what this side has.
    pub(crate) fn owes(&self) -> bool {
        self.owed
    }

    /// Whether `Finish` has gone into a batch since the last `resume`.
    pub(crate) fn has_finished(&self) -> bool {
        self.finish == Finish::Said
    }

    /// The peer has to say something.
    pub(crate) fn ask(&mut self) {
        self.ask = true;
    }

    /// The peer has to be told what this side has.
    pub(crate) fn owe(&mut self) {
        self.owed = true;
    }

    /// Whether the peer was told of all pieces that this side has.
    pub(crate) fn told(&self, received: u64) -> bool {
        received <= self.told
    }

    /// Nothing follows what has been pushed.
    pub(crate) fn finish(&mut self) {
        if self.finish == Finish::NotYet {
            self.finish = Finish::Wanted;
        }
    }

    /// The peer says what it has.
    pub(crate) fn received(&mut self, next: u64) -> Result<(), Malformation> {
        self.sent.received(next)
    }

    /// Whether a peer that has every piece below `next` can go on from there.
    pub(crate) fn covers(&self, next: u64) -> bool {
        self.sent.covers(next)
    }

    /// There is a new socket, on which the peer has said what it has.
    pub(crate) fn resume(&mut self, next: u64) -> Result<(), Malformation> {
        self.sent.rewind(next)?;
        if self.finish == Finish::Said {
            self.finish = Finish::Wanted;
        }
        Ok(())
    }

    /// Moves about `limit` bytes to `batch`: what has to go again before what is new, and words at the end.
    pub(crate) fn fill(&mut self, batch: &mut Batch, limit: usize, received: u64) {
        let before = batch.len();
        if std::mem::take(&mut self.ask) {
            batch.push_slice(&Word::Ask.encode());
        }
        self.sent.resend(batch, limit);
        if !self.sent.is_behind() {
            self.fill_fresh(batch, limit);
        }
        let owed = std::mem::take(&mut self.owed);
        if owed || (received > self.told && batch.len() > before) {
            self.told = received;
            batch.push_slice(&Word::Received(received).encode());
        }
    }

    fn fill_fresh(&mut self, batch: &mut Batch, limit: usize) {
        let room = self.window.saturating_sub(self.sent.bytes());
        let limit = limit.saturating_sub(batch.len()).min(room);
        let sent = &mut self.sent;
        self.outbox.fill(limit, &mut |piece| {
            piece.write(batch);
            sent.keep(piece);
        });
        if self.finish == Finish::Wanted && self.outbox.is_empty() {
            self.finish = Finish::Said;
            batch.push_slice(&Word::Finish(self.outbox.sequence()).encode());
        }
    }

    /// The link is over: nothing is kept.
    pub(crate) fn forget(&mut self) {
        self.outbox = Outbox::default();
        self.sent.forget();
    }
}
