//! What frames carry, as far as control nodes look into it.

use std::hash::Hasher;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use rustc_hash::FxHasher;

/// What frames carry. A copy must be cheap: a frame is copied to each edge of its port.
pub trait Payload: Clone {
    /// Equal for equal content, and for other content almost never; compared when a later attempt sends a frame again (rule 12). Never leaves the process.
    fn digest(&self) -> u64;

    /// Size in bytes, for `Footprint`.
    fn size(&self) -> usize;

    /// One value that holds these, in order (what `collect` makes).
    fn list(items: Vec<Self>) -> Self;

    /// What a boolean says (what `until` reads); `None` when it is none.
    fn truth(&self) -> Option<bool>;

    /// The names that a choice says (what `route` reads): one of a text, all of a list of texts; `None` for others.
    fn names(&self) -> Option<Vec<String>>;

    /// What its readers get to see: without the state that a frame of a resumable node carries (rule 12).
    fn shown(&self) -> Self {
        self.clone()
    }

    /// The same, to be kept for as long as the job may run: keeps no more memory alive than it needs.
    fn kept(&self) -> Self {
        self.clone()
    }
}

/// Fields of `omniflow.v1.Value`.
const TEXT: u64 = 1;
const LIST: u64 = 7;
const BOOLEAN: u64 = 8;
/// The one field of `omniflow.v1.List`.
const ITEMS: u64 = 1;
/// The one field of `omniflow.v1.FrameState`, which may follow a value.
const STATE: u64 = 20;
/// Wire types of protobuf.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const DELIMITED: u64 = 2;
const FIXED_32: u64 = 5;
/// Below this, a frame is copied out of the buffer it came in: else a few bytes would keep that whole buffer alive.
const COPY_BELOW: usize = 4_096;
/// Of a longer payload, its digest is of its length, its ends and samples: what lies in shared memory is not read through on
/// its way, and data that another attempt computes otherwise differs all over.
const WHOLE: usize = 128 << 10;
const SAMPLES: usize = 1_024;
const SAMPLE_BYTES: usize = 64;

/// A serialized `omniflow.v1.Value`. The three messages that control nodes know are so small that reading them here keeps
/// this crate free of protobuf; a test with the feature `wire` holds both to be the same.
impl Payload for Bytes {
    fn digest(&self) -> u64 {
        let mut hasher = FxHasher::default();
        if self.len() <= WHOLE {
            hasher.write(self);
            return hasher.finish();
        }
        hasher.write_usize(self.len());
        hasher.write(&self[..WHOLE / 2]);
        hasher.write(&self[self.len() - WHOLE / 2..]);
        let step = self.len() / SAMPLES;
        for sample in (0..SAMPLES).map(|sample| sample * step) {
            hasher.write(&self[sample..sample + SAMPLE_BYTES]);
        }
        hasher.finish()
    }

    fn size(&self) -> usize {
        self.len()
    }

    fn list(items: Vec<Self>) -> Self {
        let length = |item: &Bytes| 1 + varint_length(item.len() as u64) + item.len();
        let inner: usize = items.iter().map(length).sum();
        let mut list = BytesMut::with_capacity(inner + 11);
        put_varint(&mut list, LIST << 3 | DELIMITED);
        put_varint(&mut list, inner as u64);
        for item in items {
            put_varint(&mut list, ITEMS << 3 | DELIMITED);
            put_varint(&mut list, item.len() as u64);
            list.put(item);
        }
        list.freeze()
    }

    fn truth(&self) -> Option<bool> {
        let mut value = self.clone();
        (take_varint(&mut value)? == BOOLEAN << 3 | VARINT)
            .then(|| take_varint(&mut value))?
            .map(|truth| truth != 0)
    }

    fn names(&self) -> Option<Vec<String>> {
        let mut value = self.clone();
        let tag = take_varint(&mut value)?;
        let mut content = take_delimited(&mut value)?;
        if tag == TEXT << 3 | DELIMITED {
            return Some(vec![String::from_utf8(content.to_vec()).ok()?]);
        }
        if tag != LIST << 3 | DELIMITED {
            return None;
        }
        let mut names = Vec::new();
        while content.has_remaining() {
            if take_varint(&mut content)? != ITEMS << 3 | DELIMITED {
                return None;
            }
            let mut item = take_delimited(&mut content)?;
            if take_varint(&mut item)? != TEXT << 3 | DELIMITED {
                return None;
            }
            names.push(String::from_utf8(take_delimited(&mut item)?.to_vec()).ok()?);
        }
        Some(names)
    }

