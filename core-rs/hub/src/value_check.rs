//! What kind of value a frame holds, seen from its outermost tag: inputs may be large, and are passed on as they came.

use omniflow_flow::ValueKind;
use omniflow_wire::v1::{Kind, Value, value};
use prost::encoding::{WireType, decode_key, decode_varint};

/// The kind of the one value in `frame`, or what is wrong with it.
pub(crate) fn kind_of(mut frame: &[u8]) -> Result<Kind, String> {
    if frame.is_empty() {
        return Err("the frame is empty".to_owned());
    }
    let (number, wire_type) = decode_key(&mut frame).map_err(|error| error.to_string())?;
    let kind = i32::try_from(number)
        .ok()
        .and_then(|number| Kind::try_from(number).ok());
    let kind = kind
        .filter(|kind| *kind != Kind::Unspecified)
        .ok_or("it is no Value: its tag is unknown")?;
    let expected = match kind {
        Kind::Boolean | Kind::Integer => WireType::Varint,
        Kind::Real => WireType::SixtyFourBit,
        _ => WireType::LengthDelimited,
    };
    if wire_type != expected {
        return Err("it is no Value: its tag has another type".to_owned());
    }
    let rest = match wire_type {
        WireType::LengthDelimited => content(&mut frame, kind)?,
        WireType::Varint => decode_varint(&mut frame)
            .map(|_| frame.len())
            .map_err(|error| error.to_string())?,
        _ => frame.len().checked_sub(8).ok_or("it is cut short")?,
    };
    if rest == 0 {
        Ok(kind)
    } else {
        Err(format!("{rest} bytes follow its value"))
    }
}

/// Passes over a length-delimited content; returns how many bytes follow it.
fn content(frame: &mut &[u8], kind: Kind) -> Result<usize, String> {
    let length = decode_varint(frame).map_err(|error| error.to_string())?;
    let length = usize::try_from(length).map_err(|error| error.to_string())?;
    let content = frame
        .get(..length)
        .ok_or_else(|| format!("it is cut short: {} of {length} bytes", frame.len()))?;
    if kind == Kind::Text {
        std::str::from_utf8(content).map_err(|error| format!("its text is not UTF-8: {error}"))?;
    }
    Ok(frame.len() - length)
}

/// The kind that a port of this type takes.
pub(crate) fn kind_of_port(kind: &ValueKind) -> Kind {
    match kind {
        ValueKind::Text => Kind::Text,
        ValueKind::Image => Kind::Image,
        ValueKind::Audio => Kind::Audio,
        ValueKind::Video => Kind::Video,
        ValueKind::Tensor => Kind::Tensor,
        ValueKind::Record { .. } => Kind::Record,
        ValueKind::List(_) => Kind::List,
        ValueKind::Boolean => Kind::Boolean,
        ValueKind::Integer => Kind::Integer,
        ValueKind::Real => Kind::Real,
    }
}

/// The kind of a decoded value.
pub(crate) fn kind_of_value(value: &Value) -> Kind {
    match value.kind {
        None => Kind::Unspecified,
        Some(value::Kind::Text(_)) => Kind::Text,
        Some(value::Kind::Image(_)) => Kind::Image,
        Some(value::Kind::Audio(_)) => Kind::Audio,
        Some(value::Kind::Video(_)) => Kind::Video,
        Some(value::Kind::Tensor(_)) => Kind::Tensor,
        Some(value::Kind::Record(_)) => Kind::Record,
        Some(value::Kind::List(_)) => Kind::List,
        Some(value::Kind::Boolean(_)) => Kind::Boolean,
        Some(value::Kind::Integer(_)) => Kind::Integer,
        Some(value::Kind::Real(_)) => Kind::Real,
    }
}

/// The kind's name in messages, e.g. `text`.
pub(crate) fn kind_name(kind: Kind) -> String {
    kind.as_str_name()
        .trim_start_matches("KIND_")
        .to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use omniflow_wire::v1;
    use prost::Message;

    fn encoded(kind: value::Kind) -> Vec<u8> {
        Value { kind: Some(kind) }.encode_to_vec()
    }

    #[test]
    fn every_kind_is_seen_from_its_tag() {
        let kinds = [
            (value::Kind::Text(String::new()), Kind::Text),
            (
                value::Kind::Image(v1::Image {
                    data: vec![1; 300].into(),
                    ..Default::default()
                }),
                Kind::Image,
            ),
            (value::Kind::Audio(v1::Audio::default()), Kind::Audio),
            (value::Kind::Video(v1::Video::default()), Kind::Video),
            (value::Kind::Tensor(v1::Tensor::default()), Kind::Tensor),
            (value::Kind::Record(v1::Record::default()), Kind::Record),
            (value::Kind::List(v1::List::default()), Kind::List),
            (value::Kind::Boolean(true), Kind::Boolean),
            (value::Kind::Integer(-1), Kind::Integer),
            (value::Kind::Real(0.5), Kind::Real),
        ];
        for (kind, expected) in kinds {
            assert_eq!(
                kind_of_value(&Value {
                    kind: Some(kind.clone())
                }),
                expected
            );
            assert_eq!(kind_of(&encoded(kind)), Ok(expected));
        }
    }

    #[test]
    fn a_frame_that_is_no_value_is_refused() {
        let mut cut = encoded(value::Kind::Text("departure".to_owned()));
        cut.pop();
        let mut longer = encoded(value::Kind::Integer(3));
        longer.push(0);
        for frame in [
            &b""[..],
            b"hello",
            &cut,
            &longer,
            b"\x0a\x01\xff",
            b"\x51\x00",
            b"\x7a\x00",
            b"\x40",
        ] {
            assert!(kind_of(frame).is_err(), "{frame:?} passed");
        }
    }
}
