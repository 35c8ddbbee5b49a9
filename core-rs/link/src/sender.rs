//! The sending side of a link.

use std::sync::{Arc, MutexGuard};

use crate::error::LinkError;
use crate::message::Message;
use crate::shared::{Shared, State};

/// The sending side; clones send on the same link. Callable from any thread. While the connection is broken, messages
/// wait for the next one.
#[derive(Debug, Clone)]
pub struct LinkSender(pub(crate) Arc<Shared>);

impl LinkSender {
    /// Queues a message; it leaves with everything else that is queued by the time the writer runs.
    pub fn send(&self, message: Message) -> Result<(), LinkError> {
        self.send_all([message])
    }

    /// Queues several messages under one lock. On an error the messages before the offending one are queued.
    pub fn send_all(&self, messages: impl IntoIterator<Item = Message>) -> Result<(), LinkError> {
        let (mut state, outcome) = self.push_all(messages);
        let wake = state.must_wake_writer();
        drop(state);
        if wake {
            self.0.work.notify_one();
        }
        outcome
    }

    /// The same, for a caller that wakes the writer once for several such calls, or from a better place: waking a task of
    /// another thread is a system call. Until `wake`, or until the writer runs anyway, the messages wait.
    pub fn queue_all(&self, messages: impl IntoIterator<Item = Message>) -> Result<(), LinkError> {
        self.push_all(messages).1
    }

    /// What was queued leaves.
    pub fn wake(&self) {
        if self.0.state().must_wake_writer() {
            self.0.work.notify_one();
        }
    }

    fn push_all(
        &self,
        messages: impl IntoIterator<Item = Message>,
    ) -> (MutexGuard<'_, State>, Result<(), LinkError>) {
        let mut outcome = Ok(());
        let mut state = self.0.state();
        let open = !state.closing && !state.is_over();
        for message in messages {
            outcome = if open {
                self.check(&state, &message)
            } else {
                Err(LinkError::Closed)
            };
            if outcome.is_err() {
                break;
            }
            state.outbound.push(message);
        }
        (state, outcome)
    }

    fn check(&self, state: &State, message: &Message) -> Result<(), LinkError> {
        let config = &self.0.config;
        if message.len() > config.max_message_bytes {
            return Err(LinkError::TooLarge {
                length: message.len(),
                limit: config.max_message_bytes,
            });
        }
        let queued = state.outbound.queued();
        if queued > config.max_queued_bytes {
            return Err(LinkError::QueueFull {
                queued,
                limit: config.max_queued_bytes,
            });
        }
        Ok(())
    }

    /// Bytes that wait to be sent.
    pub fn queued_bytes(&self) -> usize {
        self.0.state().outbound.queued()
    }

    /// Bytes that were sent and that the peer has not said it has: what a broken connection can cost in memory.
    pub fn unacknowledged_bytes(&self) -> usize {
        self.0.state().outbound.unacknowledged()
    }

    /// How often the link went on with another connection.
    pub fn resumed(&self) -> u64 {
        self.0.resumed()
    }

    /// Whether there is a connection now: what is sent without one is lost with the link if that is not resumed.
    pub fn is_connected(&self) -> bool {
        self.0.is_connected()
    }

    /// Whether it can send no more.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Sends what is queued, then tells the peer that nothing follows. The reader goes on until the peer closes too. The
    /// link lasts, over broken connections too, until the peer has said that it has everything: `ended` waits for that.
    pub fn close(&self) {
        let mut state = self.0.state();
        state.closing = true;
        state.outbound.finish();
        drop(state);
        self.0.work.notify_one();
    }

    /// Ends both directions at once; what is queued is lost, and the link cannot be resumed.
    pub fn abort(&self) {
        self.0.abort();
    }

    /// Waits, after `close`, until the peer has said that it has everything, or the link is over. A peer that does not read
    /// never says so: whoever cannot wait that long gives this a limit.
    pub async fn ended(&self) {
        self.0.ended.notified().await;
        self.0.ended.notify_one();
    }
}
