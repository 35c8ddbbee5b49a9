//! Pages in a file: each with its key and a checksum, over restarts of the process.
//!
//! A page counts as there once its record is written, after its bytes. Nothing is flushed in between: if the machine loses
//! power, a record may be there without its bytes, and the checksum says so. It covers the bytes, the key, the slot, the
//! write's number and the arena's fingerprint, so that bytes of another page, life or model never pass for these.
//!
//! The checksum is BLAKE3: a 256-bit one lets no wrong byte through however many pages are read, costs less than the disk
//! takes to read a page (the bench `disk` measures both), and keys the pages anyway. A CRC of 32 bits is quicker, and passes
//! one damaged page of four thousand million.
//!
//! The file is read and written, not mapped: behind a mapping, a full disk or a bad block kills the process, where a read or
//! write says what is wrong. It goes past the system's cache where the file system allows that (`O_DIRECT`), as the pages are
//! cached by whoever uses this.

mod aligned;
mod arena;
mod error;
mod file;
mod record;

pub use arena::{DiskArena, DiskInfo, Found, Held, Opened, Slots};
pub use error::DiskError;
