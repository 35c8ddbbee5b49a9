//! What can go wrong with tiers.

use thiserror::Error;

use crate::error::PageError;
use crate::tiers::{EntryId, MoveId, Tier};

/// Why a request about tiers was refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TierError {
    /// No such entry: it was removed, or dropped for room.
    #[error(
        "entry {0} is in no tier: it was removed, or dropped to make room; compute its page again"
    )]
    UnknownEntry(EntryId),
    /// No such move: it was finished or aborted before.
    #[error("move {0} is over: it was finished or aborted; a late completion changes nothing")]
    UnknownMove(MoveId),
    /// Other entries come after it in their sequences.
    #[error("entry {entry} has {children} entries behind it: remove those first")]
    HasChildren {
        /// The entry.
        entry: EntryId,
        /// Entries whose parent it is.
        children: u32,
    },
    /// A worth that says nothing.
    #[error(
        "a chance of {chance} and {bytes} bytes make no worth: the chance is 0 to 1, a page has at least 1 byte"
    )]
    BadWorth {
        /// The chance of next use, as text: it may be no number.
        chance: String,
        /// Bytes of the page.
        bytes: u64,
    },
    /// There is no such tier here.
    #[error("there is no {0} tier: give the tiers an allocator for it")]
    NoTier(Tier),
    /// The allocator of a tier refused.
    #[error(transparent)]
    Page(#[from] PageError),
}
