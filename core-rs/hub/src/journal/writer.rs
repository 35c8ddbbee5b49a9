//! The journal's thread: one write for all that has gathered since the last, files of bounded length, compactions beside it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::compaction::compact;
use super::folder::{self, MAGIC};

/// Between two tries to write to a disk that is full.
const RETRY: Duration = Duration::from_millis(200);

/// What the thread tells: records up to a number are written, or why none are.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    UpTo(u64),
    Failed(String),
}

/// What waits to be written.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) bytes: Vec<u8>,
    /// The number of the last record in it, or written.
    pub(crate) last: u64,
    pub(crate) stop: bool,
    /// Told to whoever waits: up to this number everything is written and told.
    pub(crate) told: u64,
}

/// What the hub and the thread share.
#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) queue: Mutex<Queue>,
    pub(crate) more: Condvar,
    pub(crate) progress: Condvar,
}

pub(crate) struct Writer {
    pub(crate) folder: PathBuf,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) fsync: bool,
    pub(crate) segment_bytes: u64,
    /// The number of the next record.
    pub(crate) next: u64,
    /// Bytes in files that a compaction could shorten.
    pub(crate) old_bytes: u64,
    /// Bytes of the last snapshot.
    pub(crate) snapshot_bytes: u64,
}

/// The file that is appended to.
struct Active {
    file: File,
    length: u64,
}

impl Writer {
    pub(crate) fn run(mut self, mut tell: impl FnMut(Written)) {
        let mut active = None;
        let mut compaction: Option<JoinHandle<Option<u64>>> = None;
        let mut batch = Vec::new();
        loop {
            let last = {
                let mut queue = self.inbox.queue.lock();
                while queue.bytes.is_empty() && !queue.stop {
                    self.inbox.more.wait(&mut queue);
                }
                if queue.bytes.is_empty() {
                    break;
                }
                std::mem::swap(&mut batch, &mut queue.bytes);
                queue.last
            };
            while let Err(error) = self.write(&mut active, &batch) {
                tell(Written::Failed(error.to_string()));
                let mut queue = self.inbox.queue.lock();
                if queue.stop {
                    return;
                }
                self.inbox.more.wait_for(&mut queue, RETRY);
            }
            batch.clear();
            batch.shrink_to(1 << 20);
            self.next = last + 1;
            tell(Written::UpTo(last));
            self.inbox.queue.lock().told = last;
            self.inbox.progress.notify_all();
            self.rotate(&mut active, &mut compaction);
        }
        if let Some(running) = compaction {
            let _ = running.join();
        }
    }

    /// All of it, or nothing that a reader would take for a record.
    fn write(&self, active: &mut Option<Active>, batch: &[u8]) -> io::Result<()> {
        if active.is_none() {
            *active = Some(self.start()?);
        }
        let Some(open) = active else {
            return Ok(());
        };
        let written = open.file.write_all(batch).and_then(|()| {
            if self.fsync {
                open.file.sync_data()
            } else {
                Ok(())
            }
        });
        match written {
            Ok(()) => open.length += batch.len() as u64,
            // What was written of it goes, or the next try would follow half a record.
            Err(_) => {
                let cut = open.file.set_len(open.length);
                if cut.is_err() {
                    *active = None;
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
    fn rotate(
        &mut self,
        active: &mut Option<Active>,
        compaction: &mut Option<JoinHandle<Option<u64>>>,
    ) {
        let full = active
            .as_ref()
            .is_some_and(|open| open.length >= self.segment_bytes);
        if full && let Some(done) = active.take() {
            self.old_bytes += done.length;
        }
        if compaction.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(running) = compaction.take()
            && let Ok(Some(length)) = running.join()
        {
            self.snapshot_bytes = length;
        }
        let worth = self.old_bytes > self.segment_bytes.max(2 * self.snapshot_bytes);
        if active.is_none() && worth && compaction.is_none() {
            self.old_bytes = 0;
            let (folder, end) = (self.folder.clone(), self.next);
            let builder = thread::Builder::new().name("omniflow-compact".to_owned());
            // One that fails leaves the folder as it is; the next one takes more at once.
            *compaction = builder.spawn(move || compact(&folder, end).ok()).ok();
        }
    }
}

/// Microseconds of CPU that the calling thread has used, for the figures that tests print.
#[cfg(test)]
pub(crate) fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
