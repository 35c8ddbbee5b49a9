//! One job at this worker: its resolver, who runs its nodes, what runs here. Where a frame becomes an activation.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use omniflow_flow::{
    ActivationInput, Arrival, EdgeId, Effect, Item, Key, NodeId, Reader, Resolver, ResolverError,
    ScopeId,
};
use omniflow_wire::v1;
use omniflow_wire::v1::node_progress::State;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::activation::{Activation, JobInfo};
use crate::core::credits::Credits;
use crate::core::cut_short::CutShort;
use crate::core::outputs::Outputs;
use crate::core::places::Places;
use crate::core::received::Received;
use crate::core::resuming::Resuming;
use crate::core::retention::Retention;
use crate::core::scopes::OpenScopes;
use crate::core::site::{Site, Subject};
use crate::flow_entry::FlowEntry;

/// What a step of a job works with.
pub(crate) struct Context<'a> {
    pub(crate) site: &'a mut Site,
    pub(crate) out: &'a mut Outputs,
    pub(crate) now: Instant,
}

/// A node for a key.
pub(crate) type At = (NodeId, Key);

/// See the module. How it is bound, sends and is driven by roles: `binds`, `delivery`, `producing`; what it lets go of:
/// `ending`, `scopes`.
pub(crate) struct Job {
    pub(crate) info: Arc<JobInfo>,
    pub(crate) flow: Arc<FlowEntry>,
    pub(crate) order: f64,
    pub(crate) resolver: Resolver<Bytes>,
    /// By keys of binds.
    pub(crate) places: Places,
    /// By keys of activations: those of binds, and rounds.
    pub(crate) activations: FxHashMap<At, Arc<Activation>>,
    /// What nodes here have sent.
    pub(crate) sent: Retention,
    /// What came from elsewhere.
    pub(crate) received: Received,
    /// Binds that frames here wait for.
    pub(crate) asked: FxHashSet<At>,
    pub(crate) scopes: OpenScopes,
    pub(crate) credits: Credits,
    pub(crate) cut: CutShort,
    /// What resumable nodes here go on from.
    pub(crate) resuming: Resuming,
    /// It has failed here; the scheduler knows and will release it.
    pub(crate) failed: bool,
}

impl Job {
    pub(crate) fn new(info: JobInfo, flow: Arc<FlowEntry>, order: f64) -> Self {
        Self {
            info: Arc::new(info),
            resolver: Resolver::new(Arc::clone(&flow.graph)),
            flow,
            order,
            places: Places::default(),
            activations: FxHashMap::default(),
            sent: Retention::default(),
            received: Received::default(),
            asked: FxHashSet::default(),
            scopes: OpenScopes::default(),
            credits: Credits::default(),
            cut: CutShort::default(),
            resuming: Resuming::default(),
            failed: false,
        }
    }

