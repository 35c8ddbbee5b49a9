//! What can go wrong with a link.

use std::io;

use thiserror::Error;

/// Why a link, an address or a dial failed.
#[derive(Debug, Error)]
pub enum LinkError {
    /// An address that can never be right.
    #[error("bad address {address:?}: {problem}; write unix:/path/of/socket or tcp:host:port")]
    BadAddress {
        /// As it was written.
        address: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Another living process listens there.
    #[error("{0} is in use by another process: stop it, or choose another address")]
    AddressInUse(String),
    /// None of a peer's addresses answered.
    #[error("no address of the peer is reachable: {0}")]
    Unreachable(String),
    /// The operating system said no.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// Its words.
        source: io::Error,
    },
    /// The peer sent what no link sends.
    #[error("malformed link data: {0}")]
    Malformed(#[from] Malformation),
    /// The peer went away in the middle of a message.
    #[error("the link was cut in the middle of a message")]
    CutShort,
    /// A message over the limit, refused before it was sent.
    #[error("a message of {length} bytes is over the link's limit of {limit}")]
    TooLarge {
        /// Its bytes.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// The peer does not read as fast as this side sends.
    #[error("{queued} bytes wait for the peer, over the limit of {limit}")]
    QueueFull {
        /// Bytes that wait.
        queued: usize,
        /// The limit.
        limit: usize,
    },
    /// The link is closed.
    #[error("the link is closed")]
    Closed,
}

impl LinkError {
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}

/// What was wrong with the bytes of a peer.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum Malformation {
    /// A piece over 64 KiB.
    #[error("a piece of {0} bytes, over 64 KiB")]
    PieceTooLong(usize),
    /// Bits that this version of the protocol keeps at zero.
    #[error("reserved bits are set")]
    ReservedBits,
    /// A piece is missing or repeated.
    #[error("piece {found} where piece {expected} was due")]
    OutOfSequence {
        /// The number that was due.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// A message begins inside another one of its stream.
    #[error("a message begins inside another one of stream {0}")]
    Nested(u32),
    /// A message goes on that never began.
    #[error("a message of stream {0} goes on that never began")]
    NotBegun(u32),
    /// A message changes its kind midway.
    #[error("a message of stream {0} changes its kind midway")]
    KindChanged(u32),
    /// A message over the limit.
    #[error("a message of more than {0} bytes")]
    MessageTooLong(usize),
    /// More unfinished messages than a peer may have.
    #[error("more than {0} unfinished messages at once")]
    TooManyOpen(usize),
}
