//! What can go wrong with extents.

use thiserror::Error;

use crate::id::{ExtentId, LeaseId, OwnerId, PageId};

/// Why a request about extents was refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExtentError {
    /// The pool cannot be cut so.
    #[error(
        "a pool of {pages} pages with {reserved} reserved has no extent of {extent_pages}: make the pool larger or its extents smaller (at least 1 page)"
    )]
    NoExtent {
        /// Pages of the pool, the reserved ones included.
        pages: u32,
        /// Pages that are never handed out.
        reserved: u32,
        /// Pages of an extent.
        extent_pages: u32,
    },
    /// Every extent is somebody's.
    #[error(
        "all {extents} extents are in use, {orphaned} of them by owners that died and whose pages others may still read: give extents back, wait for those readers, or make the pool larger"
    )]
    OutOfExtents {
        /// Extents of the pool.
        extents: usize,
        /// Those that wait for the reports of readers.
        orphaned: usize,
    },
    /// The process has joined already, or has been here before it died.
    #[error("owner {owner} is known already: a restarted process joins as a new owner")]
    KnownOwner {
        /// Who wanted to join.
        owner: OwnerId,
    },
    /// The process is not in the pool.
    #[error(
        "owner {owner} is not in the pool: it never joined, or it is dead; join as a new owner"
    )]
    UnknownOwner {
        /// Who asked.
        owner: OwnerId,
    },
    /// The extent is not the caller's.
    #[error("extent {extent} is not owner {owner}'s to give back")]
    NotOwner {
        /// The extent.
        extent: ExtentId,
        /// Who asked.
        owner: OwnerId,
    },
    /// An extent that is somebody else's by another claim, or that the pool does not have.
    #[error(
        "owner {owner} claims extent {extent}, which another claim has or which is not in the pool: one of them is no longer alive, or maps another pool"
    )]
    NotClaimable {
        /// The extent.
        extent: ExtentId,
        /// Who claims it.
        owner: OwnerId,
    },
    /// A report that nobody waits for.
    #[error(
        "nobody waits for owner {reader} to say what it reads of dead owner {dead}: a report counts once, when asked for"
    )]
    NotAsked {
        /// Who reported.
        reader: OwnerId,
        /// Of whose pages.
        dead: OwnerId,
    },
    /// A page that the dead owner did not have.
    #[error(
        "page {page} was not in an extent of dead owner {dead}: report the pages that were leased from it, and those only"
    )]
    NotOfTheDead {
        /// The page.
        page: PageId,
        /// Whose it was said to be.
        dead: OwnerId,
    },
    /// The read has ended.
    #[error("lease {lease} on pages of a dead owner has ended")]
    UnknownLease {
        /// The lease.
        lease: LeaseId,
    },
}
