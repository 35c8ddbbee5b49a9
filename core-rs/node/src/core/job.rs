//! One job at this worker: its resolver, who runs its nodes, what runs here. Where a frame becomes an activation.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use omniflow_flow::{
    ActivationInput, Arrival, EdgeId, Effect, Item, Key, NodeId, Resolver, ResolverError,
};
use omniflow_wire::v1;
use omniflow_wire::v1::node_progress::State;
use rustc_hash::FxHashMap;

use crate::activation::{Activation, JobInfo};
use crate::core::outputs::Outputs;
use crate::core::received::Received;
use crate::core::retention::Retention;
use crate::core::site::{Site, Subject};
use crate::flow_entry::FlowEntry;
use crate::ids::PeerIx;

/// Who runs a node, and under which epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) peer: PeerIx,
    pub(crate) epoch: u32,
}

/// What a step of a job works with.
pub(crate) struct Context<'a> {
    pub(crate) site: &'a mut Site,
    pub(crate) out: &'a mut Outputs,
    pub(crate) now: Instant,
}

/// A node for a key.
pub(crate) type At = (NodeId, Key);

/// See the module. How it is bound, sends and is driven by roles: `binds`, `delivery`, `producing`.
pub(crate) struct Job {
    pub(crate) info: Arc<JobInfo>,
    pub(crate) flow: Arc<FlowEntry>,
    pub(crate) order: f64,
    pub(crate) resolver: Resolver<Bytes>,
    pub(crate) places: FxHashMap<At, Place>,
    pub(crate) activations: FxHashMap<At, Arc<Activation>>,
    /// What nodes here have sent.
    pub(crate) sent: Retention,
    /// What came from elsewhere.
    pub(crate) received: Received,
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
            places: FxHashMap::default(),
            activations: FxHashMap::default(),
            sent: Retention::default(),
            received: Received::default(),
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
        let mut effects = Vec::new();
        let kept = item.clone();
        let arrival = self.resolver.accept(edge, key, epoch, item, &mut effects);
        match arrival {
            Ok(Arrival::Stale) => {}
            // What this attempt has or doesn't want may be meant for the next one, whose bind is still on its way.
            Ok(Arrival::Taken | Arrival::Parked | Arrival::Duplicate | Arrival::Unwanted) => {
                self.received.keep(edge, key, epoch, kept);
            }
            Err(error) => self.broken(edge, key, &error, cx),
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
            } => self.activate(node, key, epoch, inputs, cx),
            Effect::Deliver {
                node,
                key,
                port,
                payload,
                ..
            } => {
                if let Some(activation) = self.activations.get(&(node, key)) {
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
            Effect::Unwanted { edge, key } => {
                // A producer elsewhere goes on in vain until it ends; one here is told.
                if let Err(error) = self.resolver.unwanted(edge, &key, more) {
                    self.broken(edge, &key, &error, cx);
                }
            }
            Effect::Contradiction { edge, key, seq } => {
                let contradiction = v1::Contradiction {
                    job: self.info.id.0,
                    edge: edge.0,
                    key: key.path().to_vec(),
                    seq,
                };
                cx.site.tell_scheduler(contradiction, cx.out);
            }
            // Flows with control nodes are refused before they come here (`FlowEntry::new`).
            Effect::Cancelled { .. }
            | Effect::Wanted { .. }
            | Effect::ScopeLeft { .. }
            | Effect::Failed { .. } => {}
            // A closed node's marks were sent; an unneeded one is stopped when the job ends (rule 9). Results are made
            // by the scheduler's resolver only.
            Effect::NodeClosed { .. }
            | Effect::Unneeded { .. }
            | Effect::Result { .. }
            | Effect::Done => {}
        }
    }

    fn activate(
        &mut self,
        node: NodeId,
        key: Key,
        epoch: u32,
        inputs: Vec<ActivationInput<Bytes>>,
        cx: &mut Context<'_>,
    ) {
        let activation = Arc::new(Activation::new(
            Arc::clone(&self.info),
            Arc::clone(&self.flow),
            (node, key.clone(), epoch),
            self.order,
            inputs,
        ));
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
        cx.site.event(&subject, State::Queued, cx.now, cx.out);
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
        let epoch = self
            .places
            .get(&(node, key.clone()))
            .map_or(0, |place| place.epoch);
        let subject = Subject {
            job: self.info.id,
            node,
            key,
            epoch,
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

    /// Ends the attempt that is here, if there is one: nobody runs it or reads from it any more.
    pub(crate) fn withdraw(&mut self, at: &At, site: &mut Site) {
        if let Some(activation) = self.activations.remove(at) {
            stop(&activation, site);
        }
    }

    /// The job is over at this worker.
    pub(crate) fn stop_all(&mut self, site: &mut Site) {
        for (_, activation) in self.activations.drain() {
            stop(&activation, site);
        }
    }
}

fn stop(activation: &Activation, site: &mut Site) {
    activation.cancel();
    if activation.started.load(Ordering::Relaxed) {
        site.counters.running -= 1;
    } else if let Some(queue) = site.queues.get(activation.role()) {
        queue.remove(activation);
    }
}
