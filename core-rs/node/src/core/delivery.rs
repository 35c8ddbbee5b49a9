//! From a producer here to wherever the consumer is: first time, after a move, after a broken link.

use bytes::Bytes;
use omniflow_flow::{Destination, EdgeId, Effect, Item, Key, NodeId};
use omniflow_wire::{Frame, v1};

use crate::core::job::{Context, Job};
use crate::core::outputs::Target;
use crate::core::peers::SELF;
use crate::core::retention::{Kept, Retention};
use crate::core::site::Subject;
use crate::ids::PeerIx;

/// Where an edge leads now.
enum Route {
    Here,
    Elsewhere(Target),
    /// Not bound yet: what was sent is kept and follows the bind.
    Unbound,
}

impl Job {
    /// Keeps the item and brings it to its consumer, if there is a way now.
    pub(crate) fn send(
        &mut self,
        edge: EdgeId,
        key: &Key,
        epoch: u32,
        item: Item<Bytes>,
        more: &mut Vec<Effect<Bytes>>,
        cx: &mut Context<'_>,
    ) {
        if self.failed {
            return;
        }
        let cost = Retention::cost(&item);
        if cx.site.retained_bytes + cost > cx.site.retention_limit {
            return self.stall(edge, key, epoch, cx);
        }
        cx.site.retained_bytes += cost;
        self.sent.keep(edge, key, epoch, item.clone());
        match self.route(edge, key) {
            Route::Here => self.accept_here(edge, key, epoch, item, more, cx),
            Route::Elsewhere(target) => self.transmit(target, edge, key, &Kept { epoch, item }, cx),
            Route::Unbound => {}
        }
    }

    fn accept_here(
        &mut self,
        edge: EdgeId,
        key: &Key,
        epoch: u32,
        item: Item<Bytes>,
        more: &mut Vec<Effect<Bytes>>,
        cx: &mut Context<'_>,
    ) {
        if let Err(error) = self.resolver.accept(edge, key, epoch, item, more) {
            self.broken(edge, key, &error, cx);
        }
    }

    fn route(&self, edge: EdgeId, key: &Key) -> Route {
        let node = match self.flow.graph.edge(edge).map(|edge| edge.to) {
            Some(Destination::Node { node, .. }) => node,
            Some(Destination::Result { .. }) => return Route::Elsewhere(Target::Scheduler),
            None => return Route::Unbound,
        };
        match self.places.get(&(node, key.clone())) {
            Some(place) if place.peer == SELF => Route::Here,
            Some(place) => Route::Elsewhere(Target::Peer(place.peer)),
            None => Route::Unbound,
        }
    }

    fn transmit(&self, target: Target, edge: EdgeId, key: &Key, kept: &Kept, cx: &mut Context<'_>) {
        let way = match target {
            Target::Scheduler => cx.site.scheduler_up,
            Target::Peer(peer) => cx.site.reach(peer, cx.out),
        };
        // Without a way it is kept, and sent when the link is up.
        if way {
            let frame = self.frame(edge, key, kept);
            cx.site.counters.frames_out += 1;
            cx.site.counters.bytes_out += frame.payload.len() as u64;
            cx.out.send(target, frame);
        }
    }

    fn frame(&self, edge: EdgeId, key: &Key, kept: &Kept) -> Frame {
        let (mark, seq, count, payload) = match &kept.item {
            Item::Frame { seq, payload } => (v1::Mark::None, *seq, 0, payload.clone()),
            Item::End { count } => (v1::Mark::End, 0, *count, Bytes::new()),
            Item::Closed => (v1::Mark::Closed, 0, 0, Bytes::new()),
        };
        let header = v1::FrameHeader {
            job: self.info.id.0,
            edge: edge.0,
            key: key.path().to_vec(),
            seq,
            epoch: kept.epoch,
            mark: mark.into(),
            count,
            term: 0,
        };
        Frame { header, payload }
    }

    /// The consumer has a new place (or is new): everything that was sent to it, again.
    pub(crate) fn resend_into(&mut self, node: NodeId, key: &Key, cx: &mut Context<'_>) {
        let ports = self
            .flow
            .graph
            .node(node)
            .map_or(0, |spec| spec.inputs.len());
        for port in 0..ports {
            let port = omniflow_flow::PortIx(port as u32);
            if let Some(edge) = self.flow.graph.edge_into(node, port) {
                self.resend(edge, key, cx);
            }
        }
    }

    fn resend(&mut self, edge: EdgeId, key: &Key, cx: &mut Context<'_>) {
        match self.route(edge, key) {
            Route::Unbound => {}
            Route::Elsewhere(target) => {
                for kept in self.sent.of(edge, key) {
                    self.transmit(target, edge, key, kept, cx);
                }
            }
            Route::Here => {
                let mut here = self.received.of(edge, key);
                here.extend_from_slice(self.sent.of(edge, key));
                for kept in here {
                    let mut effects = Vec::new();
                    self.accept_here(edge, key, kept.epoch, kept.item, &mut effects, cx);
                    self.settle(effects, cx);
                }
            }
        }
    }

    /// The way to `target` is open (again): everything that was sent that way.
    pub(crate) fn resend_to(&mut self, target: Target, cx: &mut Context<'_>) {
        for (edge, key) in self.sent.edges() {
            if matches!(self.route(edge, key), Route::Elsewhere(to) if to == target) {
                for kept in self.sent.of(edge, key) {
                    self.transmit(target, edge, key, kept, cx);
                }
            }
        }
    }

    /// Whether something was sent to the peer, which a broken link may have lost.
    pub(crate) fn needs(&self, peer: PeerIx) -> bool {
        self.sent.edges().any(|(edge, key)| {
            matches!(self.route(edge, key), Route::Elsewhere(Target::Peer(to)) if to == peer)
        })
    }

    /// Rule 10: nothing more can be kept on this worker, so the job fails, naming the edge.
    fn stall(&mut self, edge: EdgeId, key: &Key, epoch: u32, cx: &mut Context<'_>) {
        self.failed = true;
        let subject = Subject {
            job: self.info.id,
            node: self.flow.producer(edge).unwrap_or(NodeId(0)),
            key,
            epoch,
        };
        let error = v1::Error {
            code: v1::ErrorCode::FlowStalled.into(),
            message: format!(
                "edge {}: {} of {} bytes that this worker may keep for consumers are in use",
                self.flow.edge_name(edge),
                cx.site.retained_bytes,
                cx.site.retention_limit
            ),
            cure:
                "raise the worker's retention_bytes, send smaller frames, or run fewer jobs at once"
                    .to_owned(),
            ..Default::default()
        };
        let flow = std::sync::Arc::clone(&self.flow);
        cx.site.failed(&subject, Some(&flow), error, cx.now, cx.out);
        self.stop_all(cx.site);
    }
}
