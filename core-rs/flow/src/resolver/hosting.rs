//! Which nodes run here, under which epochs.

use std::sync::Arc;

use crate::effect::Effect;
use crate::error::ResolverError;
use crate::graph::Graph;
use crate::ids::{NodeId, PortIx};
use crate::key::Key;
use crate::payload::Payload;
use crate::spec::{Destination, Origin};

use super::Resolver;

impl<P: Payload> Resolver<P> {
    /// The role node runs here for this key from now on (again, if the epoch is higher: then all it had read is to be
    /// given again), and the control nodes at its side with it. `key` is the bind's: see `Graph::bind_key`.
    ///
    /// In a scope that has ended here, a bind under an epoch above 1 runs alone: what is for others is dropped as before.
    /// What came for it before this call may have been dropped, too, so the driver gives it again. What the scheduler says
    /// of scopes (`scope_left`) and of binds comes in the order in which it said so.
    ///
    /// Fails with `UnknownNode`, `NotBound` (a control node, or a key of another depth), `StaleEpoch` (a lower epoch).
    pub fn host(
        &mut self,
        node: NodeId,
        key: &Key,
        epoch: u32,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), ResolverError> {
        let graph = Arc::clone(&self.graph);
        let spec = graph.node(node).ok_or(ResolverError::UnknownNode(node))?;
        if !spec.kind.is_role() || key.depth() != graph.bind_depth(node) {
            return Err(ResolverError::NotBound {
                node,
                key: key.clone(),
                depth: graph.bind_depth(node),
            });
        }
        match self.known_epoch(&graph, node, key) {
            Some(current) if epoch == current => return Ok(()),
            Some(current) if epoch < current => {
                return Err(ResolverError::StaleEpoch {
                    node,
                    key: key.clone(),
                    current,
                    asked: epoch,
                });
            }
            Some(_) => {
                self.forget_runs(&graph, node, key);
                self.scopes.begin_again(&graph, node, key);
            }
            None if epoch > 1 => self.scopes.begin_again(&graph, node, key),
            None => {}
        }
        self.nodes[node.index()].hosted.insert(key, epoch);
        if key.depth() == graph.layout().depth(spec.scope) {
            // One without inputs has nothing to wait for.
            if key.is_root() || self.nodes[node.index()].runs.get(key).is_some() {
                self.host_run(node, key, epoch, effects);
            }
        } else {
            self.host_runs(node, node, key, epoch, effects);
        }
        for companion in graph.companions(node) {
            self.host_runs(*companion, node, key, epoch, effects);
        }
        Ok(())
    }

    fn host_runs(
        &mut self,
        node: NodeId,
        bound: NodeId,
        bind: &Key,
        epoch: u32,
        effects: &mut Vec<Effect<P>>,
    ) {
        for run in self.runs_bound_by(node, bound, bind) {
            self.host_run(node, &run, epoch, effects);
        }
    }

    fn host_run(&mut self, node: NodeId, key: &Key, epoch: u32, effects: &mut Vec<Effect<P>>) {
        self.at_run(node, key, effects, |run, place, effects| {
            run.host(place, epoch, effects);
        });
    }

    /// The node has moved away or is over for this key (of a bind): forgets all about it. Harmless when it was never here.
    pub fn unhost(&mut self, node: NodeId, key: &Key) {
        let graph = Arc::clone(&self.graph);
        if graph.node(node).is_some_and(|spec| spec.kind.is_role()) {
            self.nodes[node.index()].hosted.remove(key);
            self.forget_runs(&graph, node, key);
        }
    }

    /// The epoch under which a node is hosted here for a key (of a bind), `None` when it is not. Inside an `each`, what is
    /// over is no longer hosted.
    pub fn hosted(&self, node: NodeId, key: &Key) -> Option<u32> {
        self.nodes.get(node.index())?.hosted.get(key).copied()
    }

    /// A node that is elsewhere has a new attempt for this key (of a bind): its undelivered frames of earlier epochs, and
    /// those of the control nodes at its side, are dropped from now on. Arrivals of a higher epoch say the same by
    /// themselves.
    pub fn producer_restarted(&mut self, node: NodeId, key: &Key, epoch: u32) {
        let graph = Arc::clone(&self.graph);
        if !graph.node(node).is_some_and(|spec| spec.kind.is_role()) {
            return;
        }
        let known = self.restarts.entry((node, key.clone())).or_default();
        *known = epoch.max(*known);
        self.scopes.forget_left(&graph, node, key);
        for producer in std::iter::once(&node).chain(graph.companions(node)) {
            self.restart_readers(&graph, *producer, node, key, epoch);
        }
    }

    fn restart_readers(
        &mut self,
        graph: &Graph,
        producer: NodeId,
        bound: NodeId,
        bind: &Key,
        epoch: u32,
    ) {
        let spec = &graph.nodes()[producer.index()];
        let depth = graph.layout().depth(spec.scope);
        let ports = (0..spec.outputs.len()).map(|port| Origin::Node {
            node: producer,
            port: PortIx(port as u32),
        });
        for edge in ports.flat_map(|origin| graph.edges_from(origin)) {
            match graph.edge(*edge).map(|spec| spec.to) {
                Some(Destination::Node { node, port }) => {
                    let scope = graph.nodes()[bound.index()].scope;
                    let from_it =
                        |key: &Key| graph.layout().bind_key(scope, &key.prefix(depth)).0 == *bind;
                    let runs = &mut self.nodes[node.index()].runs;
                    for key in runs.keys(from_it) {
                        if let Some(run) = runs.get_mut(&key) {
                            run.producer_restarted(port, epoch);
                        }
                    }
                }
                Some(Destination::Result { port }) => {
                    let results = self.results.as_mut();
                    if let Some(run) = results.and_then(|results| results.get_mut(port.index())) {
                        run.producer_restarted(*edge, epoch);
                    }
                }
                None => {}
            }
        }
    }

    /// The epoch under which a node is hosted, or was until it was over.
    fn known_epoch(&self, graph: &Graph, node: NodeId, key: &Key) -> Option<u32> {
        let runs = &self.nodes[node.index()];
        let scope = graph.nodes()[node.index()].scope;
        let alone = graph.layout().depth(scope) == key.depth();
        let over = || runs.over_epoch(key).filter(|_| alone);
        runs.hosted.get(key).copied().or_else(over)
    }

    /// The runs of a node that are there because of this bind of the role node at whose side it is.
    pub(super) fn runs_bound_by(&self, node: NodeId, bound: NodeId, bind: &Key) -> Vec<Key> {
        let runs = &self.nodes[node.index()].runs;
        let (layout, nodes) = (self.graph.layout(), self.graph.nodes());
        // The key of the one run that there can be, where there are no rounds around it and no keys between the two.
        let depth = layout.depth(nodes[node.index()].scope);
        if depth == bind.depth() && layout.depth(nodes[bound.index()].scope) == depth {
            return runs.get(bind).map(|_| bind.clone()).into_iter().collect();
        }
        runs.keys(|key| self.bind_at(bound, key) == (bind.clone(), true))
    }

    fn forget_runs(&mut self, graph: &Graph, node: NodeId, bind: &Key) {
        let scope = graph.nodes()[node.index()].scope;
        let layout = graph.layout();
        for hosted in std::iter::once(&node).chain(graph.companions(node)) {
            let bound = |key: &Key| layout.bind_key(scope, key) == (bind.clone(), true);
            self.nodes[hosted.index()].forget(bound);
        }
    }
}
