//! Activations that end, well or not, and what their ends let go of, here and at their producers.

use std::sync::Arc;

use bytes::Bytes;
use omniflow_flow::{EdgeId, Effect, Fault, Home, Key, NodeId, PortIx, Reader, ResolverError};
use omniflow_wire::v1;
use omniflow_wire::v1::node_progress::State;

use crate::core::job::{At, Context, Job, stop};
use crate::core::outputs::Target;
use crate::core::peers::SELF;
use crate::core::site::Subject;

impl Job {
    /// What a node had read for a key is needed no longer, unless it has to run again. What is outside of every scope is
    /// released with the job, which will be soon.
    pub(crate) fn let_go_of_inputs(&mut self, (node, key): &At, cx: &mut Context<'_>) {
        if key.is_root() {
            return;
        }
        let flow = Arc::clone(&self.flow);
        for edge in flow.wires.read(*node) {
            self.received.spend(*edge, key);
            match self.producers_place(*edge, key) {
                Some(Target::Peer(SELF)) => self.spend_sent(*edge, key, cx),
                Some(target) => self.send_unwanted(target, *edge, key, cx),
                None => {}
            }
        }
    }

    /// Nobody here reads on.
    pub(crate) fn tell_producer(
        &mut self,
        edge: EdgeId,
        key: &Key,
        more: &mut Vec<Effect<Bytes>>,
        cx: &mut Context<'_>,
    ) {
        match self.producers_place(edge, key) {
            Some(Target::Peer(SELF)) => self.unwanted(edge, key, more, cx),
            Some(target) => self.send_unwanted(target, edge, key, cx),
            None => {}
        }
    }

    /// The reader of something that is sent from here wants no more of it.
    pub(crate) fn unwanted(
        &mut self,
        edge: EdgeId,
        key: &Key,
        more: &mut Vec<Effect<Bytes>>,
        cx: &mut Context<'_>,
    ) {
        self.note_cut(edge, key);
        if let Err(error) = self.resolver.unwanted(edge, key, more) {
            self.broken(edge, key, &error, cx);
        }
        self.spend_sent(edge, key, cx);
    }

    fn send_unwanted(&self, target: Target, edge: EdgeId, key: &Key, cx: &mut Context<'_>) {
        let way = match target {
            Target::Scheduler => cx.site.scheduler_up,
            Target::Peer(peer) => cx.site.reach(peer, cx.out),
        };
        // Without a way it is lost, and the producer works on in vain.
        if way {
            let message = v1::Unwanted {
                job: self.info.id.0,
                edge: edge.0,
                key: key.path().to_vec(),
                term: 0,
                epoch: self.reader_epoch(edge, key),
            };
            cx.out.send(target, message);
        }
    }

    /// Of the attempt that reads an edge, as far as it is known here; 0: nobody's.
    pub(crate) fn reader_epoch(&self, edge: EdgeId, key: &Key) -> u32 {
        match self.flow.graph.reader(edge, key) {
            Some(Reader::One(node, bind)) => {
                let place = self.places.get(node, &bind);
                place.map_or(0, |place| place.epoch)
            }
            _ => 0,
        }
    }

    /// Where an edge's producer runs for a key. `None`: nobody knows, or it is one of the job's inputs.
    pub(crate) fn producers_place(&self, edge: EdgeId, key: &Key) -> Option<Target> {
        let producer = self.flow.wires.producer(edge)?;
        let Home::Node(home) = self.flow.graph.home(producer) else {
            return Some(Target::Scheduler);
        };
        let run = key.prefix(self.flow.wires.node_depth(producer));
        let bind = self.flow.graph.bind_key(home, &run);
        let place = self.places.get(home, &bind)?;
        Some(Target::Peer(place.peer))
    }

    // --- spent --------------------------------------------------------------------------------------------------------

    fn spend_sent(&mut self, edge: EdgeId, key: &Key, cx: &mut Context<'_>) {
        if !key.is_root() {
            let freed = self.sent.spend(edge, key);
            cx.site.take_back(freed);
        }
    }

