//! The journal of a standby: a copy of the leader's, record for record, that the standby goes on with when it leads.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use super::appender::Appender;
use super::error::JournalError;
use super::extent::Extent;
use super::folder::{self, MAGIC};
use super::handle::JournalConfig;
use super::record::{self, Record};
use super::segment::{self, Tail};
use super::walk::walk;

/// See the module. The folder is locked for as long as it lives.
pub(crate) struct JournalCopy {
    config: JournalConfig,
    extent: Extent,
    appender: Appender,
    _lock: File,
}

/// A leader's snapshot that arrives.
pub(crate) struct Incoming {
    path: PathBuf,
    file: File,
    last: u64,
}

impl JournalCopy {
    /// Locks the folder and reads how far it reaches. A torn last record is cut off.
    pub(crate) fn open(config: &JournalConfig) -> Result<Self, JournalError> {
        let lock = folder::lock(&config.folder)?;
        let walked = walk(&config.folder, |_, _| Ok(()))?;
        let appender = Appender::new(config, walked.extent.last, walked.bytes);
        Ok(Self {
            config: config.clone(),
            extent: walked.extent,
            appender,
            _lock: lock,
        })
    }

    pub(crate) fn extent(&self) -> &Extent {
        &self.extent
    }

    /// Whole records that follow. They are all written, or none.
    pub(crate) fn append(&mut self, records: &[u8]) -> Result<(), JournalError> {
        let mut extent = self.extent.clone();
        each_record(records, |record| {
            if record.index != extent.last + 1 {
                let (expected, file) = (extent.last + 1, self.config.folder.clone());
                return Err(JournalError::Gap { expected, file });
            }
            extent.note(record);
            Ok(())
        })?;
        let written = self.appender.append(records, extent.last);
        written.map_err(JournalError::io("writing", &self.config.folder))?;
        self.extent = extent;
        self.appender.rotate();
        Ok(())
    }

    /// Cuts everything after record `keep` off: the leader has something else there. `keep` is not inside the snapshot, or 0.
    pub(crate) fn truncate(&mut self, keep: u64) -> Result<(), JournalError> {
        if keep == self.extent.last {
            return Ok(());
        }
        self.appender.finish();
        let files = folder::list(&self.config.folder)?;
        // The last file first: a process that dies in between leaves a journal that is only longer.
        for (first, path) in files.segments.iter().rev() {
            if *first > keep {
                folder::remove(path)?;
                continue;
            }
            let content = segment::read(path)?;
            let mut length = MAGIC.len();
            segment::scan(path, &content, Tail::MayBeTorn, |record| {
                if record.index <= keep {
                    length += record.len();
                }
                Ok(())
            })?;
            segment::cut(path, length)?;
            break;
        }
        if let Some((last, path)) = files.snapshot
            && last > keep
        {
            folder::remove(&path)?;
        }
        self.reopen()
    }

    /// A snapshot takes the place of everything. Until it is whole the journal is empty.
    pub(crate) fn begin_snapshot(&mut self, last: u64) -> Result<Incoming, JournalError> {
        self.truncate(0)?;
        let path = self.config.folder.join("incoming.partial");
        let file = File::create(&path).map_err(JournalError::io("making", &path))?;
        Ok(Incoming { path, file, last })
    }

    /// It is whole.
    pub(crate) fn end_snapshot(&mut self, incoming: Incoming) -> Result<(), JournalError> {
        let Incoming { path, file, last } = incoming;
        file.sync_all()
            .map_err(JournalError::io("syncing", &path))?;
        segment::scan(&path, &segment::read(&path)?, Tail::Whole, |_| Ok(()))?;
        let snapshot = folder::snapshot_path(&self.config.folder, last);
        fs::rename(&path, &snapshot).map_err(JournalError::io("renaming", &path))?;
        self.reopen()
    }

    fn reopen(&mut self) -> Result<(), JournalError> {
        let walked = walk(&self.config.folder, |_, _| Ok(()))?;
        self.appender = Appender::new(&self.config, walked.extent.last, walked.bytes);
        self.extent = walked.extent;
        Ok(())
    }
}

impl Incoming {
    pub(crate) fn write(&mut self, piece: &[u8]) -> Result<(), JournalError> {
        self.file
            .write_all(piece)
            .map_err(JournalError::io("writing", &self.path))
    }
}

/// How many of the bytes are whole records. Whether they hold is seen when they are appended.
pub(crate) fn whole_records(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(length) = record::peek_length(&bytes[at..])
        && at + length <= bytes.len()
    {
        at += length;
    }
    at
}

fn each_record(
    records: &[u8],
    mut each: impl FnMut(Record<'_>) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    let mut at = 0;
    while at < records.len() {
        let found = record::parse(&records[at..]).map_err(|broken| {
            JournalError::corrupt("what the leader sent".as_ref(), at, broken.words())
        })?;
        at += found.len();
        each(found)?;
    }
    Ok(())
}
