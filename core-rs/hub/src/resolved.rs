//! What the scheduler's own resolver wants done: results, what its control nodes send, and nodes to be bound.

use std::collections::VecDeque;

use bytes::Bytes;
use omniflow_control::{Event, JobId, Micros};
use omniflow_flow::{EdgeId, Effect, Home, Item, Key, NodeId, Origin, PortIx, Reader};
use omniflow_placement::WorkerId;
use omniflow_wire::{LinkMessage, v1};

use crate::convert;
use crate::feeds::waits_for_gate;
use crate::flows::link_frame;
use crate::frames::{CONTROL, stream_of, wire_frame};
use crate::job_data::{JobData, Running};
use crate::outgoing::{Left, Sent};
use crate::restore::contradicted;
use crate::state::State;
use crate::stop_at::stop_at;

/// What follows from one effect.
#[derive(Default)]
struct Following {
    effects: Vec<Effect<Bytes>>,
    /// Nodes to be bound, with the keys of their binds.
    wanted: Vec<(u32, Key)>,
}

impl State {
    /// Carries out effects, in order, and the effects of those. Binds are asked for together, at the end.
    pub(crate) fn carry_out(&mut self, id: JobId, effects: Vec<Effect<Bytes>>, now: Micros) {
        let mut queue = VecDeque::from(effects);
        let mut following = Following::default();
        while let Some(effect) = queue.pop_front() {
            self.resolved(id, effect, &mut following, now);
            queue.extend(following.effects.drain(..));
        }
        if !following.wanted.is_empty() {
            self.want(id, following.wanted, now);
        }
    }

    /// Nodes of a running job that are to be bound.
    pub(crate) fn want(&mut self, job: JobId, wanted: Vec<(u32, Key)>, now: Micros) {
        self.step(Event::Wanted { job, wanted }, now);
    }

    fn resolved(
        &mut self,
        id: JobId,
        effect: Effect<Bytes>,
        following: &mut Following,
        now: Micros,
    ) {
        match effect {
            Effect::Result { port, item } => self.result(id, port, item, now),
            Effect::Send {
                edge,
                key,
                epoch,
                item,
            } => self.send(
                id,
                Sent {
                    edge,
                    key,
                    epoch,
                    item,
                },
                following,
                now,
            ),
            Effect::Wanted { node, key } => following.wanted.push((node.0, key)),
            Effect::Unwanted { edge, key } => self.refuse_edge(id, edge, &key, following),
            Effect::ScopeLeft { scope, key, by } => {
                self.scope_left(id, (scope, key, by), None, &mut following.effects, now);
            }
            Effect::Failed { node, key, fault } => {
                let Some(data) = self.jobs.get(&id) else {
                    return;
                };
                let fault = Box::new(convert::flow_fault(&data.graph, node, &key, &fault));
                self.step(Event::Failed { job: id, fault }, now);
            }
            Effect::Contradiction { edge, seq, .. } => {
                let (job, edge) = (id, edge.0);
                self.step(Event::Contradiction { job, edge, seq }, now);
            }
            Effect::NodeClosed { node, key } => self.closed_unbound(id, node, key, now),
            // Roles run elsewhere, and the job table knows when every result is over.
            Effect::Activate { .. }
            | Effect::Deliver { .. }
            | Effect::StreamEnd { .. }
            | Effect::Unneeded { .. }
            | Effect::Cancelled { .. }
            | Effect::Done => {}
        }
    }

    /// A role node can never run, and was not bound. (One in a loop may be taken in another round.)
    fn closed_unbound(&mut self, job: JobId, node: NodeId, key: Key, now: Micros) {
        let depth = self.jobs.get(&job).map(|data| data.graph.bind_depth(node));
        if depth == Some(key.depth()) {
            let node = node.0;
            self.step(Event::Closed { job, node, key }, now);
        }
    }

    /// Something of a result, in its sequence.
    fn result(&mut self, id: JobId, port: PortIx, item: Item<Bytes>, now: Micros) {
        let Some(data) = self.jobs.get_mut(&id) else {
            return;
        };
        let results = data.graph.results();
        let stream = results
            .get(port.index())
            .is_some_and(|port| port.value_type.stream);
        let is_frame = matches!(item, Item::Frame { .. });
        if let Item::Frame { payload, .. } = &item {
            self.budgets.kept_results += payload.len();
        }
        let log = data.results.get_mut(port.index());
        if let Some(frames) = log.and_then(|log| log.push(item)) {
            let fault = Box::new(contradicted(frames));
            self.step(Event::Failed { job: id, fault }, now);
            return;
        }
        stop_at("result");
        self.has_fresh_results(id);
        if is_frame {
            self.step(Event::ResultFrame { job: id }, now);
        }
        if is_frame && stream {
            self.pace_results(id);
        }
        if !is_frame || !stream {
            let (job, port) = (id, port.0);
            self.step(Event::ResultOver { job, port }, now);
        }
    }

