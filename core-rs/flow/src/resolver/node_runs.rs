//! All runs of one node at one place, and what they share.

use rustc_hash::FxHashMap;

use crate::effect::{Arrival, Effect};
use crate::graph::Graph;
use crate::ids::{NodeId, PortIx};
use crate::item::Item;
use crate::key::Key;
use crate::payload::Payload;
use crate::spec::NodeSpec;

use super::inlet::{Inlet, Taking};
use super::key_set::KeySet;
use super::node_run::NodeRun;
use super::per_key::PerKey;
use super::place::Place;

/// See the module.
pub(super) struct NodeRuns<P> {
    /// One outside of every scope stays when it is over; the others are only counted as `over`.
    pub(super) runs: PerKey<NodeRun<P>>,
    /// Of a role node: the epochs under which it is hosted, by key of the bind.
    pub(super) hosted: PerKey<u32>,
    over: KeySet,
    /// Epochs above 1 of those that are over.
    over_epochs: FxHashMap<Key, u32>,
    /// Ports that are fed from outside of the node's scope, with the number of indices of what comes there.
    outer_ports: Vec<(PortIx, usize)>,
    /// Ports that resumable nodes feed with streams.
    keeps: Vec<PortIx>,
    /// What came there, by port and key (rule 3).
    outer: FxHashMap<(PortIx, Key), Outer<P>>,
}

/// One frame from outside of the scope: it matches every key that extends its own, and is kept until the scope ends.
struct Outer<P> {
    inlet: Inlet<P>,
    epoch: u32,
    item: Option<Item<P>>,
}

impl<P: Payload> NodeRuns<P> {
    pub(super) fn new(graph: &Graph, node: NodeId) -> Self {
        let spec = &graph.nodes()[node.index()];
        let outer = |port: usize| {
            let port = PortIx(port as u32);
            let scope = graph.layout().edge_scope(graph.edge_into(node, port)?);
            (scope != spec.input_scope(port)).then(|| (port, graph.layout().depth(scope)))
        };
        let ports = (0..spec.inputs.len() as u32).map(PortIx);
        let keeps = ports.filter(|port| {
            let edge = graph.edge_into(node, *port);
            let stream = spec.inputs[port.index()].value_type.stream;
            stream && edge.is_some_and(|edge| graph.is_resumed(edge))
        });
        Self {
            keeps: keeps.collect(),
            runs: PerKey::default(),
            hosted: PerKey::default(),
            over: KeySet::default(),
            over_epochs: FxHashMap::default(),
            outer_ports: (0..spec.inputs.len()).filter_map(outer).collect(),
            outer: FxHashMap::default(),
        }
    }

    pub(super) fn is_outer(&self, port: PortIx) -> bool {
        self.outer_ports.iter().any(|(outer, _)| *outer == port)
    }

    pub(super) fn is_over(&self, key: &Key) -> bool {
        !key.is_root() && self.over.contains(key)
    }

    pub(super) fn over(&mut self, key: &Key, epoch: u32) {
        self.over.insert(key);
        if epoch > 1 {
            self.over_epochs.insert(key.clone(), epoch);
        }
    }

    /// The epoch of a run that is over.
    pub(super) fn over_epoch(&self, key: &Key) -> Option<u32> {
        self.is_over(key)
            .then(|| self.over_epochs.get(key).copied().unwrap_or(1))
    }

    /// Forgets everything of these keys, over or not.
    pub(super) fn forget(&mut self, keys: impl Fn(&Key) -> bool) {
        self.runs.retain(|key, _| !keys(key));
        self.over.forget(&keys);
        self.over_epochs.retain(|key, _| !keys(key));
    }

    /// The scope has ended for this key: forgets all inside. The keys of what was running at an engine.
    pub(super) fn end(&mut self, outer: &Key, with_hosting: bool, bind: &Key) -> Vec<Key> {
        let mut running = Vec::new();
        self.runs.remove_inside(outer, |key, run| {
            if run.at_an_engine() {
                running.push(key);
            }
        });
        self.over.forget_inside(outer);
        if !self.over_epochs.is_empty() {
            self.over_epochs.retain(|key, _| !key.extends(outer));
        }
        self.forget_outer(outer);
        if with_hosting {
            self.hosted.remove_inside(bind, |_, _| {});
        }
        running
    }

    /// Forgets what came from outside for this key and those inside of it.
    pub(super) fn forget_outer(&mut self, outer: &Key) {
        self.outer.retain(|(_, key), _| !key.extends(outer));
    }

    /// Makes the run of a key: with what came for it from outside, and hosted, if the node is.
    pub(super) fn begin(
        &mut self,
        place: Place<'_>,
        epoch: Option<u32>,
        effects: &mut Vec<Effect<P>>,
    ) -> &mut NodeRun<P> {
        let mut run = NodeRun::new(place.spec, &self.keeps);
        if !self.outer.is_empty() {
            for (port, depth) in &self.outer_ports {
                let known = self.outer.get(&(*port, place.key.prefix(*depth)));
                if let Some((known, item)) =
                    known.and_then(|known| Some((known, known.item.clone()?)))
                {
                    run.know(*port, known.epoch, item);
                }
            }
        }
        if let Some(epoch) = epoch {
            run.host(place, epoch, effects);
        }
        self.runs.get_or_insert_with(place.key, || run)
    }

    /// Takes a frame or CLOSED from outside in. What of it is new is to be given to every run inside.
    pub(super) fn take_outer(
        &mut self,
        spec: &NodeSpec,
        port: PortIx,
        key: &Key,
        epoch: u32,
        item: Item<P>,
    ) -> Result<Taking, &'static str> {
        let value_type = &spec.inputs[port.index()].value_type;
        let outer = self
            .outer
            .entry((port, key.clone()))
            .or_insert_with(|| Outer {
                inlet: Inlet::new(false, value_type.optional),
                epoch,
                item: None,
            });
        let taking = outer.inlet.take(epoch, item.clone())?;
        if taking.arrival == Arrival::Taken {
            // Kept once, beside the inlet, for all runs to come.
            outer.inlet.hand_on();
            outer.epoch = epoch;
            outer.item = Some(item);
        }
        Ok(taking)
    }

    /// Frames kept for keys to come, and their bytes.
    pub(super) fn holds_outer(&self) -> (usize, usize) {
        let sizes = self.outer.values().filter_map(|outer| match &outer.item {
            Some(Item::Frame { payload, .. }) => Some(payload.size()),
            _ => None,
        });
        sizes.fold((0, 0), |(frames, bytes), size| (frames + 1, bytes + size))
    }

    /// Facts kept: of what is over, hosted, or came from outside.
    pub(super) fn facts(&self) -> usize {
        self.over.size() + self.over_epochs.len() + self.hosted.len() + self.outer.len()
    }
}
