//! What all jobs of this worker share: the scheduler's standing, peers, queues, events, budgets.

use std::sync::Arc;
use std::time::Instant;

use omniflow_flow::{Key, NodeId};
use omniflow_wire::v1::node_progress::State;
use omniflow_wire::{LinkMessage, v1};
use rustc_hash::FxHashMap;

use crate::core::events::EventLog;
use crate::core::outputs::{Flush, Outputs, Target};
use crate::core::peers::{LinkState, PeerTable};
use crate::core::room::Keeping;
use crate::core::stored::Freed;
use crate::flow_entry::FlowEntry;
use crate::ids::{JobId, PeerIx};
use crate::ready::ReadyQueue;

/// What waits for a scheduler beside events and results: contradictions, unreachable peers.
const MAX_HELD: usize = 1_024;

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) frames_in: u64,
    pub(crate) frames_out: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) activations: u64,
    pub(crate) stale_messages: u64,
    pub(crate) running: i64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) worker: String,
    pub(crate) peers: PeerTable,
    pub(crate) queues: FxHashMap<String, Arc<ReadyQueue>>,
    pub(crate) events: EventLog,
    pub(crate) retained_bytes: usize,
    pub(crate) keeping: Keeping,
    pub(crate) counters: Counters,
    pub(crate) scheduler_up: bool,
    held: Vec<LinkMessage>,
    /// Binds that frames wait for, and that were not asked for yet.
    wanted: Vec<v1::BindsWanted>,
}

/// Names an activation in an event.
pub(crate) struct Subject<'a> {
    pub(crate) job: JobId,
    pub(crate) node: NodeId,
    pub(crate) key: &'a Key,
    pub(crate) epoch: u32,
}

impl Site {
    pub(crate) fn new(
        worker: &str,
        incarnation: &str,
        queues: FxHashMap<String, Arc<ReadyQueue>>,
        keeping: Keeping,
    ) -> Self {
        Self {
            worker: worker.to_owned(),
            peers: PeerTable::new(worker, incarnation),
            queues,
            events: EventLog::default(),
            retained_bytes: 0,
            keeping,
            counters: Counters::default(),
            scheduler_up: false,
            held: Vec::new(),
            wanted: Vec::new(),
        }
    }

    /// Something is kept no longer.
    pub(crate) fn take_back(&mut self, freed: Freed) {
        self.retained_bytes -= freed.memory;
        for slot in freed.slots {
            self.keeping.spill.free(slot);
        }
    }

    /// Tells the scheduler now, or when there is one again.
    pub(crate) fn tell_scheduler(&mut self, message: impl Into<LinkMessage>, out: &mut Outputs) {
        if self.scheduler_up {
            out.send(Target::Scheduler, message);
        } else if self.held.len() < MAX_HELD {
            self.held.push(message.into());
        }
    }

    /// A scheduler is there: what waited for it.
    pub(crate) fn tell_held(&mut self, out: &mut Outputs) {
        for message in std::mem::take(&mut self.held) {
            out.send(Target::Scheduler, message);
        }
        if !self.events.is_empty() {
            out.flush(Flush::Now);
        }
    }

    /// A bind is needed: asked for with others, at the end of the turn.
    pub(crate) fn want(&mut self, job: JobId, (node, key): &(NodeId, Key), out: &mut Outputs) {
        // Without a scheduler it is asked for when there is one again.
        if !self.scheduler_up {
            return;
        }
        if self.wanted.last().is_none_or(|last| last.job != job.0) {
            self.wanted.push(v1::BindsWanted {
                job: job.0,
                wanted: Vec::new(),
            });
        }
        if let Some(batch) = self.wanted.last_mut() {
            batch.wanted.push(v1::Wanted {
                node: node.0,
                key: key.path().to_vec(),
            });
        }
        out.flush(Flush::Now);
    }

    /// Whether anything has gathered for the scheduler.
    pub(crate) fn has_reports(&self) -> bool {
        !self.events.is_empty() || !self.wanted.is_empty()
    }

    /// What gathered for the scheduler: binds that are wanted, then events.
    pub(crate) fn take_reports(&mut self, now: Instant) -> Vec<LinkMessage> {
        let wanted = std::mem::take(&mut self.wanted)
            .into_iter()
            .map(LinkMessage::from);
        let events = self.events.take(now).map(LinkMessage::from);
        wanted.chain(events).collect()
    }

    /// Whether the peer can be sent to now; if not, the driver begins to dial it.
    pub(crate) fn reach(&mut self, peer: PeerIx, out: &mut Outputs) -> bool {
        match self.peers.get(peer).link {
            LinkState::Up => true,
            LinkState::Dialling => false,
            LinkState::Idle => {
                self.peers.set_link(peer, LinkState::Dialling);
                out.dial.push(peer);
                false
            }
        }
    }

    pub(crate) fn event(
        &mut self,
        subject: &Subject<'_>,
        state: State,
        now: Instant,
        out: &mut Outputs,
    ) {
        self.detailed_event(subject, state, Vec::new(), None, now, out);
    }

    pub(crate) fn detailed_event(
        &mut self,
        subject: &Subject<'_>,
        state: State,
        features: Vec<v1::Feature>,
        error: Option<v1::Error>,
        now: Instant,
        out: &mut Outputs,
    ) {
        let event = v1::NodeEvent {
            job: subject.job.0,
            node: subject.node.0,
            key: subject.key.path().to_vec(),
            epoch: subject.epoch,
            state: state.into(),
            age_us: 0,
            features,
            error,
            ..Default::default()
        };
        self.events.push(now, event);
        out.flush(match state {
            State::Queued | State::Started | State::FirstFrame => Flush::Soon,
            _ => Flush::Now,
        });
    }

    /// This attempt is over without its outputs.
    pub(crate) fn failed(
        &mut self,
        subject: &Subject<'_>,
        flow: Option<&FlowEntry>,
        mut error: v1::Error,
        now: Instant,
        out: &mut Outputs,
    ) {
        error.worker.clone_from(&self.worker);
        error.node = flow.map_or_else(String::new, |flow| flow.node_name(subject.node));
        let state = State::Failed;
        self.detailed_event(subject, state, Vec::new(), Some(error), now, out);
    }
}
