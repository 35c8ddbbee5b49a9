//! What the scheduler must not forget (rule 17): accepted jobs with their inputs, what clients were given of them, how they
//! ended. Append-only, checksummed, written by a thread of its own so that a slow disk delays answers and never the hub.
//!
//! - `record`: one record's bytes. `bodies`: what records say.
//! - `segment`: files of records, read back. A torn last record is cut off; anything else that is broken is an error.
//! - `replay`: from the files to the jobs that they hold. `compaction`: the same files without what is needed no longer.
//! - `walk`: every record of a folder. `extent`: how far a journal reaches, and whose records it holds.
//! - `appender`: the file at the end. `writer`: the thread, one write for all that has gathered. `handle`: what the hub holds.
//! - For a standby: `tap`, what is written now; `catch_up`, what is in files; `copy`, its own journal.
//! - `error`: what can be wrong, where, and the cure.
//!
//! A record is *written* once the operating system has it: that survives the death of the process (`kill -9`), not that of
//! the machine, unless `fsync` is on.

mod appender;
pub(crate) mod bodies;
pub(crate) mod catch_up;
mod compaction;
pub(crate) mod copy;
mod error;
mod extent;
mod folder;
mod handle;
pub(crate) mod record;
mod replay;
mod segment;
pub(crate) mod tap;
#[cfg(test)]
mod tests;
mod walk;
mod writer;

pub use error::JournalError;
pub(crate) use extent::{Extent, Run};
pub(crate) use handle::Journal;
pub use handle::JournalConfig;
pub(crate) use replay::{Image, JobImage};
pub(crate) use writer::Written;
