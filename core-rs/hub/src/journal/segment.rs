//! A file of records, read back: what holds, and what to think of what doesn't.

use std::fs::{self, OpenOptions};
use std::path::Path;

use super::error::JournalError;
use super::folder::{MAGIC, remove};
use super::record::{self, HEADER, Record};

/// How far the numbers of records that follow a broken one may lie ahead: it hides at most as many as fit into a file.
const PLAUSIBLE: u64 = 1 << 24;

/// Where a file ends: segments that are done and snapshots hold; the last segment may end in a record that was being
/// written when the process died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    Whole,
    MayBeTorn,
}

/// Calls `each` for every record. Returns how many bytes hold.
pub(crate) fn scan(
    path: &Path,
    bytes: &[u8],
    tail: Tail,
    mut each: impl FnMut(Record<'_>) -> Result<(), JournalError>,
) -> Result<usize, JournalError> {
    if !bytes.starts_with(MAGIC) {
        if tail == Tail::MayBeTorn && MAGIC.starts_with(bytes) {
            return Ok(0);
        }
        return Err(JournalError::corrupt(
            path,
            0,
            "it does not begin like a journal",
        ));
    }
    let (mut at, mut last) = (MAGIC.len(), 0);
    while at < bytes.len() {
        match record::parse(&bytes[at..]) {
            Ok(found) if found.index <= last => {
                let what = format!("record {} follows record {last}", found.index);
                return Err(JournalError::corrupt(path, at, what));
            }
            Ok(found) => {
                last = found.index;
                at += found.len();
                each(found)?;
            }
            Err(_) if tail == Tail::MayBeTorn && !goes_on(&bytes[at + 1..], last) => break,
            Err(broken) => return Err(JournalError::corrupt(path, at, broken.words())),
        }
    }
    Ok(at)
}

/// Whether a record stands somewhere after a broken one: then that one was not the last, and was not being written.
fn goes_on(bytes: &[u8], last: u64) -> bool {
    let ahead = last + 1..last.saturating_add(PLAUSIBLE);
    (0..bytes.len().saturating_sub(HEADER - 1)).any(|at| {
        record::peek_index(&bytes[at..]).is_some_and(|index| ahead.contains(&index))
            && record::parse(&bytes[at..]).is_ok()
    })
}

/// The content of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, JournalError> {
    fs::read(path).map_err(JournalError::io("reading", path))
}

/// Cuts a torn record off; a file that holds nothing else goes.
pub(crate) fn cut(path: &Path, length: usize) -> Result<(), JournalError> {
    if length <= MAGIC.len() {
        return remove(path);
    }
    let file = OpenOptions::new().write(true).open(path);
    file.and_then(|file| file.set_len(length as u64))
        .map_err(JournalError::io("cutting a torn record off", path))
}
