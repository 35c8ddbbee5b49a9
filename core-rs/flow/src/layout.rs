//! Where things are: which keys frames have, and at whose side control nodes run (rule 7).

use crate::graph::Wiring;
use crate::ids::{EdgeId, NodeId, PortIx, ScopeId};
use crate::key::Key;
use crate::spec::{Destination, GraphSpec, NodeKind, NodeSpec, Origin};

/// At whose side a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// At the scheduler, with the job's inputs and results.
    Scheduler,
    /// Where this role node is bound: itself, if it is one.
    Node(NodeId),
}

/// Who takes what is sent on an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The scheduler's resolver.
    Scheduler,
    /// The place where this role node is bound for this bind key (see `Graph::bind_key`).
    One(NodeId, Key),
    /// All places where this role node is bound for a bind key that extends this one: once to each (rules 3 and 11), and
    /// to those that join before the scope has ended.
    Every(NodeId, Key),
}

/// What follows from the references of a graph.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// By scope, for each index of its keys: whether an `each` makes it.
    each_levels: Vec<Vec<bool>>,
    /// By scope: those that it is inside of, itself first, without the root.
    around: Vec<Vec<ScopeId>>,
    /// By edge: the scope whose keys its frames have.
    edge_scopes: Vec<ScopeId>,
    homes: Vec<Home>,
    /// By role node: the control nodes that run at its side.
    companions: Vec<Vec<NodeId>>,
    /// By role node: whether a control node at its side has others to send to, and must run even when it is closed.
    forwards: Vec<bool>,
    /// By scope: the nodes by which its values leave.
    closers: Vec<Vec<NodeId>>,
}

impl Layout {
    /// Of a flow all of whose references hold.
    pub(crate) fn new(spec: &GraphSpec, wiring: &Wiring) -> Self {
        let mut layout = Self {
            each_levels: vec![Vec::new()],
            around: vec![Vec::new()],
            edge_scopes: spec
                .edges
                .iter()
                .map(|edge| origin_scope(spec, edge.from))
                .collect(),
            companions: vec![Vec::new(); spec.nodes.len()],
            forwards: vec![false; spec.nodes.len()],
            closers: vec![Vec::new(); spec.scopes.len() + 1],
            homes: Vec::new(),
        };
        for (index, scope) in spec.scopes.iter().enumerate() {
            let mut levels = layout.each_levels[scope.parent.index()].clone();
            levels.push(!scope.is_loop);
            layout.each_levels.push(levels);
            let outer = layout.around[scope.parent.index()].iter().copied();
            let around = std::iter::once(ScopeId(index as u32 + 1))
                .chain(outer)
                .collect();
            layout.around.push(around);
        }
        for (index, node) in spec.nodes.iter().enumerate() {
            let id = NodeId(index as u32);
            let home = home(spec, wiring, id, &mut Vec::new()).unwrap_or(Home::Scheduler);
            layout.homes.push(home);
            if let Home::Node(host) = home
                && host != id
            {
                layout.companions[host.index()].push(id);
                let edges = wiring.node_outputs[index].iter().flatten();
                let mut readers = edges.map(|edge| spec.edges[edge.index()].to);
                let other = |to| !matches!(to, Destination::Node { node, .. } if node == host);
                layout.forwards[host.index()] |= !follows(&node.kind) && readers.any(other);
            }
            let closes = !matches!(node.kind, NodeKind::Each { .. });
            if let Some(scope) = node.kind.inner_scope().filter(|_| closes) {
                layout.closers[scope.index()].push(id);
            }
        }
        layout
    }

    pub(crate) fn depth(&self, scope: ScopeId) -> usize {
        self.each_levels[scope.index()].len()
    }

    /// How many indices the keys of a bind have in this scope: rounds do not count.
    pub(crate) fn bind_depth(&self, scope: ScopeId) -> usize {
        let levels = &self.each_levels[scope.index()];
        levels.iter().filter(|each| **each).count()
    }

    pub(crate) fn edge_scope(&self, edge: EdgeId) -> ScopeId {
        self.edge_scopes[edge.index()]
    }

    /// The scope and all around it but the root, innermost first: as many as its keys have indices.
    pub(crate) fn around(&self, scope: ScopeId) -> &[ScopeId] {
        &self.around[scope.index()]
    }

    /// Whether `inner` is that scope or inside of it.
    pub(crate) fn is_inside(&self, inner: ScopeId, outer: ScopeId) -> bool {
        outer == ScopeId::ROOT || self.around(inner).contains(&outer)
    }

    pub(crate) fn home(&self, node: NodeId) -> Home {
        self.homes[node.index()]
    }

    pub(crate) fn companions(&self, node: NodeId) -> &[NodeId] {
        &self.companions[node.index()]
    }

