//! What arrives: frames and marks for hosted nodes, for nodes to be, and for results.

use std::sync::Arc;

use crate::effect::{Arrival, Effect};
use crate::error::ResolverError;
use crate::graph::Graph;
use crate::ids::{EdgeId, NodeId, PortIx};
use crate::item::Item;
use crate::key::Key;
use crate::layout::Home;
use crate::payload::Payload;
use crate::spec::{Destination, EdgeSpec, Origin};

use super::{Parked, Resolver, violation};

/// One arrival, its edge looked up.
struct Coming<'a, P> {
    edge: EdgeId,
    spec: &'a EdgeSpec,
    key: &'a Key,
    epoch: u32,
    item: Item<P>,
}

impl<P: Payload> Resolver<P> {
    /// Something arrived on an edge whose destination is (or will be) here. `epoch` is the frame's: of its producer; `key`
    /// too: from an outer scope it is shorter than those of the runs that it is for.
    ///
    /// Fails with `UnknownEdge`, `NoResultsHere`, `Violation`; then nothing has changed.
    pub fn accept(
        &mut self,
        edge: EdgeId,
        key: &Key,
        epoch: u32,
        item: Item<P>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<Arrival, ResolverError> {
        let graph = Arc::clone(&self.graph);
        let spec = graph.edge(edge).ok_or(ResolverError::UnknownEdge(edge))?;
        if key.depth() != graph.layout().depth(graph.layout().edge_scope(edge)) {
            return Err(violation(
                edge,
                key,
                "a key with more or fewer indices than there are scopes",
            ));
        }
        let coming = Coming {
            edge,
            spec,
            key,
            epoch,
            item,
        };
        match spec.to {
            Destination::Node { node, port } => {
                self.accept_at_node(&graph, node, port, coming, effects)
            }
            Destination::Result { port } => self.accept_result(port, coming, effects),
        }
    }

    fn accept_at_node(
        &mut self,
        graph: &Graph,
        node: NodeId,
        port: PortIx,
        coming: Coming<'_, P>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<Arrival, ResolverError> {
        let spec = &graph.nodes()[node.index()];
        let port_scope = spec.input_scope(port);
        if self.is_stale(coming.spec.from, coming.key, coming.epoch) {
            return Ok(Arrival::Stale);
        }
        // What leaves a scope is judged by the node that it leaves by: that may have to gather it again.
        if self.scopes.scope_has_ended(graph, spec.scope, coming.key) {
            return Ok(Arrival::Unwanted);
        }
        let (edge, key) = (coming.edge, coming.key.clone());
        let parked = self.copy_to_park(graph, node, &coming);
        if let Some((bind, _)) = &parked
            && graph.layout().serves_home(spec)
            && self.is_closed_unbound(graph, bind)
        {
            return Ok(Arrival::Unwanted);
        }
        let arrival = if port_scope != spec.scope {
            self.accept_inner(node, port, coming, effects)
        } else if self.nodes[node.index()].is_outer(port) {
            self.accept_outer(node, port, coming, effects)
        } else {
            let Coming {
                key, epoch, item, ..
            } = coming;
            self.at_run(node, key, effects, |run, place, effects| {
                run.accept(place, port, epoch, item, effects)
            })
            .unwrap_or(Ok(Arrival::Unwanted))
        };
        let arrival = arrival.map_err(|what| violation(edge, &key, what))?;
        if let Some((bind, parked)) = parked.filter(|_| arrival == Arrival::Parked) {
            self.park(graph, node, bind, parked, effects);
        }
        Ok(arrival)
    }

    /// From inside a scope that the node closes.
    fn accept_inner(
        &mut self,
        node: NodeId,
        port: PortIx,
        coming: Coming<'_, P>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<Arrival, &'static str> {
        let Some((outer, index)) = coming.key.split_last() else {
            return Err("a key without an index");
        };
        self.at_run(node, &outer, effects, |run, place, effects| {
            run.accept_inner(place, port, index, coming.item, effects)
        })
        .unwrap_or(Ok(Arrival::Unwanted))
    }

    /// From outside of the node's scope: it is for every key that extends its own.
    fn accept_outer(
        &mut self,
        node: NodeId,
        port: PortIx,
        coming: Coming<'_, P>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<Arrival, &'static str> {
        let Coming {
            edge,
            key,
            epoch,
            item,
            ..
        } = coming;
        let graph = Arc::clone(&self.graph);
        let spec = &graph.nodes()[node.index()];
        let runs = &mut self.nodes[node.index()];
        let taking = runs.take_outer(spec, port, key, epoch, item.clone())?;
        if let Some(seq) = taking.contradiction {
            effects.push(Effect::Contradiction {
                edge,
                key: key.clone(),
                seq,
            });
        }
        if taking.arrival != Arrival::Taken {
            return Ok(taking.arrival);
        }
        for run in runs.runs.keys(|run| run.extends(key)) {
            let item = item.clone();
            self.at_run(node, &run, effects, |run, place, effects| {
                run.accept(place, port, epoch, item, effects)
            })
            .transpose()?;
        }
        let (bind, _) = match graph.home(node) {
            Home::Node(home) => self.bind_at(home, key),
            Home::Scheduler => return Ok(Arrival::Taken),
        };
        let hosted = match graph.home(node) {
            Home::Node(home) => self.nodes[home.index()]
                .hosted
                .iter()
                .any(|(key, _)| key.extends(&bind)),
            Home::Scheduler => true,
        };
        Ok(match hosted {
            true => Arrival::Taken,
            false => Arrival::Parked,
        })
    }

    /// Whether a later attempt of its producer is known than the one that sent it.
    fn is_stale(&self, from: Origin, key: &Key, epoch: u32) -> bool {
        let Origin::Node { node, .. } = from else {
            return false;
        };
        if self.restarts.is_empty() {
            return false;
        }
        let Home::Node(home) = self.graph.home(node) else {
            return false;
        };
        let own = self
            .graph
            .layout()
            .depth(self.graph.nodes()[node.index()].scope);
        let (bind, whole) = self.bind_at(home, &key.prefix(own));
        whole
            && self
                .restarts
                .get(&(home, bind))
                .is_some_and(|known| epoch < *known)
    }

    // --- at the scheduler: nodes that are not bound -----------------------------------------------------------------

    /// Of something that came to the scheduler: the bind that it waits for, and a copy.
    fn copy_to_park(
        &self,
        graph: &Graph,
        node: NodeId,
        coming: &Coming<'_, P>,
    ) -> Option<((NodeId, Key), Parked<P>)> {
        self.results.as_ref()?;
        let Home::Node(home) = graph.home(node) else {
            return None;
        };
        let depth = graph.layout().depth(graph.nodes()[node.index()].scope);
        let (bind, _) = self.bind_at(home, &coming.key.prefix(depth));
        let parked = Parked {
            edge: coming.edge,
            key: coming.key.clone(),
            epoch: coming.epoch,
            item: coming.item.clone(),
        };
        Some(((home, bind), parked))
    }

    fn park(
        &mut self,
        graph: &Graph,
        node: NodeId,
        bind: (NodeId, Key),
        parked: Parked<P>,
        effects: &mut Vec<Effect<P>>,
    ) {
        self.parked.entry(bind.clone()).or_default().push(parked);
        if graph.home(node) == Home::Node(node) && self.is_closed_unbound(graph, &bind) {
            self.parked.remove(&bind);
            let companions = graph.companions(node).iter();
            let serving = |node: &&NodeId| graph.layout().serves_home(&graph.nodes()[node.index()]);
            for companion in companions.filter(serving) {
                for run in self.runs_bound_by(*companion, node, &bind.1) {
                    self.nodes[companion.index()].runs.remove(&run);
                }
                if let Some(scope) = graph.nodes()[companion.index()].kind.inner_scope() {
                    effects.push(Effect::ScopeLeft {
                        scope,
                        key: bind.1.clone(),
                        by: *companion,
                    });
                }
            }
        }
    }

    /// Whether the scheduler has closed a node that was never bound, and with it all that would have run at its side.
    fn is_closed_unbound(&self, graph: &Graph, (node, key): &(NodeId, Key)) -> bool {
        let runs = &self.nodes[node.index()];
        let over = runs.is_over(key) || runs.runs.get(key).is_some_and(super::NodeRun::over);
        over && runs.hosted.get(key).is_none() && !graph.layout().forwards(*node)
    }

    /// The node is about to be bound elsewhere: what has come to the scheduler for it (and for the control nodes at its
    /// side) goes along with the bind, and is forgotten here. `key` is the bind's. What came for a scope as a whole stays,
    /// for it is for other keys too; it comes again with each bind. `None`: it is closed by now, and there is nothing to
    /// bind.
    pub fn hand_over(&mut self, node: NodeId, key: &Key) -> Option<Vec<Parked<P>>> {
        let graph = Arc::clone(&self.graph);
        if graph.node(node).is_none() || self.is_closed_unbound(&graph, &(node, key.clone())) {
            return None;
        }
        let mut parked = Vec::new();
        for depth in 0..key.depth() {
            let outer = self.parked.get(&(node, key.prefix(depth)));
            parked.extend(outer.into_iter().flatten().cloned());
        }
        let own = self.parked.remove(&(node, key.clone()));
        parked.extend(own.into_iter().flatten());
        self.unhost(node, key);
        Some(parked)
    }

    // --- results ------------------------------------------------------------------------------------------------------

    fn accept_result(
        &mut self,
        port: PortIx,
        coming: Coming<'_, P>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<Arrival, ResolverError> {
        let Coming {
            edge,
            key,
            epoch,
            item,
            ..
        } = coming;
        let results = self
            .results
            .as_mut()
            .ok_or(ResolverError::NoResultsHere(edge))?;
        let run = results
            .get_mut(port.index())
            .ok_or(ResolverError::UnknownPort(port))?;
        let before = run.over();
        let arrival = run
            .accept(edge, epoch, item, effects)
            .map_err(|what| violation(edge, key, what))?;
        if run.over() && !before {
            self.results_open -= 1;
            if self.results_open == 0 {
                effects.push(Effect::Done);
            }
        }
        Ok(arrival)
    }
}