    fn shown(&self) -> Self {
        let mut rest = self.clone();
        while rest.has_remaining() {
            let start = self.len() - rest.len();
            match take_field(&mut rest) {
                Some(STATE) => return self.slice(..start),
                Some(_) => {}
                None => break,
            }
        }
        self.clone()
    }

    fn kept(&self) -> Self {
        match self.len() < COPY_BELOW {
            true => Bytes::copy_from_slice(self),
            false => self.clone(),
        }
    }
}

/// Skips one field of a message and says which it was; `None` when there is none that can be read.
fn take_field(from: &mut Bytes) -> Option<u64> {
    let tag = take_varint(from)?;
    match tag & 7 {
        VARINT => _ = take_varint(from)?,
        DELIMITED => _ = take_delimited(from)?,
        FIXED_64 => _ = (from.len() >= 8).then(|| from.split_to(8))?,
        FIXED_32 => _ = (from.len() >= 4).then(|| from.split_to(4))?,
        _ => return None,
    }
    Some(tag >> 3)
}

fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

fn put_varint(to: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        to.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    to.put_u8(value as u8);
}

fn take_varint(from: &mut Bytes) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        if !from.has_remaining() {
            return None;
        }
        let byte = from.get_u8();
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take_delimited(from: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(take_varint(from)?).ok()?;
    (length <= from.len()).then(|| from.split_to(length))
}

#[cfg(all(test, feature = "wire"))]
mod tests {
    use omniflow_wire::v1;
    use prost::Message;

    use super::*;

    #[test]
    fn rule_12_a_big_payload_is_told_from_another_one_without_reading_it_through() {
        let payload = |byte: u8| Bytes::from(vec![byte; 4 << 20]);
        assert_eq!(payload(1).digest(), payload(1).digest());
        assert_ne!(payload(1).digest(), payload(2).digest());
        let shorter = payload(1).slice(1..);
        assert_ne!(payload(1).digest(), shorter.digest());
        for at in [0, 60_000, 1 << 21, (4 << 20) - 1] {
            let mut changed = vec![1; 4 << 20];
            changed[at] = 9;
            assert_ne!(payload(1).digest(), Bytes::from(changed).digest(), "{at}");
        }
        // The shortest that is sampled.
        let short = Bytes::from(vec![3; WHOLE + 1]);
        assert_ne!(short.digest(), Bytes::from(vec![4; WHOLE + 1]).digest());
    }

    fn text(text: &str) -> v1::Value {
        v1::Value {
            kind: Some(v1::value::Kind::Text(text.into())),
        }
    }

    fn bytes(value: &v1::Value) -> Bytes {
        value.encode_to_vec().into()
    }

    fn list(items: Vec<v1::Value>) -> v1::Value {
        v1::Value {
            kind: Some(v1::value::Kind::List(v1::List { items })),
        }
    }

    #[test]
    fn lists_choices_and_truths_are_those_of_the_wire() {
        let items = vec![text(""), text("a"), text(&"long".repeat(100))];
        let encoded = items.iter().map(bytes).collect();
        assert_eq!(Bytes::list(encoded), bytes(&list(items)));
        assert_eq!(Bytes::list(vec![]), bytes(&list(vec![])));
        assert_eq!(bytes(&text("image")).names(), Some(vec!["image".into()]));
        let both = list(vec![text("image"), text("audio")]);
        assert_eq!(
            bytes(&both).names(),
            Some(vec!["image".into(), "audio".into()])
        );
        for truth in [true, false] {
            let value = v1::Value {
                kind: Some(v1::value::Kind::Boolean(truth)),
            };
            assert_eq!(bytes(&value).truth(), Some(truth));
            assert_eq!(bytes(&value).names(), None);
        }
        assert_eq!(bytes(&text("true")).truth(), None);
        assert_eq!(Bytes::from_static(&[0x0a, 0x7f]).names(), None, "cut off");
    }

    #[test]
    fn rule_12_readers_see_a_value_without_the_state_behind_it() {
        let kinds = [
            v1::value::Kind::Text("words".into()),
            v1::value::Kind::Text(String::new()),
            v1::value::Kind::Boolean(true),
            v1::value::Kind::Real(0.5),
            v1::value::Kind::List(v1::List { items: vec![] }),
        ];
        for kind in kinds {
            let value = bytes(&v1::Value { kind: Some(kind) });
            assert_eq!(value.shown(), value);
            for state in [&b""[..], b"ids", &[7; 5_000]] {
                let state = v1::FrameState {
                    state: Bytes::copy_from_slice(state),
                };
                let frame = [&value[..], &state.encode_to_vec()].concat();
                assert_eq!(Bytes::from(frame).shown(), value);
            }
        }
        let malformed = Bytes::from_static(&[0x0a, 0x7f]);
        assert_eq!(malformed.shown(), malformed);
    }
}
