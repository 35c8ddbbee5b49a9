//! The receiving end of one edge for one key: puts frames into sequence, drops what is double or of an earlier attempt,
//! and compares what a later attempt says again with what was delivered (rules 8 and 12).

use std::collections::{BTreeMap, VecDeque};

use crate::effect::Arrival;
use crate::item::Item;
use crate::payload::Payload;

use super::digests::Digests;

/// How far ahead of a missing frame others are kept. Links keep their order, so a gap is short where it occurs at all.
const WINDOW: u64 = 65_536;

/// See the module.
#[derive(Debug)]
pub(super) struct Inlet<P> {
    stream: bool,
    optional: bool,
    /// Its producer is resumable: what was delivered is kept, for a new attempt to go on from (rule 12).
    keeps: bool,
    state: State,
    /// Highest epoch seen of the producer.
    epoch: u32,
    /// Frames delivered: the next one in sequence has this number.
    next: u64,
    /// Of a plain port: the one frame until it is handed on, and its digest. Nothing is allocated for it.
    held: Option<P>,
    digest: u64,
    /// Of a stream: what came.
    sequence: Option<Box<Sequence<P>>>,
}

/// Of a stream.
#[derive(Debug)]
struct Sequence<P> {
    /// Of the delivered frames.
    digests: Digests,
    /// Delivered, but not yet handed on.
    held: VecDeque<P>,
    /// Of a resumable producer: all that was delivered, with its state.
    kept: Vec<P>,
    /// Arrived ahead of a missing one.
    ahead: BTreeMap<u64, P>,
    /// The count of an END that arrived ahead of a missing frame.
    end: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// All frames were delivered.
    Ended,
    Closed,
    /// Nobody reads it.
    Refused,
}

/// What one item did to an inlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taking {
    pub(super) arrival: Arrival,
    /// Where a later attempt differs from what was delivered.
    pub(super) contradiction: Option<u64>,
    /// The first frame was delivered, or the inlet ended or closed: triggers must be looked at again.
    pub(super) turned: bool,
}

impl Taking {
    fn dropped(arrival: Arrival) -> Self {
        Self {
            arrival,
            contradiction: None,
            turned: false,
        }
    }

    fn repeated(contradiction: Option<u64>) -> Self {
        Self {
            arrival: Arrival::Duplicate,
            contradiction,
            turned: false,
        }
    }

    fn taken(turned: bool) -> Self {
        Self {
            arrival: Arrival::Taken,
            contradiction: None,
            turned,
        }
    }
}

impl<P> Default for Sequence<P> {
    fn default() -> Self {
        Self {
            digests: Digests::default(),
            held: VecDeque::new(),
            kept: Vec::new(),
            ahead: BTreeMap::new(),
            end: None,
        }
    }
}

impl<P: Payload> Sequence<P> {
    fn deliver(&mut self, payload: P, keeps: bool) {
        if !keeps {
            self.digests.push(payload.digest());
            return self.held.push_back(payload);
        }
        let shown = payload.shown();
        self.digests.push(shown.digest());
        self.held.push_back(shown);
        self.kept.push(payload.kept());
    }
}

impl<P: Payload> Inlet<P> {
    pub(super) fn new(stream: bool, optional: bool) -> Self {
        Self {
            stream,
            optional,
            keeps: false,
            state: State::Open,
            epoch: 0,
            next: 0,
            held: None,
            digest: 0,
            sequence: None,
        }
    }

    /// Keeps what is delivered, if its producer can go on from it.
    pub(super) fn keeping(self, keeps: bool) -> Self {
        Self { keeps, ..self }
    }

    /// What was delivered, where that is kept, and whether END was, too.
    pub(super) fn delivered(&self) -> Option<(&[P], bool)> {
        let kept = self.sequence.as_deref().map(|sequence| &sequence.kept[..]);
        let delivered = (kept.unwrap_or_default(), self.ended().is_some());
        self.keeps.then_some(delivered)
    }