    pub(crate) fn forwards(&self, node: NodeId) -> bool {
        self.forwards[node.index()]
    }

    /// Whether a control node is for its home alone: nobody misses it when that is closed.
    pub(crate) fn serves_home(&self, node: &NodeSpec) -> bool {
        !node.kind.is_role() && !follows(&node.kind)
    }

    pub(crate) fn closers(&self, scope: ScopeId) -> &[NodeId] {
        &self.closers[scope.index()]
    }

    /// The key without its rounds, as far as it reaches into the scope; and whether it names one bind.
    pub(crate) fn bind_key(&self, scope: ScopeId, key: &Key) -> (Key, bool) {
        let levels = &self.each_levels[scope.index()];
        if key.is_root() {
            return (Key::ROOT, levels.iter().all(|each| !each));
        }
        let (reached, rest) = levels.split_at(key.depth().min(levels.len()));
        let whole = rest.iter().all(|each| !each);
        if reached.len() == key.depth() && reached.iter().all(|each| *each) {
            return (key.clone(), whole);
        }
        let kept = key.path().iter().zip(reached).filter(|(_, each)| **each);
        let bind = kept.fold(Key::ROOT, |bind, (index, _)| bind.child(*index));
        (bind, whole)
    }
}

/// Whether it runs where its producer does, and is closed with it; or where its own body does.
fn follows(kind: &NodeKind) -> bool {
    matches!(
        kind,
        NodeKind::Each { .. } | NodeKind::Route { .. } | NodeKind::Loop { .. }
    )
}

fn origin_scope(spec: &GraphSpec, origin: Origin) -> ScopeId {
    match origin {
        Origin::Input { .. } => ScopeId::ROOT,
        Origin::Node { node, port } => spec.nodes[node.index()].output_scope(port),
    }
}

/// `None`: it depends on itself (an `each` of a `zip`), so that another rule must decide.
fn home(spec: &GraphSpec, wiring: &Wiring, node: NodeId, asked: &mut Vec<NodeId>) -> Option<Home> {
    if asked.contains(&node) {
        return None;
    }
    asked.push(node);
    let found = match &spec.nodes[node.index()].kind {
        NodeKind::Role { .. } => Some(Home::Node(node)),
        NodeKind::Each { .. } | NodeKind::Route { .. } => {
            producer_home(spec, wiring, node, 0, asked)
        }
        NodeKind::Loop { scope, .. } => {
            let first = |id: &usize| {
                let node = &spec.nodes[*id];
                node.kind.is_role() && node.scope == *scope
            };
            (0..spec.nodes.len())
                .find(first)
                .map(|id| Home::Node(NodeId(id as u32)))
        }
        NodeKind::Collect { .. }
        | NodeKind::Ordered { .. }
        | NodeKind::Unordered { .. }
        | NodeKind::Zip
        | NodeKind::Merge
        | NodeKind::AnyOf => {
            let own = spec.nodes[node.index()].kind.inner_scope();
            consumer_home(spec, wiring, node, asked)
                .or_else(|| producer_home(spec, wiring, node, usize::from(own.is_some()), asked))
        }
    };
    asked.pop();
    found
}

/// Where the producer of an input port runs.
fn producer_home(
    spec: &GraphSpec,
    wiring: &Wiring,
    node: NodeId,
    port: usize,
    asked: &mut Vec<NodeId>,
) -> Option<Home> {
    let edge = wiring.node_inputs[node.index()].get(port)?.first()?;
    match spec.edges[edge.index()].from {
        Origin::Input { .. } => Some(Home::Scheduler),
        Origin::Node { node, .. } => home(spec, wiring, node, asked),
    }
}

/// Where the first consumer in the order of the function runs, of those that have one run for each of the node's.
fn consumer_home(
    spec: &GraphSpec,
    wiring: &Wiring,
    node: NodeId,
    asked: &mut Vec<NodeId>,
) -> Option<Home> {
    let scope = spec.nodes[node.index()].scope;
    let edges = wiring.node_outputs[node.index()].iter().flatten();
    let mut to_result = false;
    let mut consumers: Vec<(NodeId, PortIx)> = Vec::new();
    for edge in edges {
        match spec.edges[edge.index()].to {
            Destination::Node { node, port } => consumers.push((node, port)),
            Destination::Result { .. } => to_result = true,
        }
    }
    consumers.sort_unstable();
    let alike =
        |(node, port): &(NodeId, PortIx)| spec.nodes[node.index()].input_scope(*port) == scope;
    let found = consumers
        .into_iter()
        .filter(alike)
        .find_map(|(consumer, _)| home(spec, wiring, consumer, asked));
    found.or(to_result.then_some(Home::Scheduler))
}
