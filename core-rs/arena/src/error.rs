//! What can go wrong with arenas in memory and with their passing.

use omniflow_pages::PageError;
use rustix::io::Errno;
use thiserror::Error;

use crate::layout::DeviceName;

/// Why something about an arena was refused. Nothing has changed then, nothing is mapped, and no descriptor is kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ArenaError {
    /// No arena can have such a layout.
    #[error("an arena cannot be laid out so: {why}")]
    BadLayout {
        /// What is wrong, and what to do.
        why: String,
    },
    /// The memory is no arena, or a damaged one.
    #[error(
        "this memory is not an arena that can be trusted: {why}; ask its owner for the descriptor again, and restart the owner if it sends the same"
    )]
    Damaged {
        /// What was found.
        why: String,
    },
    /// It is an arena, but another one than was told or wanted.
    #[error(
        "the arena has {field} {found}, not {expected}: it is of another model, layout or device; pair workers with equal settings"
    )]
    Mismatch {
        /// What differs.
        field: &'static str,
        /// As told or wanted.
        expected: String,
        /// As it is.
        found: String,
    },
    /// The memory is not there.
    #[error(
        "no memory for an arena of {bytes} bytes ({error}): make it smaller, or give the machine or container more memory"
    )]
    OutOfMemory {
        /// Its size.
        bytes: u64,
        /// What the system said.
        error: Errno,
    },
    /// The arena was mapped for reading only.
    #[error("the arena is mapped for reading only: its owner hands out and writes its pages")]
    ReadOnly,
    /// The pages lie on another device.
    #[error(
        "the pages of this arena lie on {device}, not in the host's memory: use the view of that device"
    )]
    Elsewhere {
        /// Where.
        device: DeviceName,
    },
    /// Not a part of the arena.
    #[error("bytes {offset}..{end} are not inside the {size} bytes of the arena")]
    OutOfBounds {
        /// The first of them.
        offset: u64,
        /// One past the last.
        end: u64,
        /// Bytes of all pages.
        size: u64,
    },
    /// No run of free blocks is long enough.
    #[error(
        "{wanted} bytes wanted in one piece, {free} bytes are free in all: release tensors, wait, or make the arena larger"
    )]
    Full {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes of free blocks.
        free: u64,
    },
    /// The page allocator refused.
    #[error(transparent)]
    Page(#[from] PageError),
    /// The other end of a socket belongs to somebody else.
    #[error(
        "the process at the other end runs as user {peer}, this one as user {own}: run all workers of a host as one user"
    )]
    OtherUser {
        /// Its user id.
        peer: u32,
        /// Ours.
        own: u32,
    },
    /// The other end is closed: its process ended, or was done.
    #[error("the other end of the channel is closed: its process has ended or let go of it")]
    HungUp,
    /// Nothing came in time.
    #[error("nothing came over the channel in time: the process at its other end is busy or stuck")]
    TimedOut,
    /// What came over a channel is no message, or cannot be sent as one.
    #[error("this is no message of a channel: {why}")]
    BadMessage {
        /// What is wrong with it.
        why: String,
    },
    /// A process listens at that address already.
    #[error("another process listens at {address}: choose another address, or end that process")]
    AddressInUse {
        /// Where.
        address: String,
    },
    /// The system refused.
    #[error("{what} failed: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        error: Errno,
    },
}

impl ArenaError {
    /// Errors of one system call.
    pub(crate) fn system(what: &'static str) -> impl Fn(Errno) -> Self {
        move |error| Self::System { what, error }
    }

    /// A damaged header or size.
    pub(crate) fn damaged(why: impl Into<String>) -> Self {
        Self::Damaged { why: why.into() }
    }
}
