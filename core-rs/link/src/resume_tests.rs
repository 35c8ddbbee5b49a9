//! Both ends of a link against each other, over a wire that is cut at any byte. No sockets, no clock.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use crate::batch::Batch;
use crate::error::Malformation;
use crate::header::{Header, MAX_PIECE_BYTES, Word};
use crate::inbound::Inbound;
use crate::message::{Message, Received};
use crate::outbound::Outbound;

const WINDOW: usize = 150_000;
const STREAMS: u32 = 4;

/// One end, and the bytes that are on their way to it.
struct End {
    outbound: Outbound,
    inbound: Inbound,
    wire: BytesMut,
    /// What of the wire has been read and is no whole piece yet.
    buffer: BytesMut,
    pushed: Vec<Message>,
    got: Vec<Received>,
    finished: bool,
}

impl End {
    fn new() -> Self {
        Self {
            outbound: Outbound::new(WINDOW),
            inbound: Inbound::new(1 << 20),
            wire: BytesMut::new(),
            buffer: BytesMut::new(),
            pushed: Vec::new(),
            got: Vec::new(),
            finished: false,
        }
    }

    fn push(&mut self, stream: u32, length: usize) {
        let count = self.pushed.len() as u32;
        let message = Message {
            kind: count as u8,
            stream: stream % STREAMS,
            head: Bytes::copy_from_slice(&count.to_le_bytes()),
            body: (0..length).map(|i| (i as u32 ^ count) as u8).collect(),
        };
        self.pushed.push(message.clone());
        self.outbound.push(message);
    }

    /// What one write takes.
    fn write(&mut self, limit: usize) -> Vec<u8> {
        let mut batch = Batch::default();
        self.outbound
            .fill(&mut batch, limit, self.inbound.expected());
        let mut bytes = Vec::new();
        while !batch.is_empty() {
            let written: usize = batch
                .slices()
                .iter()
                .map(|slice| {
                    bytes.extend_from_slice(slice);
                    slice.len()
                })
                .sum();
            batch.advance(written);
        }
        bytes
    }

    /// Reads at most `limit` bytes of what is on its way.
    fn read(&mut self, limit: usize) {
        let length = limit.min(self.wire.len());
        self.buffer.extend_from_slice(&self.wire.split_to(length));
        let heard = self
            .inbound
            .take(&mut self.buffer, &mut self.got)
            .expect("well formed");
        if let Some(next) = heard.received {
            self.outbound.received(next).expect("no more than was sent");
        }
        if heard.asked {
            self.outbound.owe();
        }
        self.finished |= heard.finished;
    }

    fn check_memory(&self) {
        assert!(
            self.outbound.unacknowledged() <= WINDOW + 2 * MAX_PIECE_BYTES,
            "{}",
            self.outbound.unacknowledged()
        );
    }
}

struct Pair {
    ends: [End; 2],
}

impl Pair {
    fn new() -> Self {
        Self {
            ends: [End::new(), End::new()],
        }
    }

    fn write(&mut self, from: usize, limit: usize) -> bool {
        let bytes = self.ends[from].write(limit);
        self.ends[1 - from].wire.extend_from_slice(&bytes);
        self.ends[from].check_memory();
        !bytes.is_empty()
    }

    /// The socket breaks. Each end still reads `rest` bytes of the old one, `early` ends before they greet and the others
    /// after, as they may when the socket is replaced under them.
    fn cut(&mut self, rest: [usize; 2], early: [bool; 2]) {
        let old = [0, 1].map(|end| std::mem::take(&mut self.ends[end].wire));
        let mut said = [0, 0];
        for end in [0, 1] {
            let on = &mut self.ends[end];
            on.wire = old[end].clone();
            if early[end] {
                on.read(rest[end]);
            }
            said[end] = on.inbound.expected();
            if !early[end] {
                on.read(rest[end]);
            }
            on.wire.clear();
            on.buffer.clear();
        }
        for end in [0, 1] {
            let next = said[1 - end];
            assert!(
                self.ends[end].outbound.covers(next),
                "resumable whatever was cut"
            );
            self.ends[end].outbound.resume(next).expect("covered");
        }
    }

    fn settle(&mut self) {
        loop {
            let wrote = [0, 1].map(|end| self.write(end, 256 * 1024));
            for end in &mut self.ends {
                end.read(usize::MAX);
                end.outbound.owe();
            }
            let idle = self
                .ends
                .iter()
                .all(|end| end.outbound.queued() == 0 && end.outbound.unacknowledged() == 0);
            if idle && wrote.iter().all(|wrote| *wrote) {
                return;
            }
        }
    }

    fn check(&self) {
        for end in [0, 1] {
            let (sent, got) = (&self.ends[end].pushed, &self.ends[1 - end].got);
            assert_eq!(
                by_stream(got.iter().cloned()),
                by_stream(sent.iter().map(whole))
            );
        }
    }
}

fn whole(message: &Message) -> Received {
    Received {
        kind: message.kind,
        stream: message.stream,
        body: [&message.head[..], &message.body[..]].concat().into(),
    }
}

fn by_stream(messages: impl Iterator<Item = Received>) -> BTreeMap<u32, Vec<Received>> {
    let mut streams: BTreeMap<u32, Vec<Received>> = BTreeMap::new();
    for message in messages {
        streams.entry(message.stream).or_default().push(message);
    }
    streams
}

#[derive(Debug, Clone)]
enum Act {
    Push {
        from: usize,
        stream: u32,
        length: usize,
    },
    Write {
        from: usize,
        limit: usize,
    },
    Read {
        at: usize,
        limit: usize,
    },
    Ask {
        from: usize,
    },
    Cut {
        rest: [usize; 2],
        early: [bool; 2],
    },
}

