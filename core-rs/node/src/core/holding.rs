//! What a new scheduler is told of what is still held here, so that nothing that runs is run again (rule 14).

use std::sync::atomic::Ordering;

use omniflow_flow::{Key, NodeId};
use omniflow_wire::v1;
use omniflow_wire::v1::node_progress::State;

use crate::activation::Activation;
use crate::core::job::Job;
use crate::core::places::Place;

impl Job {
    /// Every bind that is here, with how far it got.
    pub(crate) fn holding(&self) -> v1::HeldJob {
        let here = self.places.iter().filter(|(.., place)| place.is_here());
        v1::HeldJob {
            job: self.info.id.0,
            nodes: here
                .map(|(node, key, place)| self.held(node, key, place))
                .collect(),
        }
    }

    fn held(&self, node: NodeId, key: &Key, place: &Place) -> v1::HeldNode {
        let graph = &self.flow.graph;
        let of_bind = |of: NodeId, at: &Key| of == node && graph.bind_key(node, at) == *key;
        let running = match self.activations.get(&(node, key.clone())) {
            Some(activation) => Some(activation),
            None if self.flow.wires.node_depth(node) == key.depth() => None,
            // Of a node in a loop: that of a round.
            None => self
                .activations
                .iter()
                .find(|((of, at), _)| of_bind(*of, at))
                .map(|(_, activation)| activation),
        };
        let state = match running {
            Some(activation) => progress(activation),
            None if self.resolver.is_over(node, key) => State::Done,
            None => State::Unspecified,
        };
        v1::HeldNode {
            node: node.0,
            key: key.path().to_vec(),
            epoch: place.epoch,
            state: state.into(),
        }
    }
}

fn progress(activation: &Activation) -> State {
    if activation.emitted.load(Ordering::Relaxed) {
        State::FirstFrame
    } else if activation.started.load(Ordering::Relaxed) {
        State::Started
    } else {
        State::Queued
    }
}
