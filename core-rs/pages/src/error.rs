//! What can go wrong with pages.

use std::sync::Arc;

use thiserror::Error;

use crate::id::{Generation, LeaseId, PageId};

/// Why a request for or about pages was refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PageError {
    /// The pool would have no page to hand out.
    #[error(
        "a pool of {pages} pages with {reserved} reserved has none to hand out: give it more pages than it reserves"
    )]
    EmptyPool {
        /// Pages of the pool, the reserved ones included.
        pages: u32,
        /// Pages that are never handed out.
        reserved: u32,
    },
    /// Fewer pages are free than were wanted.
    #[error(
        "{wanted} pages wanted, {free} are free: release runs, evict from the prefix index, or wait"
    )]
    OutOfPages {
        /// Pages asked for.
        wanted: usize,
        /// Pages that could be had.
        free: usize,
    },
    /// The tenant may not use so many.
    #[error(
        "tenant '{tenant}' uses {used} pages of its quota of {quota} and wants {wanted} more: end or evict some of its own work, or raise its quota"
    )]
    QuotaExceeded {
        /// Whose quota.
        tenant: Arc<str>,
        /// Pages asked for.
        wanted: usize,
        /// Pages that it uses.
        used: usize,
        /// Pages that it may use.
        quota: usize,
    },
    /// The page has been freed since its generation was noted.
    #[error(
        "page {page} is at generation {current}, no longer at {generation}: its content is gone; fetch or compute it again"
    )]
    StalePage {
        /// The page.
        page: PageId,
        /// The generation that the caller noted.
        generation: Generation,
        /// The generation that it has now.
        current: Generation,
    },
    /// No such page is ever handed out.
    #[error("page {page} is not one of the pages {first}..{end} that this pool hands out")]
    UnknownPage {
        /// The page.
        page: PageId,
        /// The first page that is handed out.
        first: u32,
        /// One past the last.
        end: u32,
    },
    /// Nobody holds the page here: it is free, or of another owner's extent.
    #[error(
        "page {page} is held by nobody here: lease it from the owner of its extent, while a run or an index holds it"
    )]
    NotHeld {
        /// The page.
        page: PageId,
    },
    /// The page cannot be given up or taken in.
    #[error("page {page} {why}")]
    NotMovable {
        /// The page.
        page: PageId,
        /// What it is instead.
        why: &'static str,
    },
    /// The lease has ended.
    #[error(
        "lease {lease} has ended: it was released or revoked, or it expired; ask for a new one and check the pages' generations"
    )]
    UnknownLease {
        /// The lease.
        lease: LeaseId,
    },
    /// The handle belongs to another allocator.
    #[error("this run belongs to another page allocator: use the one that it was allocated from")]
    Foreign,
}

/// A broken invariant, found by `check()`: a bug of this crate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("page allocator is corrupt: {0}; please report this as a bug")]
pub struct Corrupt(pub(crate) String);
