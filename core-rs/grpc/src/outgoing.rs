//! What waits to be sent on a call.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio_stream::Stream;

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Bytes>,
    /// Who has sent everything.
    idle: Option<Waker>,
}

/// Messages in order. Clones are the same; one of them is the stream of the call, any may put some.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outgoing(Arc<Mutex<State>>);

impl Outgoing {
    pub(crate) fn put(&self, message: &[u8]) {
        let message = Bytes::copy_from_slice(message);
        let mut state = self.0.lock();
        state.waiting.push_back(message);
        let idle = state.idle.take();
        drop(state);
        if let Some(idle) = idle {
            idle.wake();
        }
    }
}

impl Stream for Outgoing {
    type Item = Bytes;

    /// Never ends: a call ends when it is cancelled, or its server ends it.
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.0.lock();
        let next = state.waiting.pop_front();
        if next.is_none() {
            state.idle = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(next)
    }
}
