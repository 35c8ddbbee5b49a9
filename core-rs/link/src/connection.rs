//! A link: a socket, its outbox and the task that writes.

use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use tokio::sync::Notify;

use crate::batch::Batch;
use crate::error::LinkError;
use crate::message::{Message, Received};
use crate::outbox::Outbox;
use crate::reassembly::Reassembly;
use crate::socket::Socket;

/// The most bytes of one write.
const WRITE_BYTES: usize = 256 * 1024;
/// Room for one read.
const READ_BYTES: usize = 128 * 1024;

/// Bounds of a link.
#[derive(Debug, Clone, Copy)]
pub struct LinkConfig {
    /// The longest message, in bytes, either way.
    pub max_message_bytes: usize,
    /// The most bytes that may wait for the peer.
    pub max_queued_bytes: usize,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            max_message_bytes: 256 << 20,
            max_queued_bytes: 1 << 30,
        }
    }
}

#[derive(Debug)]
struct State {
    outbox: Outbox,
    writer_busy: bool,
    closing: bool,
    closed: bool,
}

#[derive(Debug)]
struct Shared {
    socket: Socket,
    config: LinkConfig,
    state: Mutex<State>,
    work: Notify,
    ended: Notify,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held; a poisoned state is still a good one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sending side; clones send on the same link. Callable from any thread.
#[derive(Debug, Clone)]
pub struct LinkSender(Arc<Shared>);

/// The receiving side.
#[derive(Debug)]
pub struct LinkReader {
    shared: Arc<Shared>,
    buffer: BytesMut,
    reassembly: Reassembly,
}

/// Makes a link of a socket and starts its writer on the current tokio runtime.
pub fn open(socket: Socket, config: LinkConfig) -> (LinkSender, LinkReader) {
    let shared = Arc::new(Shared {
        socket,
        config,
        state: Mutex::new(State {
            outbox: Outbox::default(),
            writer_busy: false,
            closing: false,
            closed: false,
        }),
        work: Notify::new(),
        ended: Notify::new(),
    });
    tokio::spawn(write(Arc::clone(&shared)));
    let reader = LinkReader {
        shared: Arc::clone(&shared),
        buffer: BytesMut::new(),
        reassembly: Reassembly::new(config.max_message_bytes),
    };
    (LinkSender(shared), reader)
}

impl LinkSender {
    /// Queues a message; it leaves with everything else that is queued by the time the writer runs.
    pub fn send(&self, message: Message) -> Result<(), LinkError> {
        self.send_all([message])
    }

    /// Queues several messages under one lock. On an error the messages before the offending one are queued.
    pub fn send_all(&self, messages: impl IntoIterator<Item = Message>) -> Result<(), LinkError> {
        let mut state = self.0.state();
        let mut outcome = Ok(());
        for message in messages {
            outcome = self.check(&state, &message);
            if outcome.is_err() {
                break;
            }
            state.outbox.push(message);
        }
        if !state.writer_busy && !state.outbox.is_empty() {
            state.writer_busy = true;
            drop(state);
            self.0.work.notify_one();
        }
        outcome
    }

    fn check(&self, state: &State, message: &Message) -> Result<(), LinkError> {
        let config = &self.0.config;
        if state.closing || state.closed {
            return Err(LinkError::Closed);
        }
        if message.len() > config.max_message_bytes {
            return Err(LinkError::TooLarge {
                length: message.len(),
                limit: config.max_message_bytes,
            });
        }
        if state.outbox.queued() > config.max_queued_bytes {
            return Err(LinkError::QueueFull {
                queued: state.outbox.queued(),
                limit: config.max_queued_bytes,
            });
        }
        Ok(())
    }

    /// Bytes that the peer has not taken yet.
    pub fn queued_bytes(&self) -> usize {
        self.0.state().outbox.queued()
    }

    /// Whether it can send no more.
    pub fn is_closed(&self) -> bool {
        let state = self.0.state();
        state.closing || state.closed
    }

    /// Sends what is queued, then tells the peer that nothing follows. The reader goes on until the peer closes too.
    pub fn close(&self) {
        self.0.state().closing = true;
        self.0.work.notify_one();
    }

    /// Ends both directions at once; what is queued is lost.
    pub fn abort(&self) {
        let mut state = self.0.state();
        state.closed = true;
        state.outbox = Outbox::default();
        drop(state);
        self.0.socket.shutdown(Shutdown::Both);
        self.0.work.notify_one();
    }

    /// Waits until the writer has sent everything after `close`, or the link broke.
    pub async fn ended(&self) {
        self.0.ended.notified().await;
        self.0.ended.notify_one();
    }
}

impl LinkReader {
    /// Waits for at least one message and appends all that have arrived. `Ok(false)`: the peer closed in good order.
    pub async fn read(&mut self, messages: &mut Vec<Received>) -> Result<bool, LinkError> {
        let before = messages.len();
        while messages.len() == before {
            self.buffer.reserve(READ_BYTES);
            let read = self.shared.socket.read(&mut self.buffer).await;
            if read.map_err(LinkError::io("reading from a link"))? == 0 {
                return self.at_end();
            }
            if let Err(problem) = self.reassembly.take(&mut self.buffer, messages) {
                LinkSender(Arc::clone(&self.shared)).abort();
                return Err(problem.into());
            }
        }
        Ok(true)
    }

    fn at_end(&self) -> Result<bool, LinkError> {
        if self.buffer.is_empty() && !self.reassembly.is_midway() {
            Ok(false)
        } else {
            Err(LinkError::CutShort)
        }
    }
}

/// One write per wake-up takes everything that was queued in the meantime; there is no lingering.
async fn write(shared: Arc<Shared>) {
    let mut batch = Batch::default();
    loop {
        let done = {
            let mut state = shared.state();
            if batch.is_empty() {
                state.outbox.fill(&mut batch, WRITE_BYTES);
            }
            state.writer_busy = !batch.is_empty();
            state.closed || (state.closing && batch.is_empty())
        };
        if done {
            break;
        }
        if batch.is_empty() {
            shared.work.notified().await;
            continue;
        }
        match shared.socket.write(&batch.slices()).await {
            Ok(written) => batch.advance(written),
            Err(_) => break,
        }
    }
    finish(&shared);
}

fn finish(shared: &Shared) {
    let mut state = shared.state();
    let how = if state.closing && !state.closed {
        Shutdown::Write
    } else {
        // The reader learns of a failed write by the end of its own direction.
        Shutdown::Both
    };
    state.closed = true;
    state.outbox = Outbox::default();
    drop(state);
    shared.socket.shutdown(how);
    shared.ended.notify_one();
}
