//! What workers say.

use omniflow_control::{Event, JobId, Micros, NodeUpdate};
use omniflow_flow::{EdgeId, Key, NodeId, Reader, ScopeId};
use omniflow_placement::WorkerId;
use omniflow_wire::{LinkMessage, v1};

use crate::convert;
use crate::job_data::JobData;
use crate::membership::let_go_question;
use crate::state::State;
use crate::traffic;

impl State {
    /// Everything that one read brought. Reports are taken in before frames: the last frame of a result often comes
    /// with the report of the activation that made it, and the job's own report shall hold it. A failure stays in its
    /// place: what was sent before it is the client's.
    pub(crate) fn receive(&mut self, worker: WorkerId, messages: Vec<LinkMessage>, now: Micros) {
        let failed = |event: &v1::NodeEvent| event.state() == v1::node_progress::State::Failed;
        let is_report = |message: &LinkMessage| match message {
            LinkMessage::Events(batch) => !batch.events.iter().any(failed),
            _ => false,
        };
        let (reports, others): (Vec<_>, Vec<_>) = messages.into_iter().partition(is_report);
        for message in reports.into_iter().chain(others) {
            self.message(worker, message, now);
        }
    }

    pub(crate) fn message(&mut self, worker: WorkerId, message: LinkMessage, now: Micros) {
        let Some(job) = job_of(&message) else {
            return self.message_of_worker(worker, message, now);
        };
        if self.is_of_earlier_run(worker, job) || self.is_let_go(worker, job, &message) {
            return;
        }
        let Some(message) = self.keep_early(worker, job, message, now) else {
            return;
        };
        match message {
            LinkMessage::Frame(frame) => self.frame(&frame, now),
            LinkMessage::BindsWanted(message) => self.binds_wanted(message, now),
            LinkMessage::ScopeLeft(message) => self.left_at_worker(worker, &message, now),
            LinkMessage::Unwanted(message) => self.unwanted(&message, now),
            LinkMessage::Moved(message) => self.moved(worker, message, now),
            LinkMessage::DeliveredReport(report) => self.delivered(worker, report, now),
            LinkMessage::Contradiction(found) => {
                let (job, edge, seq) = (JobId(found.job), found.edge, found.seq);
                self.step(Event::Contradiction { job, edge, seq }, now);
            }
            _ => {}
        }
    }

    /// What is not about one job.
    fn message_of_worker(&mut self, worker: WorkerId, message: LinkMessage, now: Micros) {
        match message {
            // The attempt's number tells those of earlier runs.
            LinkMessage::Events(events) => {
                for event in events.events {
                    self.event(worker, event, now);
                }
            }
            LinkMessage::Drain(_) | LinkMessage::Drained(_) => self.worker_drains(worker, now),
            LinkMessage::Holding(holding) => self.worker_holds(worker, holding, now),
            LinkMessage::PeerUnreachable(report) => self.peer_unreachable(worker, report),
            LinkMessage::Pong(pong) => self.answered(worker, pong.nonce, now),
            // Pings are answered by the link's task; what else there is, only the scheduler says.
            _ => {}
        }
    }

    /// A question was answered: which one, its number says.
    fn answered(&mut self, worker: WorkerId, nonce: u64, now: Micros) {
        if nonce == let_go_question(worker) {
            self.earlier_runs.let_go_confirmed(worker);
        }
        if !self.worker_confirmed(nonce, now) && !self.forgot_earlier_run(worker, nonce, now) {
            self.suspect_answered(nonce, now);
        }
    }

    fn event(&mut self, worker: WorkerId, event: v1::NodeEvent, now: Micros) {
        let job = event.job;
        if !self.waits(job) {
            return self.node_event(worker, event, now);
        }
        let events = vec![event];
        let message = LinkMessage::Events(v1::Events { events });
        self.keep_early(worker, job, message, now);
    }

    fn node_event(&mut self, worker: WorkerId, event: v1::NodeEvent, now: Micros) {
        let Some(state) = convert::node_state(event.state) else {
            return;
        };
        let at = Micros(now.0.saturating_sub(event.age_us));
        let update = NodeUpdate {
            worker,
            job: JobId(event.job),
            node: event.node,
            key: Key::new(&event.key),
            epoch: event.epoch,
            state,
            at,
            features: event
                .features
                .into_iter()
                .map(|feature| (feature.name, feature.value))
                .collect(),
            fault: event.error.map(convert::fault).map(Box::new),
            traffic: traffic::of_event(event.outputs, event.inputs, at),
        };
        self.step(Event::Node(update), now);
    }

    /// Frames wait for nodes that are not bound. What is bound by now was told meanwhile.
    fn binds_wanted(&mut self, message: v1::BindsWanted, now: Micros) {
        let id = JobId(message.job);
        let Some(JobData {
            graph,
            running: Some(running),
            ..
        }) = self.jobs.get(&id)
        else {
            return;
        };
        let wanted = message.wanted.into_iter().filter_map(|wanted| {
            let (node, key) = (NodeId(wanted.node), Key::new(&wanted.key));
            let spec = graph.node(node)?;
            let fits = spec.kind.is_role() && graph.bind_depth(node) == key.depth();
            let unbound = running.outgoing.place(node, &key).is_none();
            (fits && unbound).then_some((node.0, key))
        });
        let wanted: Vec<(u32, Key)> = wanted.collect();
        if !wanted.is_empty() {
            self.want(id, wanted, now);
        }
    }

    fn left_at_worker(&mut self, worker: WorkerId, message: &v1::ScopeLeft, now: Micros) {
        let (id, key) = (JobId(message.job), Key::new(&message.key));
        let left = (ScopeId(message.scope), key, NodeId(message.by));
        let mut effects = Vec::new();
        self.scope_left(id, left, Some(worker), &mut effects, now);
        self.carry_out(id, effects, now);
    }

    /// A consumer elsewhere does not read on.
    fn unwanted(&mut self, message: &v1::Unwanted, now: Micros) {
        let id = JobId(message.job);
        let Some(JobData {
            graph,
            running: Some(running),
            ..
        }) = self.jobs.get_mut(&id)
        else {
            return;
        };
        let (edge, key) = (EdgeId(message.edge), Key::new(&message.key));
        if let Some(Reader::One(node, at)) = graph.reader(edge, &key)
            && let Some(place) = running.outgoing.place(node, &at)
            && (1..place.epoch).contains(&message.epoch)
        {
            // Of an attempt that is lost: the next one may read on.
            return;
        }
        let mut effects = Vec::new();
        // Losing it costs only work in vain: an edge that does not exist, too.
        let _ = running.resolver.unwanted(edge, &key, &mut effects);
        self.carry_out(id, effects, now);
    }
}

/// Which job a message is about, if it is about one alone.
pub(crate) fn job_of(message: &LinkMessage) -> Option<u64> {
    match message {
        LinkMessage::Frame(frame) => Some(frame.header.job),
        LinkMessage::BindsWanted(message) => Some(message.job),
        LinkMessage::ScopeLeft(message) => Some(message.job),
        LinkMessage::Unwanted(message) => Some(message.job),
        LinkMessage::Moved(message) => Some(message.job),
        LinkMessage::Contradiction(message) => Some(message.job),
        LinkMessage::DeliveredReport(message) => Some(message.job),
        _ => None,
    }
}
