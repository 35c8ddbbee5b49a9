//! One message of a link: a kind byte, which travels in the link's own header, and a body.
//!
//! The body of every kind is one serialized message of `link.proto`; only a frame's body is a length-delimited
//! `FrameHeader` followed by the raw payload, so that a payload is never copied into or out of a message.

use bytes::{Buf, Bytes};
use prost::Message;
use thiserror::Error;

use crate::v1;

/// A body that is not what its kind promises.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum WireError {
    /// A kind byte that this version of the protocol does not know.
    #[error("unknown link message kind {0}: the peer speaks another version of the protocol")]
    UnknownKind(u8),
    /// A body that does not parse.
    #[error("malformed {what}: {cause}")]
    Malformed {
        /// The message that it should have been.
        what: &'static str,
        /// What the parser said.
        cause: String,
    },
    /// A frame that cannot be: a mark with a payload, or a mark that does not exist.
    #[error("impossible frame: {0}")]
    BadFrame(&'static str),
}

/// One item on an edge, or a mark, as it travels.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Which job, edge, key and place in the sequence.
    pub header: v1::FrameHeader,
    /// One serialized `Value`; empty for a mark.
    pub payload: Bytes,
}

macro_rules! link_messages {
    ($($(#[$doc:meta])* $name:ident = $kind:literal,)*) => {
        /// Everything that peers say over a link.
        #[derive(Debug, Clone, PartialEq)]
        pub enum LinkMessage {
            $($(#[$doc])* $name(v1::$name),)*
            /// A frame or a mark.
            Frame(Frame),
        }

        impl LinkMessage {
            /// The byte that names this message in the link's header.
            pub fn kind(&self) -> u8 {
                match self {
                    $(Self::$name(_) => $kind,)*
                    Self::Frame(_) => Self::FRAME,
                }
            }

            /// The message's name in `link.proto`.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => stringify!($name),)*
                    Self::Frame(_) => "Frame",
                }
            }

            fn encode_body(&self) -> (Bytes, Bytes) {
                match self {
                    $(Self::$name(message) => (message.encode_to_vec().into(), Bytes::new()),)*
                    Self::Frame(frame) => (
                        frame.header.encode_length_delimited_to_vec().into(),
                        frame.payload.clone(),
                    ),
                }
            }

            /// The message of this kind in `body`; a frame's payload shares its memory.
            pub fn decode(kind: u8, body: Bytes) -> Result<Self, WireError> {
                match kind {
                    $($kind => v1::$name::decode(body).map(Self::$name).map_err(|error| malformed(stringify!($name), &error)),)*
                    Self::FRAME => decode_frame(body).map(Self::Frame),
                    other => Err(WireError::UnknownKind(other)),
                }
            }
        }

        $(impl From<v1::$name> for LinkMessage {
            fn from(message: v1::$name) -> Self {
                Self::$name(message)
            }
        })*
    };
}

link_messages! {
    /// The first message of a side that dials.
    Hello = 1,
    /// The answer to `Hello`.
    Welcome = 2,
    /// Are you there?
    Ping = 3,
    /// Yes.
    Pong = 4,
    /// Numbers by which later messages name workers.
    Peers = 5,
    /// A graph, once before its first job.
    FlowDefinition = 6,
    /// Who runs what of a job.
    BindJob = 7,
    /// Jobs that are over.
    ReleaseJobs = 8,
    /// Finish and leave.
    Drain = 9,
    /// Nothing is left to finish.
    Drained = 10,
    /// What became of activations.
    Events = 12,
    /// A new attempt contradicts an earlier one.
    Contradiction = 13,
    /// A peer that cannot be reached.
    PeerUnreachable = 14,
    /// Binds that frames wait for.
    BindsWanted = 15,
    /// A node by which values leave a scope is over.
    ScopeLeft = 16,
    /// Nobody reads an edge any more.
    Unwanted = 17,
    /// Room for frames of a stream.
    Credit = 18,
    /// What a worker still holds of jobs.
    Holding = 19,
    /// Binds that would be better off elsewhere.
    Recall = 20,
    /// Binds that will not run where they were.
    Moved = 21,
    /// What a place holds of a resumable node is asked for.
    DeliveredWanted = 22,
    /// What a place holds of a resumable node.
    DeliveredReport = 23,
    /// A frame whose payload stays where its producer has it.
    LentFrame = 24,
}

impl LinkMessage {
    /// The kind of `Frame`.
    pub const FRAME: u8 = 11;

    /// `(kind, head, payload)`: the body is `head` followed by `payload`, which is shared and not copied.
    pub fn encode(&self) -> (u8, Bytes, Bytes) {
        let (head, payload) = self.encode_body();
        (self.kind(), head, payload)
    }
}

impl From<Frame> for LinkMessage {
    fn from(frame: Frame) -> Self {
        Self::Frame(frame)
    }
}

fn malformed(what: &'static str, error: &prost::DecodeError) -> WireError {
    WireError::Malformed {
        what,
        cause: error.to_string(),
    }
}

fn decode_frame(mut body: Bytes) -> Result<Frame, WireError> {
    let length = prost::decode_length_delimiter(&mut body)
        .map_err(|error| malformed("FrameHeader", &error))?;
    if length > body.remaining() {
        return Err(WireError::BadFrame("its header is cut short"));
    }
    let header = v1::FrameHeader::decode(body.split_to(length))
        .map_err(|error| malformed("FrameHeader", &error))?;
    match v1::Mark::try_from(header.mark) {
        Ok(v1::Mark::None) => {}
        Ok(_) if body.is_empty() => {}
        Ok(_) => return Err(WireError::BadFrame("a mark carries a payload")),
        Err(_) => return Err(WireError::BadFrame("it has an unknown mark")),
    }
    Ok(Frame {
        header,
        payload: body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use proptest::prelude::*;

    fn body(head: &Bytes, payload: &Bytes) -> Bytes {
        let mut whole = BytesMut::from(&head[..]);
        whole.extend_from_slice(payload);
        whole.freeze()
    }

    fn round_trip(message: &LinkMessage) {
        let (kind, head, payload) = message.encode();
        let again = LinkMessage::decode(kind, body(&head, &payload)).expect("own bytes decode");
        assert_eq!(&again, message);
    }

    #[test]
    fn every_message_survives_the_wire() {
        round_trip(&LinkMessage::from(v1::Hello {
            protocol: crate::PROTOCOL,
            cluster: "home".into(),
            from: "scheduler".into(),
            term: 7,
            ..Default::default()
        }));
        round_trip(&LinkMessage::from(v1::Drained {}));
        round_trip(&LinkMessage::from(v1::BindJob {
            job: u64::MAX,
            order: -1.5,
            binds: vec![v1::Bind {
                node: 2,
                key: vec![3, 1],
                worker: 9,
                epoch: 4,
            }],
            parameters: [("llm.chat.seed".to_owned(), v1::Value::default())].into(),
            ..Default::default()
        }));
        round_trip(&LinkMessage::from(Frame {
            header: v1::FrameHeader {
                job: 1,
                edge: 2,
                key: vec![0],
                seq: 9,
                ..Default::default()
            },
            payload: Bytes::from_static(b"payload"),
        }));
    }

    #[test]
    fn payload_is_shared_not_copied() {
        let payload = Bytes::from(vec![7; 100_000]);
        let message = LinkMessage::from(Frame {
            header: v1::FrameHeader::default(),
            payload: payload.clone(),
        });
        let (kind, head, sent) = message.encode();
        assert_eq!(sent.as_ptr(), payload.as_ptr());
        let whole = body(&head, &sent);
        let expected = whole[head.len()..].as_ptr();
        let LinkMessage::Frame(frame) = LinkMessage::decode(kind, whole).expect("decodes") else {
            panic!("a frame stays a frame")
        };
        assert_eq!(frame.payload.as_ptr(), expected);
    }

    #[test]
    fn unknown_kind_is_a_typed_error() {
        assert_eq!(
            LinkMessage::decode(0, Bytes::new()),
            Err(WireError::UnknownKind(0))
        );
    }

    #[test]
    fn mark_with_payload_is_refused() {
        let header = v1::FrameHeader {
            mark: v1::Mark::End.into(),
            ..Default::default()
        };
        let (kind, head, payload) = LinkMessage::from(Frame {
            header,
            payload: Bytes::from_static(b"x"),
        })
        .encode();
        assert!(matches!(
            LinkMessage::decode(kind, body(&head, &payload)),
            Err(WireError::BadFrame(_))
        ));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(kind: u8, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = LinkMessage::decode(kind, bytes.into());
        }

        #[test]
        fn a_damaged_frame_never_panics(at in 0usize..40, value: u8, cut in 0usize..40) {
            let (kind, head, payload) = LinkMessage::from(Frame {
                header: v1::FrameHeader { job: 77, edge: 3, key: vec![1, 2], seq: 400, epoch: 1, ..Default::default() },
                payload: Bytes::from_static(b"some payload of a frame"),
            }).encode();
            let mut bytes = body(&head, &payload).to_vec();
            if let Some(byte) = bytes.get_mut(at) { *byte = value; }
            bytes.truncate(bytes.len().saturating_sub(cut));
            let _ = LinkMessage::decode(kind, bytes.into());
        }
    }
}
