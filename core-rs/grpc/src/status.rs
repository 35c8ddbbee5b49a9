//! How a call ended: from trailers, from HTTP, or from a connection that broke.

use bytes::Bytes;
use h2::Reason;
use http::{HeaderMap, HeaderValue, StatusCode};

/// The codes that this side gives itself; others come from the peer, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// It went well.
    Ok = 0,
    /// This side wanted no more of it.
    Cancelled = 1,
    /// The peer did not say.
    Unknown = 2,
    /// The request is wrong in itself.
    InvalidArgument = 3,
    /// A message is over a limit.
    ResourceExhausted = 8,
    /// Nobody knows that method.
    Unimplemented = 12,
    /// The peer breaks the protocol.
    Internal = 13,
    /// The connection cannot be made, or broke.
    Unavailable = 14,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// A gRPC code; 0 is success.
    pub code: u32,
    /// For people.
    pub message: String,
    /// Binary entries of the trailers: names end in `-bin`.
    pub binary: Vec<(String, Bytes)>,
}

impl Status {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code: code as u32,
            message: message.into(),
            binary: Vec::new(),
        }
    }

    /// None when they do not say.
    pub(crate) fn of_trailers(trailers: &HeaderMap) -> Option<Self> {
        let code = trailers.get("grpc-status")?.to_str().ok();
        let code = code.and_then(|code| code.parse().ok());
        let message = trailers.get("grpc-message");
        let binary = trailers.iter().filter_map(|(name, value)| {
            let name = name.as_str().strip_suffix("-bin")?;
            Some((
                format!("{name}-bin"),
                Bytes::from(from_base64(value.as_bytes())?),
            ))
        });
        Some(Self {
            code: code.unwrap_or(Code::Unknown as u32),
            message: message.map_or_else(String::new, from_percents),
            binary: binary.collect(),
        })
    }

    /// What answers is no gRPC.
    pub(crate) fn of_http(status: StatusCode) -> Self {
        let code = match status.as_u16() {
            400 => Code::Internal,
            404 => Code::Unimplemented,
            429 | 502..=504 => Code::Unavailable,
            _ => Code::Unknown,
        };
        Self::new(code, format!("what answers is no gRPC: HTTP {status}"))
    }
}

impl From<h2::Error> for Status {
    /// Whatever ends a call without the word of its server may go better on another connection, unless this side, or the
    /// server, has said what is wrong with it.
    fn from(error: h2::Error) -> Self {
        let code = match error.reason() {
            _ if error.is_io() || error.is_go_away() => Code::Unavailable,
            Some(Reason::CANCEL) => Code::Cancelled,
            Some(Reason::REFUSED_STREAM) => Code::Unavailable,
            Some(Reason::ENHANCE_YOUR_CALM) => Code::ResourceExhausted,
            Some(_) => Code::Internal,
            None => Code::Unavailable,
        };
        Self::new(code, format!("the connection broke: {error}"))
    }
}

/// Of a `grpc-message`.
fn from_percents(value: &HeaderValue) -> String {
    let bytes = value.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = (*byte == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        decoded.push(escaped.unwrap_or(*byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// With padding or without.
fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            decoded.push((bits >> count) as u8);
        }
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_say_how_a_call_ended() {
        let mut trailers = HeaderMap::new();
        assert_eq!(Status::of_trailers(&trailers), None);
        trailers.insert("grpc-status", HeaderValue::from_static("3"));
        trailers.insert(
            "grpc-message",
            HeaderValue::from_static("f%C3%BCnf %zz 100%"),
        );
        trailers.insert("some-error-bin", HeaderValue::from_static("AQID/w"));
        trailers.insert("other", HeaderValue::from_static("text"));
        let status = Status::of_trailers(&trailers).expect("a status");
        assert_eq!((status.code, status.message.as_str()), (3, "fünf %zz 100%"));
        let binary = (
            "some-error-bin".to_owned(),
            Bytes::from_static(&[1, 2, 3, 255]),
        );
        assert_eq!(status.binary, [binary]);
    }

    #[test]
    fn base64_is_read_with_padding_or_without() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg", b"f"),
            ("Zg==", b"f"),
            ("Zm8", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYmE=", b"fooba"),
        ] {
            assert_eq!(from_base64(text.as_bytes()).as_deref(), Some(bytes));
        }
        assert_eq!(from_base64(b"Z g"), None);
    }
}
