//! Why a journal cannot be read or written. Each says where, and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// What is wrong with a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A record in the middle of a file does not hold: the disk, or somebody, changed it.
    #[error(
        "the journal is damaged: {} at byte {offset}: {what}; restore the folder from a copy, or move it away to start \
         without the jobs that it holds", .file.display()
    )]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Where in it the bad record begins.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A file of the sequence is not there.
    #[error(
        "the journal has a gap: record {expected} is missing before {}; restore the folder from a copy, or move it away to \
         start without the jobs that it holds", .file.display()
    )]
    Gap {
        /// The number of the first record that is missing.
        expected: u64,
        /// The file that begins too late.
        file: PathBuf,
    },
    /// A living process has it open.
    #[error("another scheduler writes the journal in {}; stop it, or name another folder", .folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The operating system said no.
    #[error("{doing} {}: {source}", .file.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        file: PathBuf,
        /// Its words.
        source: io::Error,
    },
}

impl JournalError {
    pub(crate) fn io(doing: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::Io {
            doing,
            file,
            source,
        }
    }

    pub(crate) fn corrupt(file: &Path, offset: usize, what: impl Into<String>) -> Self {
        Self::Corrupt {
            file: file.to_owned(),
            offset: offset as u64,
            what: what.into(),
        }
    }
}
