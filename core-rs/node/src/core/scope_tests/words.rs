//! The words of the resolver's own tests as serialized values, so that its oracle judges this crate too.

use bytes::{BufMut, Bytes, BytesMut};
use omniflow_flow::{Payload, ValueKind, ValueType};
use omniflow_wire::v1;
use prost::Message;

use super::support::{SEVERAL, Word};

/// A field that `Value` does not have, fixed64: what a value's reader does not know, it skips.
const WORD: u8 = 15 << 3 | 1;

/// The word as a value of that kind, with the word itself behind it.
pub(super) fn encode(word: Word, kind: &ValueKind) -> Bytes {
    let text = |text: String| v1::Value {
        kind: Some(v1::value::Kind::Text(text)),
    };
    let value = match kind {
        ValueKind::Boolean => v1::Value {
            kind: Some(v1::value::Kind::Boolean(word.truth() == Some(true))),
        },
        ValueKind::List(_) => {
            let items = word.names().unwrap_or_default().into_iter().map(text);
            v1::Value {
                kind: Some(v1::value::Kind::List(v1::List {
                    items: items.collect(),
                })),
            }
        }
        _ => text(word.names().unwrap_or_default().concat()),
    };
    let mut bytes = BytesMut::from(&value.encode_to_vec()[..]);
    bytes.put_u8(WORD);
    bytes.put_u64_le(word.0);
    bytes.freeze()
}

/// The word behind a value; of a list that `collect` made, the word of its items.
pub(super) fn decode(bytes: &[u8]) -> Word {
    let behind = bytes.len().checked_sub(9).filter(|at| bytes[*at] == WORD);
    let (head, rest) = take_head(bytes);
    // What ends a collected list are its last item's bytes.
    if let Some(at) = behind.filter(|_| head != Some(bytes.len())) {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at + 1..]);
        return Word(u64::from_le_bytes(word));
    }
    let mut items = Vec::new();
    let mut rest = rest;
    while !rest.is_empty() {
        let (end, item) = take_head(rest);
        items.push(decode(item));
        rest = &rest[end.expect("an item of a list")..];
    }
    let Word(list) = Word::list(items);
    Word(list | SEVERAL)
}

/// Of a length-delimited field at the front: where it ends, and its content. Of another one, nothing.
fn take_head(bytes: &[u8]) -> (Option<usize>, &[u8]) {
    let Some((tag, mut rest)) = bytes.split_first() else {
        return (None, &[]);
    };
    if tag & 7 != 2 {
        return (None, &[]);
    }
    let length = prost::decode_length_delimiter(&mut rest).expect("a length");
    let end = bytes.len() - rest.len() + length;
    (Some(end), &rest[..length])
}

#[test]
fn a_word_survives_as_a_value_and_in_a_list() {
    let text = encode(Word(17), &ValueKind::Text);
    assert_eq!(
        (decode(&text), text.names()),
        (Word(17), Some(vec!["b2".into()]))
    );
    let truth = encode(Word(4), &ValueKind::Boolean);
    assert_eq!((decode(&truth), truth.truth()), (Word(4), Some(true)));
    let several = Word(6 | SEVERAL);
    let list = encode(
        several,
        &ValueKind::List(Box::new(ValueType::plain(ValueKind::Text))),
    );
    assert_eq!((decode(&list), list.names()), (several, several.names()));
    let collected = Bytes::list(vec![text, encode(Word(3), &ValueKind::Text)]);
    assert_eq!(decode(&collected), Word::list(vec![Word(17), Word(3)]));
    assert_eq!(decode(&Bytes::list(vec![])), Word::list(vec![]));
}
