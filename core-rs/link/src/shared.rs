//! What the ends of a link share: its state, and how one wakes the other. No I/O but the shutting of sockets.

use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::batch::Batch;
use crate::config::LinkConfig;
use crate::error::{LinkError, Loss, LossReason};
use crate::greeting::LinkId;
use crate::inbound::Heard;
use crate::outbound::Outbound;
use crate::socket::Socket;

/// The most bytes of one write.
const WRITE_BYTES: usize = 256 * 1024;

/// One of a link's sockets.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(crate) socket: Arc<Socket>,
    /// Tells it from the link's other ones.
    generation: u64,
}

/// How a link ended.
#[derive(Debug, Clone)]
enum Over {
    /// Both sides had nothing more to say, or this side gave it up.
    Closed,
    Lost(Loss),
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) outbound: Outbound,
    /// None while the link waits for another one.
    socket: Option<Arc<Socket>>,
    generation: u64,
    /// How the last socket broke.
    cause: String,
    resumed: u64,
    /// Whether the writer will look at `outbound` without being woken.
    pub(crate) writer_busy: bool,
    pub(crate) closing: bool,
    /// This side has said that nothing follows, and the other one has everything before that.
    finished: bool,
    /// The other side has said so, or nobody listens to it.
    deaf: bool,
    /// Nobody listens to the other side, so that what it has is not heard either.
    unheard: bool,
    over: Option<Over>,
}

impl State {
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Whether nothing is left to do for this direction: whoever can be heard has said that it has everything.
    fn is_through(&self) -> bool {
        self.outbound.has_finished() && (self.unheard || self.outbound.is_acknowledged())
    }

    /// Whether something waits that the writer will not look at by itself; it does from now on.
    pub(crate) fn must_wake_writer(&mut self) -> bool {
        let wake = !self.writer_busy && self.outbound.has_fresh();
        self.writer_busy |= wake;
        wake
    }
}

/// What the writer does next.
pub(crate) enum Step {
    Write,
    Wait,
    /// This connection is done with.
    Leave,
}

/// See the module. Everything that waits does so on one of the `Notify`s, each with one waiter.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) id: LinkId,
    pub(crate) config: LinkConfig,
    state: Mutex<State>,
    /// Pieces that the reader has taken.
    received: AtomicU64,
    /// Grows with every sign of life: silence is noticed without a clock on the hot path.
    reads: AtomicU64,
    /// For the writer: messages, words, a new socket, the end.
    pub(crate) work: Notify,
    /// For whoever restores the connection: the end.
    pub(crate) stop: Notify,
    /// For the reader: a new socket, the end.
    pub(crate) connected: Notify,
    pub(crate) ended: Notify,
}

