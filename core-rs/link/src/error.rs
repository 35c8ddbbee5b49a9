//! What can go wrong with a link.

use std::io;
use std::time::Duration;

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
    /// Nobody listens at any of a peer's addresses.
    #[error("no address of the peer is reachable: {0}")]
    Unreachable(String),
    /// Somebody may be there, but does not answer: stopped, overloaded, or behind a broken network.
    #[error("the peer does not answer: {0}")]
    NoAnswer(String),
    /// Whoever answered is no peer that this side can talk to.
    #[error("{peer}: {problem}")]
    Greeting {
        /// Its address, or who dialled.
        peer: String,
        /// What is wrong.
        problem: GreetingProblem,
    },
    /// A certificate, key or authority of this side that cannot be used.
    #[error("{file}: {problem}; {cure}")]
    Certificate {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
        /// How to mend it.
        cure: &'static str,
    },
    /// The two sides do not trust each other.
    #[error("{peer}: {problem}; {cure}")]
    Untrusted {
        /// Its address, or who dialled.
        peer: String,
        /// Which side's certificate is wrong, and how.
        problem: String,
        /// How to mend it.
        cure: &'static str,
    },
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
    /// The connection broke and the link could not be resumed.
    #[error(transparent)]
    Lost(#[from] Loss),
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

/// A link that is lost: what was under way may have arrived or not.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("{cause}; {reason}")]
pub struct Loss {
    /// How the connection broke.
    pub cause: String,
    /// Why the link was not resumed.
    pub reason: LossReason,
}

/// Why a link was not resumed.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum LossReason {
    /// Another incarnation answers there, or the peer gave the link up.
    #[error("the peer does not know the link any more")]
    Forgotten,
    /// Nobody listens there any more, or somebody else.
    #[error("{0}")]
    Refused(String),
    /// It stayed broken.
    #[error("it did not come back in {0:?}")]
    NotBack(Duration),
    /// Nothing came, not even an answer to the question whether the peer is there.
    #[error("it was silent for {0:?}")]
    Silent(Duration),
    /// The peer lacks what this side no longer has, or claims what was never sent.
    #[error("the peer does not have what it said that it has")]
    Gap,
}

/// Why a greeting went wrong.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum GreetingProblem {
    /// TLS there, none here.
    #[error(
        "it speaks TLS and this side does not: give both the same `tls` in their cluster files"
    )]
    SpeaksTls,
    /// Some other program.
    #[error("it is no peer of a cluster: check the address")]
    NotAPeer,
    /// Another version of the link's protocol.
    #[error("it speaks version {0} of the link protocol: run one version of omniflow everywhere")]
    Version(u8),
    /// It hung up.
    #[error("it closed the connection instead of greeting")]
    HungUp,
    /// It connected and then said nothing.
    #[error("it did not greet in {0:?}")]
    Slow(Duration),
    /// It answered with what is no answer, or greeted with what is no greeting.
    #[error("it greeted out of turn")]
    OutOfTurn,
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
    /// A word that this version of the protocol does not have.
    #[error("word {0} is unknown")]
    UnknownWord(u8),
    /// The peer claims to have what was never sent.
    #[error("it claims to have {received} pieces of {sent}")]
    NeverSent {
        /// What it claims.
        received: u64,
        /// What was sent.
        sent: u64,
    },
    /// A piece is missing.
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
