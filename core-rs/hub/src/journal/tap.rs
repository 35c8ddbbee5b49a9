//! What the journal's thread writes, for a standby that follows: each batch goes to it as it goes to the disk.
//!
//! A standby that comes late reads files first. Its tap is opened before the last of them: batches taken from then on wait
//! until it has that, so that nothing is missed and nothing comes twice.

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

/// What may wait while a standby reads its last files; beyond that it begins anew.
const MAX_HELD: usize = 256 << 20;

/// Takes a batch of whole records, at once.
pub(crate) type Feed = Box<dyn FnMut(Bytes) + Send>;

/// See the module.
pub(crate) struct Tap {
    state: Mutex<State>,
    /// The last record that is in files.
    written: watch::Sender<u64>,
}

struct State {
    /// The last record that the thread has taken.
    taken: u64,
    open: Option<Open>,
}

struct Open {
    session: u64,
    feed: Feed,
    /// None: released.
    held: Option<Vec<Bytes>>,
    held_bytes: usize,
}

impl Tap {
    pub(crate) fn new(last: u64) -> Self {
        let state = State {
            taken: last,
            open: None,
        };
        Self {
            state: Mutex::new(state),
            written: watch::Sender::new(last),
        }
    }

    /// Batches after the record that is returned wait for `release`. What was open is closed.
    pub(crate) fn open(&self, session: u64, feed: Feed) -> u64 {
        let mut state = self.state.lock();
        state.open = Some(Open {
            session,
            feed,
            held: Some(Vec::new()),
            held_bytes: 0,
        });
        state.taken
    }

    /// Everything before is on its way: what waited follows, and then each batch as it comes. False: it was too much, or
    /// another session has taken its place.
    pub(crate) fn release(&self, session: u64) -> bool {
        let mut state = self.state.lock();
        let Some(open) = state.open.as_mut().filter(|open| open.session == session) else {
            return false;
        };
        for batch in open.held.take().unwrap_or_default() {
            (open.feed)(batch);
        }
        true
    }

    pub(crate) fn close(&self, session: u64) {
        let mut state = self.state.lock();
        if state
            .open
            .as_ref()
            .is_some_and(|open| open.session == session)
        {
            state.open = None;
        }
    }

    /// The last record that the thread has taken.
    pub(crate) fn taken(&self) -> u64 {
        self.state.lock().taken
    }

    /// The last record that is in files, and when that changes.
    pub(crate) fn written(&self) -> watch::Receiver<u64> {
        self.written.subscribe()
    }

    /// The thread is about to write this.
    pub(super) fn take(&self, batch: &[u8], last: u64) {
        let mut state = self.state.lock();
        state.taken = last;
        let Some(open) = &mut state.open else {
            return;
        };
        let batch = Bytes::copy_from_slice(batch);
        let Some(held) = &mut open.held else {
            return (open.feed)(batch);
        };
        open.held_bytes += batch.len();
        held.push(batch);
        if open.held_bytes > MAX_HELD {
            state.open = None;
        }
    }

    pub(super) fn wrote(&self, last: u64) {
        self.written.send_replace(last);
    }
}