    pub(crate) fn subject<'a>(&self, activation: &'a Activation) -> Subject<'a> {
        Subject {
            job: self.info.id,
            node: activation.node,
            key: &activation.key,
            epoch: activation.epoch,
        }
    }

    /// A frame or mark from elsewhere.
    pub(crate) fn arrive(
        &mut self,
        edge: EdgeId,
        key: &Key,
        epoch: u32,
        item: Item<Bytes>,
        cx: &mut Context<'_>,
    ) {
        let Some(Reader::One(node, bind)) = self.flow.graph.reader(edge, key) else {
            // For all keys of a scope: the resolver keeps it until that has ended.
            return self.take_in(edge, key, epoch, item, cx);
        };
        let place = self.places.get(node, &bind);
        if place.is_some_and(|place| !place.is_here()) {
            // It has moved away, or comes (back) here and the bind is still on its way.
            return self.keep_received(edge, key, epoch, item);
        }
        self.note_producer(edge, key, epoch, cx);
        let kept = item.clone();
        let mut effects = Vec::new();
        match self.resolver.accept(edge, key, epoch, item, &mut effects) {
            Ok(Arrival::Stale) => {}
            Ok(Arrival::Taken | Arrival::Parked) => {
                self.note_rounds(edge, key, cx);
                self.note_came(edge, key, &kept, cx);
                self.keep_received(edge, key, epoch, kept);
            }
            // What this attempt has or doesn't want may be meant for the next one, whose bind is still on its way.
            Ok(Arrival::Duplicate | Arrival::Unwanted) => {
                if !self.is_left(edge, key) {
                    self.keep_received(edge, key, epoch, kept);
                    self.spend_received_again(edge, key);
                }
            }
            Err(error) => self.broken(edge, key, &error, cx),
        }
        self.settle(effects, cx);
    }

    /// For a new attempt of the reader.
    fn keep_received(&mut self, edge: EdgeId, key: &Key, epoch: u32, item: Item<Bytes>) {
        self.received.keep(edge, key, epoch, item);
    }

    fn take_in(
        &mut self,
        edge: EdgeId,
        key: &Key,
        epoch: u32,
        item: Item<Bytes>,
        cx: &mut Context<'_>,
    ) {
        let mut effects = Vec::new();
        if let Err(error) = self.resolver.accept(edge, key, epoch, item, &mut effects) {
            self.broken(edge, key, &error, cx);
        }
        self.settle(effects, cx);
    }

    /// Carries out effects, in order, and the effects of those.
    pub(crate) fn settle(&mut self, effects: Vec<Effect<Bytes>>, cx: &mut Context<'_>) {
        let mut queue = VecDeque::from(effects);
        let mut more = Vec::new();
        while let Some(effect) = queue.pop_front() {
            self.apply(effect, &mut more, cx);
            queue.extend(more.drain(..));
        }
    }

    fn apply(
        &mut self,
        effect: Effect<Bytes>,
        more: &mut Vec<Effect<Bytes>>,
        cx: &mut Context<'_>,
    ) {
        match effect {
            Effect::Activate {
                node,
                key,
                epoch,
                inputs,
                ..
            } => self.activate((node, key), epoch, inputs, more, cx),
            Effect::Deliver {
                node,
                key,
                port,
                payload,
                ..
            } => {
                if let Some(activation) = self.activations.get(&(node, key)) {
                    activation.traffic.came(port.0, payload.len(), cx.now);
                    activation.deliver(port, payload);
                    cx.out.wake_reader(activation);
                }
            }
            Effect::StreamEnd {
                node, key, port, ..
            } => {
                if let Some(activation) = self.activations.get(&(node, key)) {
                    activation.end_stream(port);
                    cx.out.wake_reader(activation);
                }
            }
            Effect::Send {
                edge,
                key,
                epoch,
                item,
            } => self.send(edge, &key, epoch, item, more, cx),
            Effect::Unwanted { edge, key } => self.tell_producer(edge, &key, more, cx),
            Effect::Unneeded { node, key } => self.abandon((node, key), more, cx),
            Effect::Cancelled { node, key } => self.cancel(&(node, key), cx),
            Effect::NodeClosed { node, key } => self.closed(&(node, key), cx),
            Effect::ScopeLeft { scope, key, by } => {
                self.leave_scope(scope, &key, by, more, cx);
            }
            Effect::Failed { node, key, fault } => self.control_failed(node, &key, &fault, cx),
            Effect::Contradiction { edge, key, seq } => {
                let contradiction = v1::Contradiction {
                    job: self.info.id.0,
                    edge: edge.0,
                    key: key.path().to_vec(),
                    seq,
                };
                cx.site.tell_scheduler(contradiction, cx.out);
            }
            // Only the scheduler's resolver makes results and asks for nodes behind gates.
            Effect::Wanted { .. } | Effect::Result { .. } | Effect::Done => {}
        }
    }

    fn activate(
        &mut self,
        (node, key): At,
        epoch: u32,
        inputs: Vec<ActivationInput<Bytes>>,
        more: &mut Vec<Effect<Bytes>>,
        cx: &mut Context<'_>,
    ) {
        let delivered = self.resuming.take(node, &key, epoch);
        let mut activation = Activation::new(
            Arc::clone(&self.info),
            Arc::clone(&self.flow),
            (node, key.clone(), epoch),
            self.order,
            inputs,
        );
        activation.resumed.clone_from(&delivered.frames);
        let activation = Arc::new(activation);
        let subject = self.subject(&activation);
        let Some(queue) = cx.site.queues.get(activation.role()).map(Arc::clone) else {
            let error = v1::Error {
                code: v1::ErrorCode::UnknownRole.into(),
                message: format!(
                    "this worker does not serve the role {:?}",
                    activation.role()
                ),
                cure: "bind the node to a worker that registered the role".to_owned(),
                ..Default::default()
            };
            let flow = Arc::clone(&self.flow);
            return cx.site.failed(&subject, Some(&flow), error, cx.now, cx.out);
        };
        cx.site.counters.activations += 1;
        activation.count_values(cx.now);
        cx.site.event(&subject, State::Queued, cx.now, cx.out);
        if delivered.ended {
            return self.end_resumed(&activation, &delivered, more, cx);
        }
        self.resume(&activation, &delivered, more, cx);
        queue.push(Arc::clone(&activation));
        cx.out.wake_queue(&queue);
        self.activations.insert((node, key), activation);
    }

    /// A producer sent what no producer may: the consumer's node cannot go on.
    pub(crate) fn broken(
        &mut self,
        edge: EdgeId,
        key: &Key,
        error: &ResolverError,
        cx: &mut Context<'_>,
    ) {
        let Some(node) = self.flow.consumer(edge) else {
            return;
        };
        let subject = Subject {
            job: self.info.id,
            node,
            key,
            epoch: self.epoch_of(node, key),
        };
        let error = v1::Error {
            code: v1::ErrorCode::Internal.into(),
            message: format!("edge {}: {error}", self.flow.edge_name(edge)),
            cure: "check that all workers run the same version of omniflow".to_owned(),
            ..Default::default()
        };
        let flow = Arc::clone(&self.flow);
        cx.site.failed(&subject, Some(&flow), error, cx.now, cx.out);
    }

    /// Frames and marks that are kept for readers to come, or to come again.
    pub(crate) fn kept_items(&self) -> u64 {
        (self.sent.items() + self.received.items()) as u64
    }

    /// Whether nobody reads on an edge any more because its scope has ended.
    pub(crate) fn is_left(&self, edge: EdgeId, key: &Key) -> bool {
        let scope = self.flow.wires.scope(edge);
        scope != ScopeId::ROOT && self.resolver.has_ended(scope, key)
    }

    /// The job is over at this worker.
    pub(crate) fn stop_all(&mut self, site: &mut Site) {
        self.info.over.store(true, Ordering::Release);
        for (_, activation) in self.activations.drain() {
            stop(&activation, site);
        }
    }
}

/// Nobody runs it or reads from it any more.
pub(crate) fn stop(activation: &Activation, site: &mut Site) {
    activation.cancel();
    if activation.started.load(Ordering::Relaxed) {
        site.counters.running -= 1;
    } else if let Some(queue) = site.queues.get(activation.role()) {
        queue.remove(activation);
    }
}
