//! Outbox and inbound against each other, without sockets.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use crate::batch::Batch;
use crate::error::Malformation;
use crate::header::{HEADER_BYTES, Header, Heading, MAX_BODY_BYTES, MAX_PIECE_BYTES};
use crate::inbound::Inbound;
use crate::message::{Message, Received};
use crate::outbox::Outbox;

fn message(stream: u32, kind: u8, head: usize, body: usize) -> Message {
    Message {
        kind,
        stream,
        head: vec![kind; head].into(),
        body: (0..body).map(|i| (i % 251) as u8).collect(),
    }
}

/// All bytes of the outbox, taken in portions of about `limit`.
fn drain(outbox: &mut Outbox, limit: usize) -> BytesMut {
    let mut wire = BytesMut::new();
    while !outbox.is_empty() {
        let mut batch = Batch::default();
        outbox.fill(limit, &mut |piece| piece.write(&mut batch));
        while !batch.is_empty() {
            let written: usize = batch
                .slices()
                .iter()
                .map(|slice| {
                    wire.extend_from_slice(slice);
                    slice.len()
                })
                .sum();
            batch.advance(written);
        }
    }
    wire
}

fn received(
    wire: &[u8],
    chunk: usize,
    inbound: &mut Inbound,
) -> Result<Vec<Received>, Malformation> {
    let (mut buffer, mut messages) = (BytesMut::new(), Vec::new());
    for part in wire.chunks(chunk) {
        buffer.extend_from_slice(part);
        inbound.take(&mut buffer, &mut messages)?;
    }
    Ok(messages)
}

fn whole(message: &Message) -> Received {
    Received {
        kind: message.kind,
        stream: message.stream,
        body: [&message.head[..], &message.body[..]].concat().into(),
    }
}

