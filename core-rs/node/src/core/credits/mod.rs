//! Rule 10: a stream comes to its reader as far as that reads; the rest stays with the producer, who waits only while the
//! consumer reads that very stream and is behind. Nobody else is held up.
//!
//! A window of a stream comes unasked. With every half of it that is read, the reader says how far the stream may come. One
//! that has half a window unread when it reads is behind: it says so, and its producer makes no more than may come, until the
//! reader waits for another stream, or ends. So a chain of producers that wait for room always leads to one that can go on.
//! What is granted belongs to an attempt of the consumer: when that moves, nothing is left of it, and the stream begins again.
//! A new attempt of the producer is told what its predecessor was: the reader asks for no more until it has that. It is told
//! when the reader's place hears where it is, and again with the first that comes from it, for then it is surely there.
//!
//! Who reads through a merge or a zip at its side says it to all that feed those (`passing`). Of results, the scheduler says
//! it, as the client reads (`results`). What other control nodes make, and inputs, come as they are made: what their
//! producers keep counts in the quota of their place.

mod passing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use omniflow_flow::{EdgeId, Home, Key, NodeId, Origin, PortIx};
use omniflow_wire::v1;
use rustc_hash::FxHashMap;

use crate::activation::Activation;
use crate::core::job::{Context, Job};
use crate::core::outputs::Target;
use crate::core::peers::SELF;
use crate::ids::PeerIx;
pub(crate) use omniflow_flow::{Amount, Grant, Meter};

/// What a reader may have unread, and has on its way.
#[cfg(not(test))]
pub(crate) const WINDOW: Amount = Amount {
    frames: 1_024,
    bytes: 4 << 20,
};
/// So little that tests meet its end.
#[cfg(test)]
pub(crate) const WINDOW: Amount = Amount {
    frames: 3,
    bytes: 48,
};

/// A stream of a job: an edge, for a key.
type Lane = (EdgeId, Key);

/// What was granted, and by or to which attempt of the consumer.
#[derive(Clone, Copy, Debug)]
struct Granted {
    epoch: u32,
    grant: Grant,
}

/// Of one job at this worker.
#[derive(Debug, Default)]
pub(crate) struct Credits {
    /// What consumers let producers here do. Of streams that are not here, a window may come.
    limits: FxHashMap<Lane, Granted>,
    /// What consumers here last told producers: a lost link, or a new attempt, has to be told again.
    told: FxHashMap<Lane, Told>,
    passing: passing::Passing,
}

/// What a producer was told.
#[derive(Clone, Copy, Debug)]
struct Told {
    granted: Granted,
    /// From which attempt of it something has come since it was first told.
    heard: u32,
}

impl Credits {
    /// Takes a grant in; false when it is of an attempt that is over.
    fn limit(&mut self, lane: Lane, granted: Granted) -> bool {
        let known = self.limits.get(&lane);
        if known.is_some_and(|known| known.epoch > granted.epoch) {
            return false;
        }
        self.limits.insert(lane, granted);
        true
    }

    /// How many frames of a stream its reader has read, as far as it has said so.
    pub(crate) fn read(&self, edge: EdgeId, key: &Key) -> u64 {
        match self.allowed(edge, key).frames {
            // For nobody reads them.
            u64::MAX => 0,
            passes => passes.saturating_sub(WINDOW.frames),
        }
    }

    /// A loop at this key has begun a round: of those before it, nothing on these edges inside of it is needed.
    pub(crate) fn drop_rounds_before(&mut self, edges: &[EdgeId], outer: &Key, round: u32) {
        let is_over = |(edge, key): &Lane| {
            let of = key.path().get(outer.depth());
            of.is_some_and(|of| *of < round) && key.extends(outer) && edges.contains(edge)
        };
        self.limits.retain(|lane, _| !is_over(lane));
        self.told.retain(|lane, _| !is_over(lane));
        self.passing.forget(is_over);
    }

    /// Whoever granted it is not there any more.
    pub(crate) fn forget(&mut self, edge: EdgeId, key: &Key) {
        self.limits.remove(&(edge, key.clone()));
    }

