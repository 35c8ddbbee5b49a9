//! What the state machine asks its driver to do, once per batch.

use std::sync::Arc;

use omniflow_wire::v1::node_progress::State;
use omniflow_wire::{LinkMessage, v1};

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

/// When what gathered for the scheduler has to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flush {
    /// There is nothing new.
    #[default]
    No,
    /// In a moment, if nothing else goes to the scheduler before: how far an activation is decides nothing yet.
    Soon,
    /// At the end of the turn.
    Now,
}

/// Gathered while the core is locked, carried out after.
#[derive(Debug, Default)]
pub struct Outputs {
    /// Messages, in order.
    pub sends: Vec<(Target, LinkMessage)>,
    /// Peers to dial, and to keep dialling until the core says that nobody needs them.
    pub dial: Vec<PeerIx>,
    /// Whether reports wait to be sent.
    pub flush: Flush,
    /// Whether nothing is left to finish, as of now.
    pub drained: bool,
    pub(crate) wake: Vec<Wake>,
}

impl Outputs {
    pub(crate) fn send(&mut self, target: Target, message: impl Into<LinkMessage>) {
        self.sends.push((target, message.into()));
    }

    pub(crate) fn flush(&mut self, when: Flush) {
        self.flush = self.flush.max(when);
    }

    /// Whether frames go to the scheduler.
    pub(crate) fn gives_results(&self) -> bool {
        self.sends.iter().any(is_result)
    }

    /// What gathered for the scheduler goes ahead of the frames that go there: with the last one of a result, the report of
    /// the activation that made it. Only a failure stays behind what was sent before it.
    pub(crate) fn report(&mut self, reports: Vec<LinkMessage>) {
        let failed = |event: &v1::NodeEvent| event.state() == State::Failed;
        let fails = |message: &LinkMessage| match message {
            LinkMessage::Events(batch) => batch.events.iter().any(failed),
            _ => false,
        };
        let first = self.sends.iter().position(is_result);
        let first = first.filter(|_| !reports.iter().any(fails));
        let place = first.unwrap_or(self.sends.len());
        let reports = reports.into_iter();
        let reports = reports.map(|message| (Target::Scheduler, message));
        self.sends.splice(place..place, reports);
        // They need no other way.
        self.flush = Flush::No;
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

fn is_result((target, message): &(Target, LinkMessage)) -> bool {
    *target == Target::Scheduler && matches!(message, LinkMessage::Frame(_))
}
