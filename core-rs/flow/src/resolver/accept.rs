//! What arrives: frames and marks for hosted nodes, for nodes to be, and for results.

use std::sync::Arc;

use crate::effect::{Arrival, Effect};
use crate::error::ResolverError;
use crate::ids::{EdgeId, NodeId, PortIx};
use crate::item::Item;
use crate::key::Key;
use crate::layout::Home;
use crate::payload::Payload;
use crate::spec::{Destination, EdgeSpec, Origin};

use super::{Resolver, violation};

/// One arrival, its edge looked up.
pub(super) struct Coming<'a, P> {
    pub(super) edge: EdgeId,
    from: Origin,
    pub(super) key: &'a Key,
    pub(super) epoch: u32,
    pub(super) item: Item<P>,
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
        let (graph, layout) = (&self.graph, self.graph.layout());
        let EdgeSpec { from, to, .. } = graph.edge(edge).ok_or(ResolverError::UnknownEdge(edge))?;
        if key.depth() != layout.depth(layout.edge_scope(edge)) {
            return Err(violation(
                edge,
                key,
                "a key with more or fewer indices than there are scopes",
            ));
        }
        let (from, to) = (*from, *to);
        let coming = Coming {
            edge,
            from,
            key,
            epoch,
            item,
        };
        match to {
            Destination::Node { node, port } => self.accept_at_node(node, port, coming, effects),
            Destination::Result { port } => self.accept_result(port, coming, effects),
        }
    }

    fn accept_at_node(
        &mut self,
        node: NodeId,
        port: PortIx,
        coming: Coming<'_, P>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<Arrival, ResolverError> {
        if self.is_stale(coming.from, coming.key, coming.epoch) {
            return Ok(Arrival::Stale);
        }
        let spec = &self.graph.nodes()[node.index()];
        let (scope, inner) = (spec.scope, spec.input_scope(port) != spec.scope);
        // What leaves a scope is judged by the node that it leaves by: that may have to gather it again.
        let depth = self.graph.layout().depth(scope);
        if self.scopes.any_ended() && self.is_past(node, &coming.key.prefix(depth)) {
            return Ok(Arrival::Unwanted);
        }
        let (edge, key) = (coming.edge, coming.key);
        let parked = self.to_park(node, &coming);
        if let Some((bind, _)) = &parked
            && self
                .graph
                .layout()
                .serves_home(&self.graph.nodes()[node.index()])
            && self.is_closed_unbound(bind)
        {
            return Ok(Arrival::Unwanted);
        }
        let arrival = if inner {
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
        let arrival = arrival.map_err(|what| violation(edge, key, what))?;
        match (parked, arrival) {
            (Some((bind, parked)), Arrival::Parked) => self.park(node, bind, parked, effects),
            (Some((bind, parked)), Arrival::Duplicate) => self.park_again(&bind, parked),
            _ => {}
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
        for run in runs.runs.keys_inside(key) {
            let item = item.clone();
            self.at_run(node, &run, effects, |run, place, effects| {
                run.accept(place, port, epoch, item, effects)
            })
            .transpose()?;
        }
        let hosted = match graph.home(node) {
            Home::Node(home) => {
                let (bind, _) = self.bind_at(home, key);
                self.nodes[home.index()].hosted.has_inside(&bind)
            }
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
