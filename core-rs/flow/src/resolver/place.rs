//! Which run of a node it is: what effects must name.

use crate::effect::Effect;
use crate::graph::Graph;
use crate::ids::{EdgeId, NodeId, PortIx, ScopeId};
use crate::key::Key;
use crate::layout::Home;
use crate::spec::{NodeKind, NodeSpec, Origin};

/// See the module.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) graph: &'a Graph,
    pub(super) spec: &'a NodeSpec,
    pub(super) node: NodeId,
    pub(super) key: &'a Key,
    /// At the scheduler, which closes what is not bound (rule 7): under which epoch it does. `None` elsewhere.
    pub(super) acts_under: Option<u32>,
}

impl<'a> Place<'a> {
    pub(super) fn edges_out(&self, port: usize) -> &'a [EdgeId] {
        self.graph.edges_from(Origin::Node {
            node: self.node,
            port: PortIx(port as u32),
        })
    }

    /// Whether an input port is fed from the node's own scope, so that its producer feeds this key alone.
    pub(super) fn fed_from_own_scope(&self, port: usize) -> bool {
        let edge = self.graph.edge_into(self.node, PortIx(port as u32));
        edge.is_some_and(|edge| self.graph.layout().edge_scope(edge) == self.spec.scope)
    }

    /// Whether what leaves an output port has the node's own key.
    pub(super) fn leaves_in_own_scope(&self, port: usize) -> bool {
        self.spec.output_scope(PortIx(port as u32)) == self.spec.scope
    }

    /// The scope whose values leave by this node.
    pub(super) fn closes(&self) -> Option<ScopeId> {
        let makes_only = matches!(self.spec.kind, NodeKind::Each { .. });
        self.spec.kind.inner_scope().filter(|_| !makes_only)
    }

    /// The role node, and the key of its bind, at whose side this one runs. `None`: at the scheduler's, or any of many.
    pub(super) fn bound_at(&self) -> Option<(NodeId, Key)> {
        let Home::Node(home) = self.graph.home(self.node) else {
            return None;
        };
        let scope = self.graph.nodes()[home.index()].scope;
        let (key, whole) = self.graph.layout().bind_key(scope, self.key);
        whole.then_some((home, key))
    }

    /// Tells the producer of an input port that nobody reads on. One outside of the scope feeds other keys too.
    pub(super) fn unwanted<P>(&self, port: usize, effects: &mut Vec<Effect<P>>) {
        let edge = self.graph.edge_into(self.node, PortIx(port as u32));
        if let Some(edge) = edge.filter(|_| self.fed_from_own_scope(port)) {
            effects.push(Effect::Unwanted {
                edge,
                key: self.key.clone(),
            });
        }
    }
}