    /// How far a stream may come to its reader.
    pub(crate) fn allowed(&self, edge: EdgeId, key: &Key) -> Amount {
        if self.limits.is_empty() {
            return WINDOW;
        }
        let granted = self.limits.get(&(edge, key.clone()));
        granted.map_or(WINDOW, |granted| granted.grant.passes)
    }
}

impl Job {
    // --- at the consumer ----------------------------------------------------------------------------------------------

    /// What an activation here lets its producers send.
    pub(crate) fn grant(
        &mut self,
        activation: &Arc<Activation>,
        grants: Vec<(PortIx, Grant)>,
        cx: &mut Context<'_>,
    ) {
        let flow = Arc::clone(&self.flow);
        for (port, grant) in grants {
            if let Some(passage) = flow.wires.passage(activation.node, port) {
                let granted = Granted {
                    epoch: activation.epoch,
                    grant,
                };
                self.grant_through(passage, (port, &activation.key), granted, cx);
            }
        }
    }

    /// An activation is over: it holds nobody up.
    pub(crate) fn free_producers(&mut self, activation: &Arc<Activation>, cx: &mut Context<'_>) {
        let grants = activation.lift_all();
        self.grant(activation, grants, cx);
    }

    fn tell_of(&mut self, edge: EdgeId, key: Key, granted: Granted, cx: &mut Context<'_>) {
        let told = self.credits.told.entry((edge, key.clone()));
        told.or_insert(Told { granted, heard: 0 }).granted = granted;
        match self.producers_place(edge, &key) {
            Some(Target::Peer(SELF)) => self.take_grant(edge, key, granted, cx),
            // Without a way it is told when the link is up.
            Some(Target::Peer(peer)) if cx.site.reach(peer, cx.out) => {
                let credit = self.credit(edge, &key, granted);
                cx.out.send(Target::Peer(peer), credit);
            }
            Some(Target::Peer(_) | Target::Scheduler) | None => {}
        }
    }

    /// A producer has a new attempt, which knows nothing of what the one before was told.
    pub(crate) fn tell_new_producer(&mut self, node: NodeId, bind: &Key, cx: &mut Context<'_>) {
        let (graph, wires) = (&self.flow.graph, &self.flow.wires);
        let from_it = |(edge, key): &&Lane| {
            let producer = wires.producer(*edge);
            producer == Some(node) && graph.bind_key(node, key) == *bind
        };
        let lanes: Vec<Lane> = self.credits.told.keys().filter(from_it).cloned().collect();
        for (edge, key) in lanes {
            self.tell_as_before(edge, key, cx);
        }
    }

    /// Something came from an attempt of a producer. If it is a new one, it may have been told before it knew the job.
    pub(crate) fn note_producer(
        &mut self,
        edge: EdgeId,
        key: &Key,
        epoch: u32,
        cx: &mut Context<'_>,
    ) {
        if self.credits.told.is_empty() || !self.flow.wires.is_paced(edge) {
            return;
        }
        let told = self.credits.told.get_mut(&(edge, key.clone()));
        if let Some(told) = told.filter(|told| told.heard < epoch) {
            told.heard = epoch;
            self.tell_as_before(edge, key.clone(), cx);
        }
    }

    fn tell_as_before(&mut self, edge: EdgeId, key: Key, cx: &mut Context<'_>) {
        if let Some(told) = self.credits.told.get(&(edge, key.clone())) {
            self.tell_of(edge, key, told.granted, cx);
        }
    }

    fn credit(&self, edge: EdgeId, key: &Key, granted: Granted) -> v1::Credit {
        let passes = granted.grant.passes;
        v1::Credit {
            job: self.info.id.0,
            edge: edge.0,
            key: key.path().to_vec(),
            frames: passes.frames,
            bytes: passes.bytes,
            term: 0,
            epoch: granted.epoch,
            holds: granted.grant.holds,
        }
    }

    /// A link is up again, or for the first time: what it may have lost, and what waited for it.
    pub(crate) fn tell_again(&self, peer: PeerIx, cx: &mut Context<'_>) {
        for ((edge, key), told) in &self.credits.told {
            if self.producers_place(*edge, key) == Some(Target::Peer(peer)) {
                let credit = self.credit(*edge, key, told.granted);
                cx.out.send(Target::Peer(peer), credit);
            }
        }
    }

