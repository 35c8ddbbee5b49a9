//! What has arrived on a call and was not taken yet, and how the call ended.

use std::io;
use std::os::fd::RawFd;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tonic::Status;

use crate::signal::Signal;

/// Nothing more is read while so much waits to be taken.
pub(crate) const ENOUGH: usize = 8 << 20;

#[derive(Debug, Default)]
struct State {
    messages: Vec<Bytes>,
    bytes: usize,
    end: Option<Status>,
    /// Whoever takes has been told, and has not come since.
    told: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    signal: Signal,
    taken: Notify,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            state: Mutex::default(),
            signal: Signal::new()?,
            taken: Notify::new(),
        })
    }

    /// Readable when there is something new: messages, or the end.
    pub(crate) fn fileno(&self) -> RawFd {
        self.signal.fileno()
    }

    pub(crate) fn put(&self, messages: &mut Vec<Bytes>) {
        if messages.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        state.bytes += messages.iter().map(Bytes::len).sum::<usize>();
        state.messages.append(messages);
        self.tell(&mut state);
    }

    /// The call is over; what came before stays. Only the first word on it counts.
    pub(crate) fn end(&self, status: Status) {
        let mut state = self.state.lock();
        state.end.get_or_insert(status);
        self.tell(&mut state);
    }

    fn tell(&self, state: &mut State) {
        if !std::mem::replace(&mut state.told, true) {
            self.signal.set();
        }
    }

    /// Waits until there is room for more.
    pub(crate) async fn room(&self) {
        while self.state.lock().bytes >= ENOUGH {
            self.taken.notified().await;
        }
    }

    /// All that has arrived.
    pub(crate) fn take(&self) -> Vec<Bytes> {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.told) {
            self.signal.reset();
        }
        let held_up = state.bytes >= ENOUGH;
        state.bytes = 0;
        let messages = std::mem::take(&mut state.messages);
        drop(state);
        if held_up {
            self.taken.notify_one();
        }
        messages
    }

    /// How the call ended, once everything that came before was taken.
    pub(crate) fn status(&self) -> Option<Status> {
        let state = self.state.lock();
        let end = state.end.clone();
        end.filter(|_| state.messages.is_empty())
    }
}