    /// Takes one item in. An error says how the item breaks the protocol; then nothing has changed.
    pub(super) fn take(&mut self, epoch: u32, item: Item<P>) -> Result<Taking, &'static str> {
        self.fits_type(&item)?;
        if self.state == State::Refused {
            return Ok(Taking::dropped(Arrival::Unwanted));
        }
        if epoch < self.epoch {
            return Ok(Taking::dropped(Arrival::Stale));
        }
        self.fits_window(&item)?;
        self.restart(epoch);
        match item {
            Item::Frame { seq, payload } => self.take_frame(seq, payload),
            Item::End { count } => self.take_end(count),
            Item::Closed => self.take_closed(),
        }
    }

    fn fits_type(&self, item: &Item<P>) -> Result<(), &'static str> {
        match item {
            Item::Frame { seq, .. } if !self.stream && *seq > 0 => {
                Err("a second frame on a plain edge")
            }
            Item::End { .. } if !self.stream => Err("END on a plain edge"),
            _ => Ok(()),
        }
    }

    fn fits_window(&self, item: &Item<P>) -> Result<(), &'static str> {
        match item {
            Item::Frame { seq, .. } if *seq >= self.next.saturating_add(WINDOW) => {
                Err("a frame too far ahead of a missing one")
            }
            _ => Ok(()),
        }
    }

    /// From this epoch of the producer on: drops what an earlier one sent and what was not delivered.
    pub(super) fn restart(&mut self, epoch: u32) {
        if epoch > self.epoch {
            self.epoch = epoch;
            if let Some(sequence) = &mut self.sequence {
                sequence.ahead.clear();
                sequence.end = None;
                sequence.digests.restart();
            }
        }
    }

    fn take_frame(&mut self, seq: u64, payload: P) -> Result<Taking, &'static str> {
        if seq < self.next {
            let digest = match self.keeps {
                true => payload.shown().digest(),
                false => payload.digest(),
            };
            return Ok(Taking::repeated(self.compare(seq, digest)));
        }
        if self.state != State::Open {
            return Ok(Taking::repeated(Some(self.next)));
        }
        if !self.stream {
            self.digest = payload.digest();
            self.held = Some(payload);
            (self.next, self.state) = (1, State::Ended);
            return Ok(Taking::taken(true));
        }
        let first = self.next == 0;
        let sequence = self.sequence.get_or_insert_default();
        if sequence.end.is_some_and(|count| seq >= count) {
            return Err("a frame past END");
        }
        if seq > self.next {
            if sequence.ahead.contains_key(&seq) {
                return Ok(Taking::repeated(None));
            }
            sequence.ahead.insert(seq, payload);
            return Ok(Taking::taken(false));
        }
        sequence.deliver(payload, self.keeps);
        self.next += 1;
        while let Some(payload) = sequence.ahead.remove(&self.next) {
            sequence.deliver(payload, self.keeps);
            self.next += 1;
        }
        if sequence.end == Some(self.next) {
            sequence.end = None;
            self.state = State::Ended;
        }
        Ok(Taking::taken(first || self.state == State::Ended))
    }

    /// Where what is said again differs from what was delivered.
    fn compare(&mut self, seq: u64, digest: u64) -> Option<u64> {
        match &mut self.sequence {
            None => (self.digest != digest).then_some(seq),
            Some(sequence) => sequence.digests.compare(seq, digest),
        }
    }

    /// The count of an END that is ahead of a missing frame.
    fn end_ahead(&self) -> Option<u64> {
        self.sequence.as_ref()?.end
    }

    /// The highest number that arrived ahead of a missing one.
    fn last_ahead(&self) -> Option<u64> {
        let ahead = &self.sequence.as_ref()?.ahead;
        ahead.last_key_value().map(|(seq, _)| *seq)
    }

    fn take_end(&mut self, count: u64) -> Result<Taking, &'static str> {
        match self.state {
            State::Ended if count == self.next => return Ok(Taking::repeated(None)),
            State::Ended | State::Closed => {
                return Ok(Taking::repeated(Some(count.min(self.next))));
            }
            State::Open | State::Refused => {}
        }
        if count < self.next {
            return Ok(Taking::repeated(Some(count)));
        }
        if self.last_ahead().is_some_and(|last| last >= count) {
            return Err("END before a frame that was sent");
        }
        match self.end_ahead() {
            Some(known) if known == count => return Ok(Taking::repeated(None)),
            Some(_) => return Err("two ENDs that differ"),
            None => {}
        }
        if count == self.next {
            self.state = State::Ended;
        } else {
            self.sequence.get_or_insert_default().end = Some(count);
        }
        Ok(Taking::taken(self.state == State::Ended))
    }

    fn take_closed(&mut self) -> Result<Taking, &'static str> {
        if self.state == State::Closed {
            return Ok(Taking::repeated(None));
        }
        if self.next > 0 || self.state == State::Ended {
            return Ok(Taking::repeated(Some(0)));
        }
        if self.waits() {
            return Err("CLOSED after frames");
        }
        self.state = State::Closed;
        Ok(Taking::taken(true))
    }

    /// Nobody will read it: frees what it holds. Whether its producer is worth telling: it may still be sending.
    pub(super) fn refuse(&mut self) -> bool {
        let sending = self.state == State::Open && self.end_ahead().is_none();
        *self = Self {
            state: State::Refused,
            epoch: self.epoch,
            ..Self::new(self.stream, self.optional)
        };
        sending
    }

    /// The next delivered frame that was not handed on, with its sequence number.
    pub(super) fn hand_on(&mut self) -> Option<(u64, P)> {
        let Some(sequence) = &mut self.sequence else {
            return self.held.take().map(|payload| (0, payload));
        };
        let seq = self.next - sequence.held.len() as u64;
        sequence.held.pop_front().map(|payload| (seq, payload))
    }

    /// Whether its alternative may fire as far as this port goes (rules 1 and 2).
    pub(super) fn ready(&self) -> bool {
        match self.state {
            State::Closed => self.optional,
            State::Ended => true,
            State::Open => self.next > 0,
            State::Refused => false,
        }
    }

    /// Whether it kills every alternative that needs it (rule 2).
    pub(super) fn dead(&self) -> bool {
        self.state == State::Closed && !self.optional
    }

    pub(super) fn closed(&self) -> bool {
        self.state == State::Closed
    }

    /// The count of a stream whose frames have all been delivered.
    pub(super) fn ended(&self) -> Option<u64> {
        (self.state == State::Ended).then_some(self.next)
    }

    /// The count of a stream that has said so, whether or not its frames have come: on an edge that carries none, END(count)
    /// is all there is.
    pub(super) fn ended_with(&self) -> Option<u64> {
        self.end_ahead().or(self.ended())
    }

    pub(super) fn is_stream(&self) -> bool {
        self.stream
    }

    /// Whether anything came.
    pub(super) fn touched(&self) -> bool {
        self.next > 0 || self.waits() || self.state != State::Open
    }

    /// Whether something came ahead of a missing frame.
    fn waits(&self) -> bool {
        let waits = |sequence: &Sequence<P>| !sequence.ahead.is_empty() || sequence.end.is_some();
        self.sequence.as_deref().is_some_and(waits)
    }

    /// Whether delivered frames wait to be handed on.
    pub(super) fn holds_back(&self) -> bool {
        let held = |sequence: &Sequence<P>| !sequence.held.is_empty();
        self.held.is_some() || self.sequence.as_deref().is_some_and(held)
    }

    /// Frames held, and their bytes.
    pub(super) fn holds(&self) -> (usize, usize) {
        let Some(sequence) = &self.sequence else {
            return self.held.iter().fold((0, 0), |_, held| (1, held.size()));
        };
        let (held, ahead) = (&sequence.held, &sequence.ahead);
        let bytes = held.iter().chain(ahead.values()).map(Payload::size).sum();
        (held.len() + ahead.len(), bytes)
    }

    /// Verifies the invariants.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.state != State::Open && self.waits() {
            return Err("an inlet is over and still waits");
        }
        let Some(sequence) = &self.sequence else {
            let one = u64::from(!self.stream && self.state == State::Ended);
            return match self.next == one && self.held.iter().count() as u64 <= one {
                true => Ok(()),
                false => Err("an inlet counts other frames than came"),
            };
        };
        if sequence.digests.count() != self.next {
            return Err("an inlet has not the digests of what was delivered");
        }
        if self.keeps && sequence.kept.len() as u64 != self.next {
            return Err("an inlet has not kept what was delivered");
        }
        if sequence.held.len() as u64 > self.next {
            return Err("an inlet holds more frames than were delivered");
        }
        let first_ahead = sequence.ahead.first_key_value();
        if first_ahead.is_some_and(|(seq, _)| *seq <= self.next) {
            return Err("an inlet keeps a frame as ahead that is next");
        }
        if sequence.end.is_some_and(|count| count <= self.next) {
            return Err("an inlet has reached its END and is still open");
        }
        Ok(())
    }
}