    /// Whether the peer was granted something, which a broken link may have lost.
    pub(crate) fn has_told(&self, peer: PeerIx) -> bool {
        let mut told = self.credits.told.keys();
        told.any(|(edge, key)| self.producers_place(*edge, key) == Some(Target::Peer(peer)))
    }

    // --- at the producer ----------------------------------------------------------------------------------------------

    /// A consumer elsewhere says what it grants.
    pub(crate) fn credited(&mut self, credit: &v1::Credit, cx: &mut Context<'_>) {
        let passes = Amount {
            frames: credit.frames,
            bytes: credit.bytes,
        };
        let granted = Granted {
            epoch: credit.epoch,
            grant: Grant {
                passes,
                holds: credit.holds,
            },
        };
        self.take_grant(EdgeId(credit.edge), Key::new(&credit.key), granted, cx);
    }

    fn take_grant(&mut self, edge: EdgeId, key: Key, granted: Granted, cx: &mut Context<'_>) {
        // Without a consumer it is a result.
        let consumer = self.flow.consumer(edge);
        let over = consumer.is_some_and(|consumer| granted.epoch < self.epoch_of(consumer, &key));
        if over || !self.credits.limit((edge, key.clone()), granted) {
            return;
        }
        if self.flow.wires.is_paced(edge) {
            let mut effects = Vec::new();
            self.pass_on(edge, &key, &mut effects, cx);
            self.settle(effects, cx);
        }
        self.tell_of_room(edge, &key, cx);
    }

    /// A consumer has moved: its new attempt has granted nothing yet, and holds nobody up.
    pub(crate) fn forget_grants_before(
        &mut self,
        node: NodeId,
        bind: &Key,
        epoch: u32,
        cx: &mut Context<'_>,
    ) {
        let flow = Arc::clone(&self.flow);
        let of_bind = |(edge, key): &Lane| {
            let consumer = flow.consumer(*edge);
            let home = consumer.map(|consumer| flow.graph.home(consumer));
            home == Some(Home::Node(node)) && flow.graph.bind_key(node, key) == *bind
        };
        let limits = self.credits.limits.iter();
        let old = limits.filter(|(lane, granted)| granted.epoch < epoch && of_bind(lane));
        let old: Vec<Lane> = old.map(|(lane, _)| lane.clone()).collect();
        for (edge, key) in old {
            self.credits.limits.remove(&(edge, key.clone()));
            self.tell_of_room(edge, &key, cx);
        }
        self.credits
            .told
            .retain(|lane, told| told.granted.epoch >= epoch || !of_bind(lane));
        self.credits.passing.forget(of_bind);
    }

    /// Whether every consumer of an output port lets the activation send one more frame.
    pub(crate) fn has_room(&self, activation: &Activation, port: PortIx) -> bool {
        if self.credits.limits.is_empty() {
            return true;
        }
        let sent = activation.traffic.given(port.0);
        let from = Origin::Node {
            node: activation.node,
            port,
        };
        let edges = self.flow.wires.outgoing(activation.node).iter();
        let mut of_port = edges.filter(|edge| {
            self.flow
                .graph
                .edge(**edge)
                .is_some_and(|spec| spec.from == from)
        });
        of_port.all(|edge| {
            let granted = self.credits.limits.get(&(*edge, activation.key.clone()));
            granted.is_none_or(|granted| granted.grant.has_room(sent))
        })
    }

    /// An engine that was refused room hears of it by its ready queue, a role's own thread by the activation.
    fn tell_of_room(&self, edge: EdgeId, key: &Key, cx: &mut Context<'_>) {
        let Some(producer) = self.flow.wires.producer(edge) else {
            return;
        };
        let Some(activation) = self.activations.get(&(producer, key.clone())) else {
            return;
        };
        let spec = self.flow.graph.edge(edge);
        let Some(Origin::Node { port, .. }) = spec.map(|spec| spec.from) else {
            return;
        };
        // It may have sent so much before it was held up that this is not enough.
        if self.has_room(activation, port)
            && activation.has_room_again()
            && let Some(queue) = cx.site.queues.get(activation.role())
        {
            queue.tell_of_room();
            cx.out.wake_queue(queue);
        }
    }
}
