//! What running activations do: start, emit, end, finish, fail.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use omniflow_flow::{Key, NodeId, PortIx, ResolverError};
use omniflow_wire::v1;
use omniflow_wire::v1::node_progress::State;

use crate::activation::Activation;
use crate::core::job::{At, Context, Job};
use crate::error::NodeError;

const REPLACED: &str = "the job ended, or this attempt was replaced";

impl Job {
    /// An engine has taken it. Nothing happens when it was withdrawn in the meantime.
    pub(crate) fn started(&mut self, activation: &Arc<Activation>, cx: &mut Context<'_>) {
        if self.current(activation).is_ok() {
            activation.started.store(true, Ordering::Relaxed);
            cx.site.counters.running += 1;
            let subject = self.subject(activation);
            cx.site.event(&subject, State::Started, cx.now, cx.out);
        }
    }

    /// Sends frames on an output port; returns how many were taken.
    pub(crate) fn emit(
        &mut self,
        activation: &Arc<Activation>,
        port: &str,
        frames: Vec<Bytes>,
        cx: &mut Context<'_>,
    ) -> Result<usize, NodeError> {
        let (node, key) = self.current(activation)?;
        let index = self.port(activation, port)?;
        let mut taken = 0;
        for frame in frames {
            if !self.has_room_or_notes(activation, index) {
                break;
            }
            self.give(activation, (node, &key), index, frame, cx)?;
            taken += 1;
        }
        Ok(taken)
    }

    pub(crate) fn may_emit(
        &self,
        activation: &Arc<Activation>,
        port: &str,
    ) -> Result<bool, NodeError> {
        self.current(activation)?;
        Ok(self.has_room_or_notes(activation, self.port(activation, port)?))
    }

    /// Whether there is room for one more frame; if not, the activation is told when there is.
    fn has_room_or_notes(&self, activation: &Activation, port: PortIx) -> bool {
        let has_room = self.has_room(activation, port);
        if !has_room {
            activation.held_up.store(true, Ordering::Relaxed);
        }
        has_room
    }

    fn give(
        &mut self,
        activation: &Arc<Activation>,
        (node, key): (NodeId, &Key),
        port: PortIx,
        frame: Bytes,
        cx: &mut Context<'_>,
    ) -> Result<(), NodeError> {
        let mut effects = Vec::new();
        let bytes = self.read_bytes(node, &frame);
        let given = self.resolver.emit(node, key, port, frame, &mut effects);
        given.map_err(|error| bad_output(activation, &self.port_name(activation, port), &error))?;
        activation.traffic.gave(port.0, bytes, cx.now);
        if !activation.emitted.swap(true, Ordering::Relaxed) {
            let subject = self.subject(activation);
            cx.site.event(&subject, State::FirstFrame, cx.now, cx.out);
        }
        self.settle(effects, cx);
        if self.failed {
            return Err(activation.cancelled_error("the job has stalled on this worker"));
        }
        Ok(())
    }

    /// No more frames on a stream port.
    pub(crate) fn end(
        &mut self,
        activation: &Arc<Activation>,
        port: &str,
        cx: &mut Context<'_>,
    ) -> Result<(), NodeError> {
        let (node, key) = self.current(activation)?;
        let index = self.port(activation, port)?;
        let mut effects = Vec::new();
        self.resolver
            .end(node, &key, index, &mut effects)
            .map_err(|error| bad_output(activation, port, &error))?;
        self.settle(effects, cx);
        Ok(())
    }

    /// It is over, with all its outputs: `last` go out before, whatever room there is, for they are few.
    pub(crate) fn finish(
        &mut self,
        activation: &Arc<Activation>,
        last: Vec<(String, Bytes)>,
        features: Vec<v1::Feature>,
        cx: &mut Context<'_>,
    ) -> Result<(), NodeError> {
        let (node, key) = self.current(activation)?;
        for (port, frame) in last {
            let port = self.port(activation, &port)?;
            self.give(activation, (node, &key), port, frame, cx)?;
        }
        let mut effects = Vec::new();
        self.resolver
            .finish(node, &key, &mut effects)
            .map_err(|error| {
                let port = match error {
                    ResolverError::MissingOutput(port) => self.port_name(activation, port),
                    _ => String::new(),
                };
                bad_output(activation, &port, &error)
            })?;
        self.leave(activation, cx);
        self.settle(effects, cx);
        self.let_go_of_inputs(&(node, key), cx);
        let subject = self.subject(activation);
        cx.site
            .detailed_event(&subject, State::Done, features, None, cx.now, cx.out);
        cx.site.events.tell_traffic(&activation.traffic, cx.now);
        Ok(())
    }

    /// It is over, without its outputs. The scheduler decides what follows.
    pub(crate) fn fail(
        &mut self,
        activation: &Arc<Activation>,
        error: v1::Error,
        cx: &mut Context<'_>,
    ) -> Result<(), NodeError> {
        self.current(activation)?;
        self.leave(activation, cx);
        let subject = self.subject(activation);
        cx.site
            .failed(&subject, Some(&self.flow), error, cx.now, cx.out);
        cx.site.events.tell_traffic(&activation.traffic, cx.now);
        Ok(())
    }

    fn leave(&mut self, activation: &Arc<Activation>, cx: &mut Context<'_>) {
        let at = (activation.node, activation.key.clone());
        self.activations.remove(&at);
        self.free_producers(activation, cx);
        if activation.started.load(Ordering::Relaxed) {
            cx.site.counters.running -= 1;
        }
    }

    /// Whether it is the newest attempt, and not over.
    pub(crate) fn runs(&self, activation: &Arc<Activation>) -> bool {
        self.current(activation).is_ok()
    }

    /// Only the newest attempt may speak for its node.
    fn current(&self, activation: &Arc<Activation>) -> Result<At, NodeError> {
        let at = (activation.node, activation.key.clone());
        match self.activations.get(&at) {
            Some(current) if Arc::ptr_eq(current, activation) => Ok(at),
            _ => Err(activation.cancelled_error(REPLACED)),
        }
    }

    fn port(&self, activation: &Activation, port: &str) -> Result<PortIx, NodeError> {
        self.flow.output(activation.node, port).ok_or_else(|| {
            let node = self.flow.graph.node(activation.node);
            let outputs = node.map_or(&[][..], |spec| &spec.outputs);
            let known: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
            NodeError::UnknownPort {
                node: activation.node().to_owned(),
                what: "output port",
                name: port.to_owned(),
                known: known.join(", "),
            }
        })
    }

    fn port_name(&self, activation: &Activation, port: PortIx) -> String {
        let node = self.flow.graph.node(activation.node);
        let output = node.and_then(|spec| spec.outputs.get(port.index()));
        output.map_or_else(String::new, |output| output.name.clone())
    }
}

fn bad_output(activation: &Activation, port: &str, error: &ResolverError) -> NodeError {
    match error {
        ResolverError::NotRunning { .. } => activation.cancelled_error(REPLACED),
        other => NodeError::BadOutput {
            node: activation.node().to_owned(),
            port: port.to_owned(),
            problem: other.to_string(),
        },
    }
}
