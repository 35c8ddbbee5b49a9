//! The journal's folder: which files there are, and that nobody else writes them.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::JournalError;

/// What every file begins with.
pub(crate) const MAGIC: &[u8; 16] = b"omniflow-journal";

/// A file of records: appended to, or written at once by a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    /// The newest snapshot, with the last index that it covers.
    pub(crate) snapshot: Option<(u64, PathBuf)>,
    /// Later segments by the index of their first record.
    pub(crate) segments: Vec<(u64, PathBuf)>,
}

pub(crate) fn segment_path(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("segment-{first:020}.log"))
}

pub(crate) fn snapshot_path(folder: &Path, last: u64) -> PathBuf {
    folder.join(format!("snapshot-{last:020}.log"))
}

/// The lock is held as long as the file lives, and goes with the process.
pub(crate) fn lock(folder: &Path) -> Result<File, JournalError> {
    fs::create_dir_all(folder).map_err(JournalError::io("making the journal's folder", folder))?;
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    let file = options
        .open(&path)
        .map_err(JournalError::io("opening", &path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(JournalError::InUse {
            folder: folder.to_owned(),
        }),
        Err(error) => Err(JournalError::io("locking", &path)(error.into())),
    }
}

/// What is there, as it is: somebody else may be writing it.
pub(crate) fn look(folder: &Path) -> Result<Files, JournalError> {
    Ok(Found::of(folder)?.sorted_out().0)
}

/// What is there. Leftovers of a compaction that was interrupted, before or after its rename, are removed.
pub(crate) fn list(folder: &Path) -> Result<Files, JournalError> {
    let (files, leftovers) = Found::of(folder)?.sorted_out();
    for path in &leftovers {
        remove(path)?;
    }
    Ok(files)
}

/// The files of a journal, by number.
#[derive(Default)]
struct Found {
    snapshots: Vec<(u64, PathBuf)>,
    segments: Vec<(u64, PathBuf)>,
    partial: Vec<PathBuf>,
}

impl Found {
    fn of(folder: &Path) -> Result<Self, JournalError> {
        let entries = fs::read_dir(folder).map_err(JournalError::io("listing", folder))?;
        let mut found = Self::default();
        for entry in entries {
            let path = entry.map_err(JournalError::io("listing", folder))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.unwrap_or("");
            let number = |prefix| {
                name.strip_prefix(prefix)
                    .and_then(|rest| rest.strip_suffix(".log"))
                    .and_then(|number| number.parse::<u64>().ok())
            };
            if let Some(last) = number("snapshot-") {
                found.snapshots.push((last, path));
            } else if let Some(first) = number("segment-") {
                found.segments.push((first, path));
            } else if name.ends_with(".partial") {
                found.partial.push(path);
            }
        }
        found.snapshots.sort_unstable();
        found.segments.sort_unstable();
        Ok(found)
    }

    /// What counts, and what is left over.
    fn sorted_out(self) -> (Files, Vec<PathBuf>) {
        let Self {
            mut snapshots,
            segments,
            partial: mut leftovers,
        } = self;
        let snapshot = snapshots.pop();
        let covered = snapshot.as_ref().map_or(0, |(last, _)| *last);
        let (old, segments): (Vec<_>, Vec<_>) = segments
            .into_iter()
            .partition(|(first, _)| *first <= covered);
        leftovers.extend(snapshots.into_iter().chain(old).map(|(_, path)| path));
        (Files { snapshot, segments }, leftovers)
    }
}

pub(crate) fn remove(path: &Path) -> Result<(), JournalError> {
    fs::remove_file(path).map_err(JournalError::io("removing", path))
}
