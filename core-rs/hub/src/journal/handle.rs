//! The hub's handle: records gather during a turn, and go to the writer at its end.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use prost::Message;

use super::appender::Appender;
use super::bodies::Opened;
use super::error::JournalError;
use super::extent::Run;
use super::folder;
use super::record::{self, Kind};
use super::replay::Image;
use super::tap::Tap;
use super::writer::{Inbox, Writer, Written};

/// Where the journal lies and how it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// Its folder, of this scheduler alone; made when it is not there.
    pub folder: PathBuf,
    /// Wait for the disk at every write: survives the machine's death, and costs its latency.
    pub fsync: bool,
    /// A file that is longer is closed, and may be compacted.
    pub segment_bytes: u64,
}

impl JournalConfig {
    /// The defaults.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            fsync: false,
            segment_bytes: 64 << 20,
        }
    }
}

/// See the module.
pub(crate) struct Journal {
    term: u64,
    last: u64,
    batch: Vec<u8>,
    inbox: Arc<Inbox>,
    tap: Arc<Tap>,
    writer: Option<Writer>,
    thread: Option<JoinHandle<()>>,
    pub(crate) folder: PathBuf,
    _lock: File,
}

impl Journal {
    /// Locks the folder and reads it. The image's `lives` is this life's number.
    pub(crate) fn open(config: &JournalConfig, term: u64) -> Result<(Self, Image), JournalError> {
        let lock = folder::lock(&config.folder)?;
        let mut image = Image::read(&config.folder)?;
        let inbox = Arc::new(Inbox::default());
        let tap = Arc::new(Tap::new(image.last));
        let writer = Writer {
            inbox: inbox.clone(),
            appender: Appender::new(config, image.last, image.bytes),
            tap: tap.clone(),
        };
        let mut journal = Self {
            term,
            last: image.last,
            batch: Vec::new(),
            inbox,
            tap,
            writer: Some(writer),
            thread: None,
            folder: config.folder.clone(),
            _lock: lock,
        };
        image.lives += 1;
        let (life, mark) = (image.lives, RandomState::new().build_hasher().finish());
        let first = journal.append(Kind::Opened, &Opened { life, mark });
        image.extent.runs.push(Run { term, mark, first });
        Ok((journal, image))
    }

    /// Starts writing; `tell` is called from the journal's thread.
    pub(crate) fn start(
        &mut self,
        tell: impl FnMut(Written) + Send + 'static,
    ) -> std::io::Result<()> {
        if let Some(writer) = self.writer.take() {
            let builder = thread::Builder::new().name("omniflow-journal".to_owned());
            self.thread = Some(builder.spawn(move || writer.run(tell))?);
        }
        Ok(())
    }

    /// Returns the record's number.
    pub(crate) fn append(&mut self, kind: Kind, body: &impl Message) -> u64 {
        self.last += 1;
        record::append(&mut self.batch, self.term, self.last, kind, |out| {
            out.reserve(body.encoded_len());
            body.encode_raw(out);
        });
        self.last
    }

    /// A body that is serialized already.
    pub(crate) fn append_raw(&mut self, kind: Kind, body: &[u8]) -> u64 {
        self.last += 1;
        record::append(&mut self.batch, self.term, self.last, kind, |out| {
            out.extend_from_slice(body);
        });
        self.last
    }

    /// The end of a turn.
    pub(crate) fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let mut queue = self.inbox.queue.lock();
        queue.last = self.last;
        if queue.bytes.is_empty() {
            std::mem::swap(&mut queue.bytes, &mut self.batch);
        } else {
            queue.bytes.append(&mut self.batch);
        }
        drop(queue);
        self.inbox.more.notify_one();
    }

    /// Bytes that wait for the disk.
    pub(crate) fn waiting(&self) -> usize {
        self.inbox.queue.lock().bytes.len()
    }

    /// The number of the last record.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// What a standby follows.
    pub(crate) fn tap(&self) -> Arc<Tap> {
        self.tap.clone()
    }

    /// What waiting for the writer needs, without the hub's lock.
    pub(crate) fn inbox(&self) -> Arc<Inbox> {
        self.inbox.clone()
    }
}

impl Inbox {
    /// Waits until everything that was flushed is written and told. False when that took too long.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        let mut queue = self.queue.lock();
        while queue.told < queue.last {
            if self.progress.wait_until(&mut queue, until).timed_out() {
                return false;
            }
        }
        true
    }

    fn stop(&self) {
        self.queue.lock().stop = true;
        self.more.notify_one();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.flush();
        self.inbox.stop();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // It ends by itself; if it panicked there is nothing left to write.
            let _ = thread.join();
        }
    }
}