impl Shared {
    pub(crate) fn new(id: LinkId, config: LinkConfig, socket: Socket) -> Self {
        Self {
            id,
            config,
            state: Mutex::new(State {
                outbound: Outbound::new(config.window()),
                socket: Some(Arc::new(socket)),
                generation: 0,
                cause: String::new(),
                resumed: 0,
                writer_busy: false,
                closing: false,
                finished: false,
                deaf: false,
                unheard: false,
                over: None,
            }),
            received: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            work: Notify::new(),
            stop: Notify::new(),
            connected: Notify::new(),
            ended: Notify::new(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held; a poisoned state is still a good one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next piece that this side expects.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().is_over()
    }

    pub(crate) fn is_closed(&self) -> bool {
        let state = self.state();
        state.closing || state.over.is_some()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.state().socket.is_some()
    }

    pub(crate) fn resumed(&self) -> u64 {
        self.state().resumed
    }

    /// Fills the writer's batch. What it returns holds for this connection.
    pub(crate) fn step(&self, connection: &Connection, batch: &mut Batch) -> Step {
        let mut state = self.state();
        if state.over.is_some() || state.generation != connection.generation {
            return Step::Leave;
        }
        if batch.is_empty() {
            if state.is_through() && !state.finished {
                state.finished = true;
                self.ended.notify_one();
            }
            // The peer waits for a last word, too.
            if state.finished && state.deaf && (state.unheard || !state.outbound.owes()) {
                drop(state);
                self.end(Over::Closed, Shutdown::Write);
                return Step::Leave;
            }
            state.outbound.fill(batch, WRITE_BYTES, self.received());
        }
        state.writer_busy = !batch.is_empty() || state.outbound.is_held_up();
        if batch.is_empty() {
            Step::Wait
        } else {
            Step::Write
        }
    }

    /// What a read brought. `owed`: enough came that the peer should be told.
    pub(crate) fn note(&self, heard: &Heard, expected: u64, owed: bool) -> Result<(), LinkError> {
        self.received.store(expected, Ordering::Release);
        if !heard.is_mere_question() {
            // There is one reader.
            self.reads.store(self.reads() + 1, Ordering::Relaxed);
        }
        if heard.received.is_none() && !heard.asked && !heard.finished && !owed {
            return Ok(());
        }
        let mut state = self.state();
        let held_up = state.outbound.is_held_up();
        if let Some(next) = heard.received {
            state.outbound.received(next)?;
        }
        if heard.asked || owed || heard.finished {
            state.outbound.owe();
        }
        state.deaf |= heard.finished;
        let wake = heard.asked || owed || heard.finished || held_up || state.is_through();
        drop(state);
        if wake {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Nobody reads any more; what comes is not taken.
    pub(crate) fn stop_listening(&self) {
        let mut state = self.state();
        state.deaf = true;
        state.unheard = true;
        drop(state);
        self.work.notify_one();
    }

    /// The peer is told what it has not been told, and asked whether it is there.
    pub(crate) fn say(&self, ask: bool) {
        let mut state = self.state();
        if ask {
            state.outbound.ask();
        }
        let owed = !state.outbound.told(self.received());
        if owed {
            state.outbound.owe();
        }
        drop(state);
        if ask || owed {
            self.work.notify_one();
        }
    }

    // --- connections ------------------------------------------------------------------------------------------------

    /// The connection that is up, or how the link ended; `None` while it waits for one.
    pub(crate) fn connection(&self) -> Result<Option<Connection>, LinkError> {
        let state = self.state();
        match &state.over {
            Some(Over::Closed) => Err(LinkError::Closed),
            Some(Over::Lost(loss)) => Err(loss.clone().into()),
            None => Ok(state.socket.as_ref().map(|socket| Connection {
                socket: Arc::clone(socket),
                generation: state.generation,
            })),
        }
    }

    /// A connection does not work any more. Nothing happens when it has been replaced.
    pub(crate) fn broken(&self, connection: &Connection, cause: impl FnOnce() -> String) {
        let mut state = self.state();
        if state.generation != connection.generation || state.over.is_some() {
            return;
        }
        let Some(socket) = state.socket.take() else {
            return;
        };
        socket.shutdown(Shutdown::Both);
        state.cause = cause();
        state.generation += 1;
        // The writer may not have looked since the peer's last word.
        let over = (state.finished || state.is_through()) && state.deaf;
        drop(state);
        if over {
            // Both sides have said everything.
            self.end(Over::Closed, Shutdown::Both);
        }
        self.work.notify_one();
        self.connected.notify_one();
    }

    /// Whether a peer that has every piece below `received` can go on from there.
    pub(crate) fn can_resume(&self, received: u64) -> bool {
        let state = self.state();
        state.over.is_none() && state.outbound.covers(received)
    }

    /// The link goes on with this socket. False: it is over.
    pub(crate) fn resume(&self, socket: Socket, received: u64) -> bool {
        let mut state = self.state();
        if state.over.is_some() {
            return false;
        }
        if state.outbound.resume(received).is_err() {
            drop(state);
            self.lose(LossReason::Gap);
            return false;
        }
        if let Some(old) = state.socket.replace(Arc::new(socket)) {
            old.shutdown(Shutdown::Both);
        }
        state.generation += 1;
        state.resumed += 1;
        state.writer_busy = true;
        drop(state);
        self.work.notify_one();
        self.connected.notify_one();
        true
    }

    // --- the end ----------------------------------------------------------------------------------------------------

    /// It cannot be resumed.
    pub(crate) fn lose(&self, reason: LossReason) {
        let cause = self.state().cause.clone();
        let cause = if cause.is_empty() {
            "the connection was given up".to_owned()
        } else {
            cause
        };
        self.end(Over::Lost(Loss { cause, reason }), Shutdown::Both);
    }

    /// This side gives it up: what is queued is lost.
    pub(crate) fn abort(&self) {
        self.end(Over::Closed, Shutdown::Both);
    }

    fn end(&self, over: Over, how: Shutdown) {
        let mut state = self.state();
        state.over.get_or_insert(over);
        state.outbound.forget();
        if let Some(socket) = state.socket.take() {
            socket.shutdown(how);
        }
        drop(state);
        for waiter in [&self.work, &self.stop, &self.connected, &self.ended] {
            waiter.notify_one();
        }
    }
}