fn act() -> impl Strategy<Value = Act> {
    let bytes = || prop_oneof![0usize..60, 0usize..5_000, 0usize..200_000];
    prop_oneof![
        4 => (0usize..2, 0..STREAMS, bytes()).prop_map(|(from, stream, length)| Act::Push { from, stream, length }),
        4 => (0usize..2, 1usize..200_000).prop_map(|(from, limit)| Act::Write { from, limit }),
        4 => (0usize..2, bytes()).prop_map(|(at, limit)| Act::Read { at, limit }),
        1 => (0usize..2).prop_map(|from| Act::Ask { from }),
        2 => (bytes(), bytes(), any::<[bool; 2]>()).prop_map(|(one, two, early)| Act::Cut { rest: [one, two], early }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn rule_13_cuts_at_any_byte_lose_nothing_repeat_nothing_and_keep_the_order(acts in proptest::collection::vec(act(), 1..60)) {
        let mut pair = Pair::new();
        for act in acts {
            match act {
                Act::Push { from, stream, length } => pair.ends[from].push(stream, length),
                Act::Write { from, limit } => { pair.write(from, limit); }
                Act::Read { at, limit } => pair.ends[at].read(limit),
                Act::Ask { from } => pair.ends[from].outbound.ask(),
                Act::Cut { rest, early } => pair.cut(rest, early),
            }
        }
        pair.settle();
        pair.check();
    }

    #[test]
    fn rule_13_a_frame_survives_a_cut_at_each_of_its_bytes(length in 0usize..300, cut in 0usize..400, early: bool) {
        let mut pair = Pair::new();
        pair.ends[0].push(1, length);
        pair.ends[0].push(1, 5);
        pair.write(0, 1 << 20);
        pair.cut([0, cut], [early; 2]);
        pair.settle();
        pair.check();
    }

    #[test]
    fn the_last_word_is_said_again_after_a_cut(length in 0usize..200_000, cut in 0usize..400_000) {
        let mut pair = Pair::new();
        pair.ends[0].push(1, length);
        pair.ends[0].outbound.finish();
        while pair.write(0, 100_000) && !pair.ends[0].outbound.has_finished() {}
        pair.ends[1].read(cut);
        let heard = pair.ends[1].finished;
        pair.cut([0, 0], [true; 2]);
        prop_assert!(heard || !pair.ends[0].outbound.has_finished());
        pair.settle();
        pair.check();
        prop_assert!(pair.ends[1].finished);
    }
}

#[test]
fn what_was_not_acknowledged_is_bounded_and_waits_for_the_peer() {
    let mut pair = Pair::new();
    (0..100).for_each(|_| pair.ends[0].push(1, 50_000));
    while pair.write(0, 256 * 1024) {}
    assert!(pair.ends[0].outbound.is_held_up());
    pair.ends[0].check_memory();
    pair.ends[1].read(usize::MAX);
    pair.ends[1].outbound.owe();
    pair.write(1, 1 << 20);
    pair.ends[0].read(usize::MAX);
    assert!(!pair.ends[0].outbound.is_held_up(), "there is room again");
    pair.settle();
    pair.check();
}

#[test]
fn an_acknowledgement_rides_with_what_is_written_anyway() {
    let mut pair = Pair::new();
    pair.ends[0].push(1, 10);
    pair.write(0, 1 << 20);
    pair.ends[1].read(usize::MAX);
    assert!(!pair.write(1, 1 << 20), "nothing is written for its sake");
    pair.ends[1].push(1, 10);
    pair.write(1, 1 << 20);
    pair.ends[0].read(usize::MAX);
    assert_eq!(pair.ends[0].outbound.unacknowledged(), 0);
}

fn piece(sequence: u64) -> Vec<u8> {
    let header = Header {
        length: 1,
        kind: 1,
        first: true,
        last: true,
        stream: 1,
        sequence,
    };
    [&header.encode()[..], b"x"].concat()
}

#[test]
fn a_replayed_piece_is_dropped_and_a_missing_one_is_an_error() {
    let mut inbound = Inbound::new(100);
    let mut got = Vec::new();
    let mut take = |bytes: Vec<u8>| inbound.take(&mut BytesMut::from(&bytes[..]), &mut got);
    take([piece(0), piece(1), piece(0), piece(1), piece(2)].concat()).expect("well formed");
    assert_eq!(
        take(piece(4)),
        Err(Malformation::OutOfSequence {
            expected: 3,
            found: 4
        })
    );
    assert_eq!(got.len(), 3);
}

#[test]
fn a_peer_that_claims_what_was_never_sent_is_refused() {
    let mut outbound = Outbound::new(WINDOW);
    assert_eq!(
        outbound.received(1),
        Err(Malformation::NeverSent {
            received: 1,
            sent: 0
        })
    );
    assert!(!outbound.covers(1));
}

#[test]
fn what_the_peer_has_forgotten_cannot_be_resumed() {
    let mut pair = Pair::new();
    pair.ends[0].push(1, 10);
    pair.write(0, 1 << 20);
    pair.ends[0].outbound.received(1).expect("it was sent");
    assert!(!pair.ends[0].outbound.covers(0), "it said that it had it");
}

#[test]
fn the_last_word_before_its_time_is_malformed() {
    let mut inbound = Inbound::new(100);
    let bytes = &mut BytesMut::from(&Word::Finish(3).encode()[..]);
    assert_eq!(
        inbound.take(bytes, &mut Vec::new()),
        Err(Malformation::OutOfSequence {
            expected: 0,
            found: 3
        })
    );
}
