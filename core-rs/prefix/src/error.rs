//! What can go wrong with chains and indexes.

use thiserror::Error;

use crate::cluster::Holder;
use crate::key::PageKey;

/// Why a chain was not changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChainError {
    /// A media item cannot be kept in part.
    #[error(
        "cannot keep {tokens} tokens: that cuts the media item at {start}..{end} in two; truncate to {start} or {end}"
    )]
    MediaCut {
        /// Tokens that were to be kept.
        tokens: usize,
        /// Where the item starts.
        start: usize,
        /// One past its last position.
        end: usize,
    },
}

/// Why an index was not changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The key is not in the index.
    #[error("page key {0} is not in the index: match the sequence again")]
    UnknownKey(PageKey),
    /// The entry is pinned.
    #[error("page key {key} is in use by {pins}: unpin it first")]
    Pinned {
        /// The key.
        key: PageKey,
        /// Pins on it.
        pins: u32,
    },
    /// Nobody holds a pin on the entry.
    #[error("page key {0} has no pin to take back: unpin as often as was pinned")]
    NotPinned(PageKey),
    /// A holder continues a sequence that it does not hold.
    #[error("{holder} does not hold page key {key}: report the pages before it first")]
    NotHeld {
        /// The holder.
        holder: Holder,
        /// The key.
        key: PageKey,
    },
    /// Pages that continue this one are in the index.
    #[error("page key {key} has {children} continuations in the index: remove those first")]
    HasChildren {
        /// The key.
        key: PageKey,
        /// Its continuations.
        children: u32,
    },
    /// These keys are not of one sequence.
    #[error("key {position} does not follow key {before} in one sequence: pass the keys of one chain, from its first page", before = position.saturating_sub(1))]
    NotAChain {
        /// Index of the key that does not fit.
        position: usize,
    },
}

impl IndexError {
    pub(crate) fn not_a_chain(position: usize) -> Self {
        Self::NotAChain { position }
    }
}

/// Fewer pages can be evicted than were wanted; none was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("only {available} pages can be evicted: release what holds the others")]
pub struct TooFew {
    /// Pages that could be evicted.
    pub available: usize,
}

/// A broken invariant, found by `check()`: a bug of this crate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("prefix index is corrupt: {0}; please report this as a bug")]
pub struct Corrupt(pub(crate) String);
