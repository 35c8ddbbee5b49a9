//! Records go to the end of a file: files of bounded length, compactions beside them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use super::compaction::compact;
use super::folder::{self, MAGIC};
use super::handle::JournalConfig;

/// The end of a journal.
pub(crate) struct Appender {
    folder: PathBuf,
    fsync: bool,
    segment_bytes: u64,
    /// The number of the next record.
    next: u64,
    active: Option<Active>,
    /// Bytes in files that a compaction could shorten.
    old_bytes: u64,
    /// Bytes of the last snapshot.
    snapshot_bytes: u64,
    compaction: Option<JoinHandle<Option<u64>>>,
}

/// The file that is appended to.
struct Active {
    file: File,
    length: u64,
}

impl Appender {
    /// Behind record `last`, of a folder with so many bytes in files.
    pub(crate) fn new(config: &JournalConfig, last: u64, bytes: u64) -> Self {
        Self {
            folder: config.folder.clone(),
            fsync: config.fsync,
            segment_bytes: config.segment_bytes,
            next: last + 1,
            active: None,
            old_bytes: bytes,
            snapshot_bytes: 0,
            compaction: None,
        }
    }

    /// Appends whole records, of which `last` is the last: all of them, or nothing that a reader would take for a record.
    pub(crate) fn append(&mut self, records: &[u8], last: u64) -> io::Result<()> {
        if self.active.is_none() {
            self.active = Some(self.start()?);
        }
        let Some(open) = &mut self.active else {
            return Ok(());
        };
        let written = open.file.write_all(records).and_then(|()| {
            if self.fsync {
                open.file.sync_data()
            } else {
                Ok(())
            }
        });
        match written {
            Ok(()) => {
                open.length += records.len() as u64;
                self.next = last + 1;
            }
            // What was written of it goes, or the next try would follow half a record.
            Err(_) => {
                let cut = open.file.set_len(open.length);
                if cut.is_err() {
                    self.active = None;
                }
            }
        }
        written
    }

    /// A file of the same first record may be left of a try that failed.
    fn start(&self) -> io::Result<Active> {
        let path = folder::segment_path(&self.folder, self.next);
        let mut options = OpenOptions::new();
        let mut file = options.create(true).append(true).open(&path)?;
        file.set_len(0)?;
        file.write_all(MAGIC)?;
        Ok(Active {
            file,
            length: MAGIC.len() as u64,
        })
    }

    /// Begins a new file once this one is long enough, and a compaction once the old ones are worth it.
    pub(crate) fn rotate(&mut self) {
        let full = self
            .active
            .as_ref()
            .is_some_and(|open| open.length >= self.segment_bytes);
        if full && let Some(done) = self.active.take() {
            self.old_bytes += done.length;
        }
        if self
            .compaction
            .as_ref()
            .is_some_and(JoinHandle::is_finished)
        {
            self.finish();
        }
        let worth = self.old_bytes > self.segment_bytes.max(2 * self.snapshot_bytes);
        if self.active.is_none() && worth && self.compaction.is_none() {
            self.old_bytes = 0;
            let (folder, end) = (self.folder.clone(), self.next);
            let builder = thread::Builder::new().name("omniflow-compact".to_owned());
            // One that fails leaves the folder as it is; the next one takes more at once.
            self.compaction = builder.spawn(move || compact(&folder, end).ok()).ok();
        }
    }

    /// Waits for a compaction that runs.
    pub(crate) fn finish(&mut self) {
        if let Some(running) = self.compaction.take()
            && let Ok(Some(length)) = running.join()
        {
            self.snapshot_bytes = length;
        }
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        self.finish();
    }
}
