//! What was seen of a job from outside.

use std::collections::{BTreeMap, BTreeSet};

use omniflow_flow::{Fault, Graph, Key, NodeId, NodeKind, PortIx, ScopeId};

use super::super::Word;
use super::super::role::Carried;

/// What was seen of a job from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Which alternative each activation fired, at its last attempt.
    pub fired: BTreeMap<(NodeId, Key), usize>,
    /// Of these, those whose attempts were lost or have moved: they may fire once more, unless the job ends before.
    pub again: BTreeSet<(NodeId, Key)>,
    /// Runs closed without an activation.
    pub closed: BTreeSet<(NodeId, Key)>,
    /// What left the first output of nodes by which arrival order shows, in order.
    pub sent: BTreeMap<(NodeId, Key), Vec<Word>>,
    pub results: BTreeMap<PortIx, Carried>,
    pub done: usize,
    pub failed: Option<(NodeId, Key, Fault)>,
    /// What was left: scope, key around it, by which node.
    pub left: BTreeSet<(ScopeId, Key, NodeId)>,
}

impl Seen {
    /// An activation fires.
    pub fn fire(&mut self, at: (NodeId, Key), alternative: usize) {
        let before = self.fired.insert(at.clone(), alternative);
        let again = self.again.remove(&at);
        assert!(before.is_none() || again, "{at:?} fired twice");
    }

    /// The attempts at these are no more.
    pub fn lose(&mut self, lost: impl Fn(&(NodeId, Key)) -> bool) {
        let fired = self.fired.keys().filter(|at| lost(at));
        self.again.extend(fired.cloned());
    }

    /// Whether a scope around here has ended: all nodes that it is left by are over.
    pub fn unneeded(&self, graph: &Graph, mut scope: ScopeId, key: &Key) -> bool {
        let spec = graph.spec();
        while scope != ScopeId::ROOT {
            let closes = |node: &omniflow_flow::NodeSpec| {
                node.kind.inner_scope() == Some(scope)
                    && !matches!(node.kind, NodeKind::Each { .. })
            };
            let nodes = (0..).map(NodeId).zip(&spec.nodes);
            let closers: Vec<NodeId> = nodes
                .filter(|(_, node)| closes(node))
                .map(|(node, _)| node)
                .collect();
            let over = |outer: Key| {
                let by = |by: &NodeId| self.left.contains(&(scope, outer.clone(), *by));
                closers.iter().all(by)
            };
            if (0..=key.depth()).any(|depth| over(key.prefix(depth))) {
                return true;
            }
            scope = spec.scopes[scope.index() - 1].parent;
        }
        false
    }
}