fn of_stream(messages: &[Received], stream: u32) -> Vec<&Received> {
    messages.iter().filter(|m| m.stream == stream).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn messages_survive_any_fragmentation_and_streams_keep_their_order(
        sizes in proptest::collection::vec((0u32..5, any::<u8>(), 0usize..100, prop_oneof![0usize..300, 0usize..400_000]), 1..30),
        limit in 1usize..300_000,
        chunk in 1usize..200_000,
    ) {
        let sent: Vec<Message> = sizes.iter().map(|&(s, k, h, b)| message(s, k, h, b)).collect();
        let mut outbox = Outbox::default();
        sent.iter().cloned().for_each(|m| outbox.push(m));
        let wire = drain(&mut outbox, limit);
        prop_assert_eq!(outbox.queued(), 0);
        let got = received(&wire, chunk, &mut Inbound::new(1 << 20)).expect("own bytes are well formed");
        let wanted: Vec<Received> = sent.iter().map(whole).collect();
        prop_assert_eq!(got.len(), wanted.len());
        for stream in 0..5 {
            prop_assert_eq!(of_stream(&got, stream), of_stream(&wanted, stream));
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = received(&bytes, 7, &mut Inbound::new(1000));
    }

    #[test]
    fn damaged_bytes_never_panic(at in 0usize..200_000, value: u8) {
        let mut outbox = Outbox::default();
        outbox.push(message(1, 1, 10, 150_000));
        outbox.push(message(2, 2, 10, 100));
        let mut wire = drain(&mut outbox, 1 << 20);
        let at = at % wire.len();
        wire[at] = value;
        let _ = received(&wire, 1 << 16, &mut Inbound::new(1 << 20));
    }
}

#[test]
fn rule_18_no_piece_is_over_64_kib() {
    let mut outbox = Outbox::default();
    outbox.push(message(1, 1, 30, 500_000));
    let mut wire = drain(&mut outbox, 1 << 20).freeze();
    while let Some(bytes) = wire.first_chunk::<HEADER_BYTES>() {
        let Ok(Heading::Piece(header)) = Heading::decode(bytes) else {
            panic!("well formed");
        };
        assert!(header.length + HEADER_BYTES <= MAX_PIECE_BYTES);
        let _ = wire.split_to(header.length + HEADER_BYTES);
    }
}

#[test]
fn rule_18_a_small_message_does_not_wait_behind_bulk() {
    let mut outbox = Outbox::default();
    outbox.push(message(1, 1, 0, 10 << 20));
    outbox.push(message(2, 2, 0, 10));
    let wire = drain(&mut outbox, 1 << 30);
    let first = &wire[..3 * MAX_PIECE_BYTES];
    let got = received(first, 1 << 20, &mut Inbound::new(1 << 30)).expect("well formed");
    assert_eq!(got.len(), 1, "the small one is within the first pieces");
}

#[test]
fn rule_18_a_burst_of_small_messages_does_not_hold_up_bulk() {
    let mut outbox = Outbox::default();
    outbox.push(message(1, 1, 0, MAX_BODY_BYTES + 1));
    (0..10_000).for_each(|_| outbox.push(message(2, 2, 0, 1_000)));
    let wire = drain(&mut outbox, 1 << 30);
    let first = &wire[..4 * MAX_PIECE_BYTES];
    let got = received(first, 1 << 20, &mut Inbound::new(1 << 20)).expect("well formed");
    assert!(
        got.iter().any(|message| message.stream == 1),
        "within the first pieces"
    );
}

#[test]
fn rule_18_bulks_take_turns() {
    let mut outbox = Outbox::default();
    (1..4).for_each(|stream| outbox.push(message(stream, 1, 0, 3 * MAX_BODY_BYTES)));
    let mut wire = drain(&mut outbox, 1 << 30).freeze();
    let mut order = Vec::new();
    while let Some(bytes) = wire.first_chunk::<HEADER_BYTES>() {
        let Ok(Heading::Piece(header)) = Heading::decode(bytes) else {
            panic!("well formed");
        };
        order.push(header.stream);
        let _ = wire.split_to(header.length + HEADER_BYTES);
    }
    assert_eq!(order, [1, 2, 3, 1, 2, 3, 1, 2, 3]);
}

fn piece(header: Header) -> Bytes {
    [&header.encode()[..], &vec![0; header.length]]
        .concat()
        .into()
}

fn header(sequence: u64, first: bool, last: bool) -> Header {
    Header {
        length: 10,
        kind: 1,
        first,
        last,
        stream: 1,
        sequence,
    }
}

#[test]
fn what_no_link_sends_is_refused() {
    let refused = |pieces: &[Header], limit| {
        let wire: Vec<u8> = pieces.iter().flat_map(|&h| piece(h)).collect();
        received(&wire, 1 << 20, &mut Inbound::new(limit)).expect_err("refused")
    };
    let first = header(0, true, false);
    assert_eq!(
        refused(&[header(1, true, true)], 99),
        Malformation::OutOfSequence {
            expected: 0,
            found: 1
        }
    );
    assert_eq!(
        refused(&[first, header(1, true, true)], 99),
        Malformation::Nested(1)
    );
    assert_eq!(
        refused(&[header(0, false, true)], 99),
        Malformation::NotBegun(1)
    );
    let other = Header {
        kind: 2,
        ..header(1, false, true)
    };
    assert_eq!(refused(&[first, other], 99), Malformation::KindChanged(1));
    assert_eq!(
        refused(&[first, header(1, false, true)], 15),
        Malformation::MessageTooLong(15)
    );
    let many: Vec<Header> = (0..17)
        .map(|i| Header {
            stream: i,
            ..header(u64::from(i), true, false)
        })
        .collect();
    assert_eq!(refused(&many, 99), Malformation::TooManyOpen(16));
    let mut reserved = piece(header(0, true, true)).to_vec();
    reserved[5] |= 0x80;
    let odd = [&[0, 0, 0, 0, 9, 4][..], &[0; 14]].concat();
    assert_eq!(
        received(&odd, 99, &mut Inbound::new(99)),
        Err(Malformation::UnknownWord(9))
    );
    assert_eq!(
        received(&reserved, 99, &mut Inbound::new(99)),
        Err(Malformation::ReservedBits)
    );
    let long = Header {
        length: MAX_BODY_BYTES + 1,
        ..first
    };
    assert_eq!(
        refused(&[long], 1 << 20),
        Malformation::PieceTooLong(MAX_BODY_BYTES + 1)
    );
}
