//! Files of a journal that is being written, read for a standby that lacks them. Nothing here waits for the writer, and files
//! that a compaction removes meanwhile are an error that beginning anew mends.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::error::JournalError;
use super::folder::{self, MAGIC};
use super::record;
use super::segment;

/// Bytes that are given away at once.
pub(crate) const PIECE: usize = 1 << 20;

/// A snapshot that a standby has to take whole. Open, so that it can be read though another one replaces it.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The last record that it covers.
    pub(crate) last: u64,
    pub(crate) bytes: u64,
    path: PathBuf,
    file: File,
}

/// The snapshot, where a standby that has everything up to `keep` cannot go on without it.
pub(crate) fn snapshot(folder: &Path, keep: u64) -> Result<Option<Snapshot>, JournalError> {
    let newest = folder::look(folder)?.snapshot;
    let Some((last, path)) = newest.filter(|(last, _)| *last > keep) else {
        return Ok(None);
    };
    let file = File::open(&path).map_err(JournalError::io("opening", &path))?;
    let bytes = file
        .metadata()
        .map_err(JournalError::io("looking at", &path))?
        .len();
    Ok(Some(Snapshot {
        last,
        bytes,
        path,
        file,
    }))
}

impl Snapshot {
    /// Gives the file away in pieces until `give` says that it wants no more.
    pub(crate) fn read(mut self, mut give: impl FnMut(Bytes) -> bool) -> Result<(), JournalError> {
        let mut left = self.bytes;
        while left > 0 {
            let mut piece = vec![0; left.min(PIECE as u64) as usize];
            self.file
                .read_exact(&mut piece)
                .map_err(JournalError::io("reading", &self.path))?;
            left -= piece.len() as u64;
            if !give(piece.into()) {
                break;
            }
        }
        Ok(())
    }
}

/// Gives away the records after `after` up to `upto`, which are in files, until `give` says that it wants no more.
pub(crate) fn read(
    folder: &Path,
    after: u64,
    upto: u64,
    mut give: impl FnMut(Bytes) -> bool,
) -> Result<(), JournalError> {
    let segments = folder::look(folder)?.segments;
    let mut next = after + 1;
    for (place, (_, path)) in segments.iter().enumerate() {
        let following = segments.get(place + 1).map(|(first, _)| *first);
        if next > upto || following.is_some_and(|first| first <= next) {
            continue;
        }
        let content = Bytes::from(segment::read(path)?);
        let mut at = MAGIC.len();
        let mut start = None;
        while next <= upto && at < content.len() {
            let found = record::parse(&content[at..])
                .map_err(|broken| JournalError::corrupt(path, at, broken.words()))?;
            let (index, end) = (found.index, at + found.len());
            if index > next {
                break;
            }
            if index == next {
                start.get_or_insert(at);
                next += 1;
            }
            at = end;
        }
        if let Some(start) = start
            && !give_pieces(&content.slice(start..at), &mut give)
        {
            return Ok(());
        }
    }
    if next <= upto {
        let (expected, file) = (next, folder.to_owned());
        return Err(JournalError::Gap { expected, file });
    }
    Ok(())
}

/// False: no more is wanted.
pub(crate) fn give_pieces(content: &Bytes, mut give: impl FnMut(Bytes) -> bool) -> bool {
    let mut at = 0;
    while at < content.len() {
        let end = content.len().min(at + PIECE);
        if !give(content.slice(at..end)) {
            return false;
        }
        at = end;
    }
    true
}
