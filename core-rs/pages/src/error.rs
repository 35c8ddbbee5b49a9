//! What can go wrong with pages.

use thiserror::Error;

use crate::id::{Generation, PageId};

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
    /// The handle belongs to another allocator.
    #[error("this run belongs to another page allocator: use the one that it was allocated from")]
    Foreign,
}

/// A broken invariant, found by `check()`: a bug of this crate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("page allocator is corrupt: {0}; please report this as a bug")]
pub struct Corrupt(pub(crate) String);
