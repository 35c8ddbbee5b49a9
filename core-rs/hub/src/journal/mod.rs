//! What the scheduler must not forget (rule 17): accepted jobs with their inputs, what clients were given of them, how they
//! ended. Append-only, checksummed, written by a thread of its own so that a slow disk delays answers and never the hub.
//!
//! - `record`: one record's bytes. `bodies`: what records say.
//! - `segment`: files of records, read back. A torn last record is cut off; anything else that is broken is an error.
//! - `replay`: from the files to the jobs that they hold. `compaction`: the same files without what is needed no longer.
//! - `writer`: the thread, one write for all that has gathered. `journal`: the handle, and the folder's lock.
//! - `error`: what can be wrong, where, and the cure.
//!
//! A record is *written* once the operating system has it: that survives the death of the process (`kill -9`), not that of
//! the machine, unless `fsync` is on.

pub(crate) mod bodies;
mod compaction;
mod error;
mod folder;
mod handle;
pub(crate) mod record;
mod replay;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

pub use error::JournalError;
pub(crate) use handle::Journal;
pub use handle::JournalConfig;
pub(crate) use replay::{Image, JobImage};
pub(crate) use writer::Written;
