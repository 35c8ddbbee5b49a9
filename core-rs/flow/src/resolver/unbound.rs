//! At the scheduler: what has come for nodes that are not bound (rule 7). It goes along with the bind, or is dropped when the
//! scheduler closes the node itself.

use std::sync::Arc;

use crate::effect::Effect;
use crate::graph::Graph;
use crate::ids::{NodeId, ScopeId};
use crate::item::Item;
use crate::key::Key;
use crate::layout::Home;
use crate::payload::Payload;
use crate::spec::Destination;

use super::accept::Coming;
use super::node_run::NodeRun;
use super::{Parked, Resolver};

impl<P: Payload> Resolver<P> {
    /// Of something that came to the scheduler for a node that is not bound: the bind that it waits for, and a copy.
    pub(super) fn to_park(
        &self,
        node: NodeId,
        coming: &Coming<'_, P>,
    ) -> Option<((NodeId, Key), Parked<P>)> {
        self.results.as_ref()?;
        let Home::Node(home) = self.graph.home(node) else {
            return None;
        };
        let scope = self.graph.nodes()[node.index()].scope;
        let depth = self.graph.layout().depth(scope);
        let (bind, _) = match coming.key.depth() > depth {
            true => self.bind_at(home, &coming.key.prefix(depth)),
            false => self.bind_at(home, coming.key),
        };
        if self.nodes[home.index()].hosted.get(&bind).is_some() {
            return None;
        }
        let parked = Parked {
            edge: coming.edge,
            key: coming.key.clone(),
            epoch: coming.epoch,
            item: coming.item.clone(),
        };
        Some(((home, bind), parked))
    }

    pub(super) fn park(
        &mut self,
        node: NodeId,
        bind: (NodeId, Key),
        parked: Parked<P>,
        effects: &mut Vec<Effect<P>>,
    ) {
        self.parked.entry(bind.clone()).or_default().push(parked);
        if self.graph.home(node) != Home::Node(node) || !self.is_closed_unbound(&bind) {
            return;
        }
        self.parked.remove(&bind);
        let graph = Arc::clone(&self.graph);
        for companion in graph.companions(node) {
            let spec = &graph.nodes()[companion.index()];
            if !graph.layout().serves_home(spec) {
                continue;
            }
            for run in self.runs_bound_by(*companion, node, &bind.1) {
                self.nodes[companion.index()].runs.remove(&run);
            }
            if let Some(scope) = spec.kind.inner_scope() {
                effects.push(Effect::ScopeLeft {
                    scope,
                    key: bind.1.clone(),
                    by: *companion,
                });
            }
        }
    }

    /// A new attempt of its producer says again what is parked: it goes along under the new epoch, for places that know of
    /// that attempt drop what is of the one before.
    pub(super) fn park_again(&mut self, bind: &(NodeId, Key), again: Parked<P>) {
        let parked = self.parked.get_mut(bind).into_iter().flatten();
        for known in parked.filter(|known| known.epoch < again.epoch && known.says_as(&again)) {
            *known = again.clone();
        }
    }

    /// Whether the scheduler has closed a node that was never bound, and with it all that would have run at its side.
    pub(super) fn is_closed_unbound(&self, (node, key): &(NodeId, Key)) -> bool {
        let runs = &self.nodes[node.index()];
        let over = runs.is_over(key) || runs.runs.get(key).is_some_and(NodeRun::over);
        over && runs.hosted.get(key).is_none() && !self.graph.layout().forwards(*node)
    }

    /// A scope has ended for this key: nobody will be bound any more for what came from inside of it, or for it as a whole.
    pub(super) fn forget_parked(&mut self, graph: &Graph, scope: ScopeId, key: &Key) {
        let inside = |parked: &Parked<P>| {
            let to = graph.edge(parked.edge).map(|edge| edge.to);
            let scope_of = |node: NodeId| graph.nodes()[node.index()].scope;
            matches!(to, Some(Destination::Node { node, .. })
                if graph.layout().is_inside(scope_of(node), scope) && parked.key.extends(key))
        };
        self.parked.retain(|_, parked| {
            parked.retain(|parked| !inside(parked));
            !parked.is_empty()
        });
    }

    /// The node is about to be bound elsewhere: what has come to the scheduler for it (and for the control nodes at its
    /// side) goes along with the bind, and is forgotten here. `key` is the bind's. What came for a scope as a whole stays,
    /// for it is for other keys too; it comes again with each bind. `None`: it is closed by now, and there is nothing to
    /// bind.
    pub fn hand_over(&mut self, node: NodeId, key: &Key) -> Option<Vec<Parked<P>>> {
        self.graph.node(node)?;
        let bind = (node, key.clone());
        if self.is_closed_unbound(&bind) {
            return None;
        }
        let mut parked = Vec::new();
        for depth in 0..key.depth() {
            let outer = self.parked.get(&(node, key.prefix(depth)));
            parked.extend(outer.into_iter().flatten().cloned());
        }
        let own = self.parked.remove(&bind);
        parked.extend(own.into_iter().flatten());
        self.unhost(node, key);
        Some(parked)
    }
}

impl<P> Parked<P> {
    /// Whether both are the same frame, or the same mark.
    fn says_as(&self, other: &Self) -> bool {
        let same = match (&self.item, &other.item) {
            (Item::Frame { seq, .. }, Item::Frame { seq: again, .. }) => seq == again,
            (Item::End { .. }, Item::End { .. }) | (Item::Closed, Item::Closed) => true,
            _ => false,
        };
        same && self.edge == other.edge && self.key == other.key
    }
}
