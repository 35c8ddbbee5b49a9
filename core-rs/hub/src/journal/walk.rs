//! Every record of a folder, in order.

use std::path::Path;

use super::error::JournalError;
use super::extent::Extent;
use super::folder;
use super::record::Record;
use super::segment::{self, Tail};

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) extent: Extent,
    /// Bytes in files.
    pub(crate) bytes: u64,
}

/// Calls `each` for every record, with the file that it is in. A torn last record is cut off.
pub(crate) fn walk(
    folder: &Path,
    mut each: impl FnMut(&Path, Record<'_>) -> Result<(), JournalError>,
) -> Result<Walked, JournalError> {
    let files = folder::list(folder)?;
    let Walked {
        mut extent,
        mut bytes,
    } = Walked::default();
    if let Some((last, path)) = &files.snapshot {
        let content = segment::read(path)?;
        segment::scan(path, &content, Tail::Whole, |record| {
            extent.note(record);
            each(path, record)
        })?;
        bytes += content.len() as u64;
        (extent.base, extent.last) = (*last, *last);
    }
    let count = files.segments.len();
    for (place, (first, path)) in files.segments.iter().enumerate() {
        if *first != extent.last + 1 {
            let (expected, file) = (extent.last + 1, path.clone());
            return Err(JournalError::Gap { expected, file });
        }
        let tail = if place + 1 == count {
            Tail::MayBeTorn
        } else {
            Tail::Whole
        };
        let content = segment::read(path)?;
        let good = segment::scan(path, &content, tail, |record| {
            if record.index != extent.last + 1 {
                let (expected, file) = (extent.last + 1, path.clone());
                return Err(JournalError::Gap { expected, file });
            }
            extent.note(record);
            each(path, record)
        })?;
        if good < content.len() || extent.last < *first {
            segment::cut(path, if extent.last < *first { 0 } else { good })?;
        }
        bytes += good as u64;
    }
    Ok(Walked { extent, bytes })
}
