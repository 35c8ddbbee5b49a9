//! What a link carries.

use bytes::Bytes;

use crate::batch::Batch;
use crate::header::{HEADER_BYTES, Header};

/// A message to send: `head` followed by `body`. The two are apart so that a payload need not be copied behind its head.
#[derive(Debug, Clone)]
pub struct Message {
    /// What it is; the link doesn't look at it.
    pub kind: u8,
    /// Messages of one stream keep their order.
    pub stream: u32,
    /// The first bytes.
    pub head: Bytes,
    /// The rest.
    pub body: Bytes,
}

impl Message {
    /// Bytes of the message, headers of its pieces not counted.
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Whether it has no bytes, which is allowed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A message that arrived, put together again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// What it is.
    pub kind: u8,
    /// The stream it came on.
    pub stream: u32,
    /// All of its bytes.
    pub body: Bytes,
}

/// A message, or a part of one, as it goes over the wire.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) header: Header,
    pub(crate) head: Bytes,
    pub(crate) body: Bytes,
}

impl Piece {
    /// Bytes on the wire.
    pub(crate) fn wire_bytes(&self) -> usize {
        HEADER_BYTES + self.header.length
    }

    pub(crate) fn write(&self, batch: &mut Batch) {
        batch.push_slice(&self.header.encode());
        batch.push(&self.head);
        batch.push(&self.body);
    }
}
