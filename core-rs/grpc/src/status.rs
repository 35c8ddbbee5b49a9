//! How a call ended, where tonic leaves it open: connections that broke, and the binary entries of trailers.

use std::error::Error;

use bytes::Bytes;
use h2::Reason;
use tonic::metadata::{BinaryMetadataKey, BinaryMetadataValue, KeyAndValueRef, MetadataMap};
use tonic::{Code, Status};

/// What tonic says of a call that its peer, or somebody between, has cut off.
const CUT_OFF: &str = "missing grpc-status";

/// A status with one binary entry in its trailers; `name` ends in `-bin`.
pub fn with_binary(code: Code, message: impl Into<String>, name: &str, value: &[u8]) -> Status {
    let mut metadata = MetadataMap::new();
    if let Ok(name) = BinaryMetadataKey::from_bytes(name.as_bytes()) {
        metadata.insert_bin(name, BinaryMetadataValue::from_bytes(value));
    }
    Status::with_metadata(code, message, metadata)
}

/// The binary entries of the trailers: names end in `-bin`. One that is not what it should be is left out.
pub fn binary_entries(status: &Status) -> Vec<(String, Bytes)> {
    let entries = status.metadata().iter().filter_map(|entry| match entry {
        KeyAndValueRef::Binary(name, value) => {
            Some((name.as_str().to_owned(), value.to_bytes().ok()?))
        }
        KeyAndValueRef::Ascii(..) => None,
    });
    entries.collect()
}

/// The same, unless it is a connection's end that tonic has no word for.
pub(crate) fn of_call(status: Status) -> Status {
    if status.code() == Code::Unknown && status.message().contains(CUT_OFF) {
        return away("the call ended without a status");
    }
    match status.source() {
        Some(cause) => of_break(cause),
        None => status,
    }
}

/// Whatever ends a call without the word of its server may go better on another connection, unless this side, or the
/// server, has said what is wrong with it.
pub(crate) fn of_break(error: &(dyn Error + 'static)) -> Status {
    let (mut code, mut words) = (None, Vec::new());
    let mut cause = Some(error);
    while let Some(error) = cause {
        code = code.or_else(|| error.downcast_ref().map(code_of));
        words.push(error.to_string());
        cause = error.source();
    }
    let message = format!("the connection broke: {}", words.join(": "));
    Status::new(code.unwrap_or(Code::Unavailable), message)
}

fn code_of(error: &h2::Error) -> Code {
    match error.reason() {
        _ if error.is_io() || error.is_go_away() => Code::Unavailable,
        Some(Reason::CANCEL) => Code::Cancelled,
        Some(Reason::REFUSED_STREAM) => Code::Unavailable,
        Some(Reason::ENHANCE_YOUR_CALM) => Code::ResourceExhausted,
        Some(_) => Code::Internal,
        None => Code::Unavailable,
    }
}

pub(crate) fn away(why: impl Into<String>) -> Status {
    Status::new(Code::Unavailable, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_entries_are_found_again() {
        let status = with_binary(Code::InvalidArgument, "no", "why-bin", &[0, 255, 1]);
        let why = ("why-bin".to_owned(), Bytes::from_static(&[0, 255, 1]));
        assert_eq!(binary_entries(&status), [why]);
    }

    #[test]
    fn a_break_is_a_matter_of_the_connection_unless_somebody_has_said_more() {
        let status = |reason: Reason| of_break(&h2::Error::from(reason)).code();
        assert_eq!(status(Reason::REFUSED_STREAM), Code::Unavailable);
        assert_eq!(status(Reason::ENHANCE_YOUR_CALM), Code::ResourceExhausted);
        assert_eq!(status(Reason::PROTOCOL_ERROR), Code::Internal);
        let broken = std::io::Error::other("the cable");
        assert_eq!(of_break(&broken).code(), Code::Unavailable);
        assert!(of_break(&broken).message().contains("the cable"));
    }
}
