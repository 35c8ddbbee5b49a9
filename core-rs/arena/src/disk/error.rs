//! What can go wrong with pages on disk.

use std::path::PathBuf;

use omniflow_pages::PageId;
use rustix::io::Errno;
use thiserror::Error;

use crate::error::ArenaError;

/// Why something about an arena on disk was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DiskError {
    /// No arena can have such a layout, or there is none at that path, or another one, or a damaged one.
    #[error("the disk arena {path} cannot be used: {error}. To give it up, remove the file")]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: ArenaError,
    },
    /// Nothing is there.
    #[error("there is no disk arena {path}: create it")]
    Missing {
        /// Which file.
        path: PathBuf,
    },
    /// Somebody made a file of that name meanwhile.
    #[error("there is a file {path} already: open it, or remove it")]
    Exists {
        /// Which file.
        path: PathBuf,
    },
    /// Another process, or another arena of this one, has it open.
    #[error("the disk arena {path} is in use: give each worker a file of its own")]
    InUse {
        /// Which file.
        path: PathBuf,
    },
    /// No room. What was there is still there.
    #[error(
        "the disk that holds {path} is full, or its user's quota is: free some room, or make the disk arena smaller"
    )]
    Full {
        /// Which file.
        path: PathBuf,
    },
    /// The slot holds no page, or the page of another key.
    #[error(
        "page {page} of the disk arena does not hold that content: it was replaced or forgotten; compute it again"
    )]
    NotThere {
        /// The slot.
        page: PageId,
    },
    /// The page's bytes are not those that were written. It has been forgotten.
    #[error(
        "page {page} of the disk arena was damaged and has been dropped: compute it again, and check the disk if this comes often"
    )]
    PageDamaged {
        /// The slot.
        page: PageId,
    },
    /// No such slot.
    #[error("page {page} is not one of the {pages} of the disk arena")]
    UnknownPage {
        /// The slot.
        page: PageId,
        /// How many there are.
        pages: u32,
    },
    /// A buffer of another size than a page.
    #[error("{found} bytes for a page of {expected}: pass exactly one page")]
    WrongSize {
        /// Bytes of a page.
        expected: u64,
        /// Bytes of the buffer.
        found: usize,
    },
    /// The system refused.
    #[error("{what} {path} failed: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        error: Errno,
    },
}