    /// Everything of an edge whose keys are this one or inside of it.
    pub(crate) fn spend_inside(&mut self, edge: EdgeId, outer: &Key, cx: &mut Context<'_>) {
        let sent: Vec<Key> = self.sent.keys_inside(edge, outer).cloned().collect();
        for key in sent {
            self.spend_sent(edge, &key, cx);
        }
        let received: Vec<Key> = self.received.keys_inside(edge, outer).cloned().collect();
        for key in received {
            self.received.spend(edge, &key);
        }
    }

    /// Something came once more for a reader that is over.
    pub(crate) fn spend_received_again(&mut self, edge: EdgeId, key: &Key) {
        if let Some(node) = self.flow.consumer(edge).filter(|_| !key.is_root()) {
            let over = !self.activations.contains_key(&(node, key.clone()));
            let is_read = self.flow.wires.read(node).contains(&edge);
            if over && is_read {
                self.received.spend(edge, key);
            }
        }
    }

    // --- ends without outputs -------------------------------------------------------------------------------------------

    /// Its scope has ended, so that nothing it makes can leave.
    pub(crate) fn cancel(&mut self, at: &At, cx: &mut Context<'_>) {
        if let Some(activation) = self.activations.remove(at) {
            stop(&activation, cx.site);
            self.free_producers(&activation, cx);
            let subject = self.subject(&activation);
            cx.site.event(&subject, State::Stopped, cx.now, cx.out);
            self.let_go_of_inputs(at, cx);
        }
    }

    /// Nobody wants what it still makes: it is stopped as if it had ended.
    pub(crate) fn abandon(&mut self, at: At, more: &mut Vec<Effect<Bytes>>, cx: &mut Context<'_>) {
        let Some(activation) = self.activations.get(&at).map(Arc::clone) else {
            return;
        };
        let (node, key) = &at;
        loop {
            match self.resolver.finish(*node, key, more) {
                // Nobody gets to see it: no edge of the port is wanted.
                Err(ResolverError::MissingOutput(port)) if self.fill(&at, port, more) => {}
                _ => break,
            }
        }
        self.activations.remove(&at);
        stop(&activation, cx.site);
        self.free_producers(&activation, cx);
        let subject = self.subject(&activation);
        cx.site.event(&subject, State::Stopped, cx.now, cx.out);
        self.let_go_of_inputs(&at, cx);
    }

    fn fill(&mut self, (node, key): &At, port: PortIx, more: &mut Vec<Effect<Bytes>>) -> bool {
        let filled = self.resolver.emit(*node, key, port, Bytes::new(), more);
        filled.is_ok()
    }

    /// It can never fire: its outputs were closed, and it counts no longer.
    pub(crate) fn closed(&mut self, at: &At, cx: &mut Context<'_>) {
        let (node, key) = at;
        let subject = Subject {
            job: self.info.id,
            node: *node,
            key,
            epoch: self.epoch_of(*node, key),
        };
        cx.site.event(&subject, State::Stopped, cx.now, cx.out);
        self.let_go_of_inputs(at, cx);
    }

    /// A control node here fails the job.
    pub(crate) fn control_failed(
        &mut self,
        node: NodeId,
        key: &Key,
        fault: &Fault,
        cx: &mut Context<'_>,
    ) {
        let subject = Subject {
            job: self.info.id,
            node,
            key,
            epoch: self.epoch_of(node, key),
        };
        let code = match fault {
            Fault::LoopLimit { .. } => v1::ErrorCode::LoopLimit,
            Fault::BadRoute { .. } => v1::ErrorCode::BadRoute,
            Fault::BadValue { .. } => v1::ErrorCode::BadOutput,
        };
        let spec = self.flow.graph.node(node);
        let source = spec.and_then(|spec| spec.source.as_ref());
        let place = source.map(|source| format!("{}:{}: ", source.file, source.line));
        let error = v1::Error {
            code: code.into(),
            message: format!("{}{fault}", place.unwrap_or_default()),
            ..Default::default()
        };
        cx.site
            .failed(&subject, Some(&self.flow), error, cx.now, cx.out);
    }
}