    /// A control node here has sent something.
    fn send(&mut self, id: JobId, sent: Sent, following: &mut Following, now: Micros) {
        let Some(JobData {
            graph,
            running: Some(running),
            ..
        }) = self.jobs.get_mut(&id)
        else {
            return;
        };
        let is_mark = graph.is_mark(sent.edge, &sent.item);
        let (to, here) = match graph.reader(sent.edge, &sent.key) {
            None => return,
            Some(Reader::Scheduler) => (Vec::new(), true),
            Some(Reader::One(node, at)) => {
                let place = running.outgoing.place(node, &at);
                let unbound = place.is_none();
                if unbound
                    && !is_mark
                    && graph.bind_depth(node) > 0
                    && !waits_for_gate(graph, sent.edge, node)
                {
                    following.wanted.push((node.0, at.clone()));
                }
                let bytes = running.outgoing.keep(node, at, sent.clone());
                self.budgets.held_inputs += bytes;
                let to = place.map(|place| place.worker).into_iter().collect();
                (to, unbound && is_mark)
            }
            Some(Reader::Every(node, prefix)) => {
                let to = places_without(running, node, &prefix, &sent);
                let bytes = running.outgoing.keep(node, prefix, sent.clone());
                self.budgets.held_inputs += bytes;
                (to, is_mark)
            }
        };
        for worker in to {
            let item = sent.item.clone();
            let frame = wire_frame(id, sent.edge, &sent.key, sent.epoch, item, self.config.term);
            let frame = link_frame(&LinkMessage::Frame(frame), stream_of(id, sent.edge));
            self.workers.send(worker, frame);
        }
        if here {
            let effects = &mut following.effects;
            let taken = self.accept(id, sent.edge, &sent.key, sent.epoch, sent.item, effects);
            if let Err(error) = taken {
                self.broken(id, sent.edge, &error, now);
            }
        }
    }

    /// Nobody here reads on: whoever feeds the edge is told.
    fn refuse_edge(&mut self, id: JobId, edge: EdgeId, key: &Key, following: &mut Following) {
        let Some(JobData {
            graph,
            running: Some(running),
            ..
        }) = self.jobs.get_mut(&id)
        else {
            return;
        };
        let home = match graph.edge(edge).map(|edge| edge.from) {
            Some(Origin::Node { node, .. }) => graph.home(node),
            Some(Origin::Input { .. }) | None => Home::Scheduler,
        };
        match home {
            Home::Scheduler => {
                // It is an edge of this very graph.
                let _ = running.resolver.unwanted(edge, key, &mut following.effects);
            }
            Home::Node(home) => {
                let at = graph.bind_key(home, key);
                let message = v1::Unwanted {
                    job: id.0,
                    edge: edge.0,
                    key: key.path().to_vec(),
                    term: self.config.term,
                    epoch: 0,
                };
                if let Some(place) = running.outgoing.place(home, &at) {
                    self.workers
                        .send(place.worker, link_frame(&message.into(), CONTROL));
                }
            }
        }
    }

    /// A node by which values leave a scope is over: here, or at a worker. Everybody else of the job is told.
    pub(crate) fn scope_left(
        &mut self,
        id: JobId,
        left: Left,
        said_by: Option<WorkerId>,
        effects: &mut Vec<Effect<Bytes>>,
        now: Micros,
    ) {
        let Some(JobData {
            graph,
            feeds,
            running: Some(running),
            ..
        }) = self.jobs.get_mut(&id)
        else {
            return;
        };
        let (scope, key, by) = left.clone();
        running.resolver.scope_left(scope, &key, by, effects);
        let closers = feeds.closers(scope);
        let message = link_frame(&wire_left(id, &left, self.config.term).into(), CONTROL);
        let crossed = said_by.filter(|said_by| {
            let at = (scope, &key);
            running.outgoing.has_moved_into(graph, at, *said_by)
        });
        let words = crossed.map_or_else(Vec::new, |_| running.outgoing.words(&left));
        let Some(freed) = running.outgoing.leave(graph, closers, left) else {
            return;
        };
        self.budgets.held_inputs -= freed;
        for worker in running.outgoing.workers() {
            if Some(*worker) != said_by {
                self.workers.send(*worker, message.clone());
            }
        }
        // It may have said so before it heard that something in the scope has moved to it, which would run in vain.
        if let Some(worker) = crossed.filter(|_| words.len() == closers) {
            for left in words {
                let again = wire_left(id, &left, self.config.term);
                self.workers
                    .send(worker, link_frame(&again.into(), CONTROL));
            }
        }
        let event = Event::ScopeLeft {
            job: id,
            scope: scope.0,
            key,
            by: by.0,
        };
        self.step(event, now);
    }
}

pub(crate) fn wire_left(id: JobId, (scope, key, by): &Left, term: u64) -> v1::ScopeLeft {
    v1::ScopeLeft {
        job: id.0,
        scope: scope.0,
        key: key.path().to_vec(),
        by: by.0,
        term,
    }
}

/// Whoever has keys of the node that begin so, and not yet what is for all of them.
fn places_without(running: &mut Running, node: NodeId, prefix: &Key, sent: &Sent) -> Vec<WorkerId> {
    let mut places: Vec<WorkerId> = running.outgoing.places_under(node, prefix).collect();
    places.sort_unstable();
    places.dedup();
    places.retain(|worker| running.outgoing.must_have(sent.edge, &sent.key, *worker));
    places
}
