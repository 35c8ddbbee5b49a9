//! What the state machine asks its driver to do, once per batch.

use std::sync::Arc;

use omniflow_wire::LinkMessage;

use crate::activation::Activation;
use crate::ids::PeerIx;
use crate::ready::ReadyQueue;

/// Whom a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The scheduler.
    Scheduler,
    /// Another worker.
    Peer(PeerIx),
}

/// Whom to wake.
#[derive(Debug)]
pub(crate) enum Wake {
    Queue(Arc<ReadyQueue>),
    Reader(Arc<Activation>),
}

/// Gathered while the core is locked, carried out after.
#[derive(Debug, Default)]
pub struct Outputs {
    /// Messages, in order.
    pub sends: Vec<(Target, LinkMessage)>,
    /// Peers to dial, and to keep dialling until the core says that nobody needs them.
    pub dial: Vec<PeerIx>,
    /// Whether events wait to be sent.
    pub flush: bool,
    /// Whether nothing is left to finish, as of now.
    pub drained: bool,
    pub(crate) wake: Vec<Wake>,
}

impl Outputs {
    pub(crate) fn send(&mut self, target: Target, message: impl Into<LinkMessage>) {
        self.sends.push((target, message.into()));
    }

    pub(crate) fn wake_queue(&mut self, queue: &Arc<ReadyQueue>) {
        if !matches!(self.wake.last(), Some(Wake::Queue(last)) if Arc::ptr_eq(last, queue)) {
            self.wake.push(Wake::Queue(Arc::clone(queue)));
        }
    }

    pub(crate) fn wake_reader(&mut self, reader: &Arc<Activation>) {
        if !matches!(self.wake.last(), Some(Wake::Reader(last)) if Arc::ptr_eq(last, reader)) {
            self.wake.push(Wake::Reader(Arc::clone(reader)));
        }
    }

    pub(crate) fn wake_all(&mut self) {
        for wake in self.wake.drain(..) {
            match wake {
                Wake::Queue(queue) => queue.wake(),
                Wake::Reader(reader) => reader.wake(),
            }
        }
    }
}
