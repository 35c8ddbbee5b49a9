//! The journal's thread: one write for all that has gathered since the last.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::appender::Appender;
use super::tap::Tap;

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
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) appender: Appender,
    pub(crate) tap: Arc<Tap>,
}

impl Writer {
    pub(crate) fn run(mut self, mut tell: impl FnMut(Written)) {
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
            // It travels while this disk writes.
            self.tap.take(&batch, last);
            while let Err(error) = self.appender.append(&batch, last) {
                tell(Written::Failed(error.to_string()));
                let mut queue = self.inbox.queue.lock();
                if queue.stop {
                    return;
                }
                self.inbox.more.wait_for(&mut queue, RETRY);
            }
            batch.clear();
            batch.shrink_to(1 << 20);
            self.tap.wrote(last);
            tell(Written::UpTo(last));
            self.inbox.queue.lock().told = last;
            self.inbox.progress.notify_all();
            self.appender.rotate();
        }
    }
}

/// Microseconds of CPU that the calling thread has used, for the figures that tests print.
#[cfg(test)]
pub(crate) fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
