//! What frames carry, as far as control nodes look into it.

use std::hash::Hasher;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use rustc_hash::FxHasher;

/// What frames carry. A copy must be cheap: a frame is copied to each edge of its port.
pub trait Payload: Clone {
    /// Equal for equal content; compared when a later attempt sends a frame again (rule 12). Never leaves the process.
    fn digest(&self) -> u64;

    /// Size in bytes, for `Footprint`.
    fn size(&self) -> usize;

    /// One value that holds these, in order (what `collect` makes).
    fn list(items: Vec<Self>) -> Self;

    /// What a boolean says (what `until` reads); `None` when it is none.
    fn truth(&self) -> Option<bool>;

    /// The names that a choice says (what `route` reads): one of a text, all of a list of texts; `None` for others.
    fn names(&self) -> Option<Vec<String>>;
}

/// Fields of `omniflow.v1.Value`.
const TEXT: u64 = 1;
const LIST: u64 = 7;
const BOOLEAN: u64 = 8;
/// The one field of `omniflow.v1.List`.
const ITEMS: u64 = 1;
/// Wire types of protobuf.
const VARINT: u64 = 0;
const DELIMITED: u64 = 2;

/// A serialized `omniflow.v1.Value`. The three messages that control nodes know are so small that reading them here keeps
/// this crate free of protobuf; a test with the feature `wire` holds both to be the same.
impl Payload for Bytes {
    fn digest(&self) -> u64 {
        let mut hasher = FxHasher::default();
        hasher.write(self);
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
}
