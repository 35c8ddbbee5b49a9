//! What a worker must know of a flow's edges, looked up once per flow: which scopes their frames are of, and which edges
//! belong to a node and to the control nodes at its side.

use omniflow_flow::{
    Destination, EdgeId, EdgeSpec, Graph, Home, NodeId, NodeKind, Origin, PortIx, ScopeId,
};

use crate::passages::{Passage, passages};

/// A loop around an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// The loop's scope.
    pub(crate) scope: ScopeId,
    /// Which index of the edge's keys counts its rounds.
    pub(crate) index: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Wires {
    edges: Vec<Wire>,
    passages: Vec<Passage>,
    scopes: Vec<Inside>,
    nodes: Vec<Ends>,
}

/// One edge.
#[derive(Debug)]
struct Wire {
    scope: ScopeId,
    depth: usize,
    rounds: Vec<Round>,
    /// Whether a frame for a reader that is not bound asks for its bind.
    asks: bool,
    producer: Option<NodeId>,
    /// Whether both ends are at the side of one role node.
    internal: bool,
    /// Whether its reader says how much may come.
    paced: bool,
    /// Of what comes through control nodes at its reader's side: which passage, and which lane of it.
    through: Option<(usize, usize)>,
    /// The other edges of the port that it comes from.
    beside: Vec<EdgeId>,
}

/// One scope.
#[derive(Debug, Default)]
struct Inside {
    edges: Vec<EdgeId>,
    nodes: Vec<NodeId>,
    closers: Vec<NodeId>,
    /// Without itself.
    scopes: Vec<ScopeId>,
    is_loop: bool,
}

/// One node; but for its depth, of role nodes only.
#[derive(Debug, Default)]
struct Ends {
    /// How many indices the keys of its runs have.
    depth: usize,
    /// Into it and the control nodes at its side.
    incoming: Vec<EdgeId>,
    /// Those that nobody reads for a key any more once its activation for that key has ended.
    read: Vec<EdgeId>,
    /// Out of it and the control nodes at its side.
    outgoing: Vec<EdgeId>,
    /// Loops at its side.
    loops: Vec<ScopeId>,
}

impl Wires {
    pub(crate) fn new(graph: &Graph) -> Self {
        let spec = graph.spec();
        let around = |scope: ScopeId| around(graph, scope);
        let edges = spec.edges.iter().map(|edge| wire(graph, edge));
        let mut edges: Vec<Wire> = edges.collect();
        let passages = passages(graph);
        for (index, passage) in passages.iter().enumerate() {
            for (number, lane) in passage.lanes.iter().enumerate() {
                for edge in &lane.sources {
                    edges[edge.index()].paced = true;
                    edges[edge.index()].through =
                        (!passage.is_straight()).then_some((index, number));
                }
            }
        }
        let mut scopes: Vec<Inside> = Vec::new();
        scopes.resize_with(spec.scopes.len() + 1, Inside::default);
        for (index, scope) in spec.scopes.iter().enumerate() {
            scopes[index + 1].is_loop = scope.is_loop;
            for outer in around(scope.parent) {
                scopes[outer.index()].scopes.push(ScopeId(index as u32 + 1));
            }
        }
        for (index, edge) in spec.edges.iter().enumerate() {
            for scope in around(edge_scope(graph, edge)) {
                scopes[scope.index()].edges.push(EdgeId(index as u32));
            }
        }
        for (index, node) in spec.nodes.iter().enumerate() {
            let id = NodeId(index as u32);
            for scope in around(node.scope) {
                scopes[scope.index()].nodes.push(id);
            }
            let closed = node.kind.inner_scope();
            if let Some(scope) = closed.filter(|_| !matches!(node.kind, NodeKind::Each { .. })) {
                scopes[scope.index()].closers.push(id);
            }
        }
        let nodes = (0..spec.nodes.len()).map(|node| ends(graph, NodeId(node as u32)));
        Self {
            edges,
            passages,
            scopes,
            nodes: nodes.collect(),
        }
    }

    /// The scope that the frames of an edge are of.
    pub(crate) fn scope(&self, edge: EdgeId) -> ScopeId {
        let wire = self.edges.get(edge.index());
        wire.map_or(ScopeId::ROOT, |wire| wire.scope)
    }

    /// How many indices the keys of a node's runs have.
    pub(crate) fn node_depth(&self, node: NodeId) -> usize {
        self.nodes.get(node.index()).map_or(0, |ends| ends.depth)
    }

    /// How many indices the keys of an edge have.
    pub(crate) fn depth(&self, edge: EdgeId) -> usize {
        self.edges.get(edge.index()).map_or(0, |wire| wire.depth)
    }

    /// The loops around an edge, outermost first.
    pub(crate) fn rounds(&self, edge: EdgeId) -> &[Round] {
        let wire = self.edges.get(edge.index());
        wire.map_or(&[], |wire| &wire.rounds)
    }

    /// Whether a frame on it, for a reader that is not bound, asks for the bind. A node behind gates waits for those.
    pub(crate) fn asks(&self, edge: EdgeId) -> bool {
        self.edges.get(edge.index()).is_some_and(|wire| wire.asks)
    }

    /// Whether both of its ends are at the side of one role node: they run at one place, and begin again together.
    pub(crate) fn is_internal(&self, edge: EdgeId) -> bool {
        let wire = self.edges.get(edge.index());
        wire.is_some_and(|wire| wire.internal)
    }

    /// Whether its reader says how much may come: a stream from one role to another of the same scope, also through a
    /// merge or a zip, or a result.
    pub(crate) fn is_paced(&self, edge: EdgeId) -> bool {
        let wire = self.edges.get(edge.index());
        wire.is_some_and(|wire| wire.paced)
    }

    /// By which a port of a role is fed, if whoever feeds it can be told how much may come.
    pub(crate) fn passage(&self, node: NodeId, port: PortIx) -> Option<&Passage> {
        let mut passages = self.passages.iter();
        passages.find(|passage| passage.node == node && passage.ports.contains(&port))
    }

    /// How what an edge brings comes through control nodes at its reader's side; none: it does not.
    pub(crate) fn passes_through(&self, edge: EdgeId) -> Option<(&Passage, usize)> {
        let (index, number) = self.edges.get(edge.index())?.through?;
        Some((&self.passages[index], number))
    }

    /// The other edges that bring what it brings.
    pub(crate) fn beside(&self, edge: EdgeId) -> &[EdgeId] {
        let wire = self.edges.get(edge.index());
        wire.map_or(&[], |wire| &wire.beside)
    }

    /// The node that sends on it; `None`: it is an input of the flow.
    pub(crate) fn producer(&self, edge: EdgeId) -> Option<NodeId> {
        self.edges.get(edge.index())?.producer
    }

    /// Edges whose frames are of this scope, or of one inside of it.
    pub(crate) fn edges_inside(&self, scope: ScopeId) -> &[EdgeId] {
        let inside = self.scopes.get(scope.index());
        inside.map_or(&[], |inside| &inside.edges)
    }

    /// Nodes of this scope, or of one inside of it.
    pub(crate) fn nodes_inside(&self, scope: ScopeId) -> &[NodeId] {
        let inside = self.scopes.get(scope.index());
        inside.map_or(&[], |inside| &inside.nodes)
    }

    /// Scopes inside of this one.
    pub(crate) fn scopes_inside(&self, scope: ScopeId) -> &[ScopeId] {
        let inside = self.scopes.get(scope.index());
        inside.map_or(&[], |inside| &inside.scopes)
    }

    /// The nodes by which values leave a scope.
    pub(crate) fn closers(&self, scope: ScopeId) -> &[NodeId] {
        let inside = self.scopes.get(scope.index());
        inside.map_or(&[], |inside| &inside.closers)
    }

    pub(crate) fn is_loop(&self, scope: ScopeId) -> bool {
        self.scopes
            .get(scope.index())
            .is_some_and(|inside| inside.is_loop)
    }

    /// Edges into a role node and the control nodes at its side.
    pub(crate) fn incoming(&self, node: NodeId) -> &[EdgeId] {
        self.nodes
            .get(node.index())
            .map_or(&[], |ends| &ends.incoming)
    }

    /// Edges on which nothing is read any more for a key once the node's activation for that key has ended.
    pub(crate) fn read(&self, node: NodeId) -> &[EdgeId] {
        self.nodes.get(node.index()).map_or(&[], |ends| &ends.read)
    }

    /// Edges out of a role node and the control nodes at its side.
    pub(crate) fn outgoing(&self, node: NodeId) -> &[EdgeId] {
        self.nodes
            .get(node.index())
            .map_or(&[], |ends| &ends.outgoing)
    }

    /// Scopes of the loops at a role node's side.
    pub(crate) fn loops(&self, node: NodeId) -> &[ScopeId] {
        self.nodes.get(node.index()).map_or(&[], |ends| &ends.loops)
    }
}

/// The scopes that a scope is inside of, itself too, outermost first; without the flow's own.
fn around(graph: &Graph, mut scope: ScopeId) -> Vec<ScopeId> {
    let mut found = Vec::new();
    while scope != ScopeId::ROOT {
        found.push(scope);
        scope = graph.spec().scopes[scope.index() - 1].parent;
    }
    found.reverse();
    found
}

fn edge_scope(graph: &Graph, edge: &EdgeSpec) -> ScopeId {
    match edge.from {
        Origin::Input { .. } => ScopeId::ROOT,
        Origin::Node { node, port } => graph.nodes()[node.index()].output_scope(port),
    }
}

fn wire(graph: &Graph, edge: &EdgeSpec) -> Wire {
    let scopes = around(graph, edge_scope(graph, edge));
    let is_loop = |scope: &ScopeId| graph.spec().scopes[scope.index() - 1].is_loop;
    let rounds = scopes
        .iter()
        .enumerate()
        .filter(|(_, scope)| is_loop(scope));
    Wire {
        scope: edge_scope(graph, edge),
        depth: scopes.len(),
        rounds: rounds
            .map(|(index, scope)| Round {
                scope: *scope,
                index,
            })
            .collect(),
        asks: !waits_for_gates(graph, edge),
        producer: match edge.from {
            Origin::Input { .. } => None,
            Origin::Node { node, .. } => Some(node),
        },
        internal: match (edge.from, edge.to) {
            (Origin::Node { node, .. }, Destination::Node { node: reader, .. }) => {
                let home = graph.home(node);
                home != Home::Scheduler && home == graph.home(reader)
            }
            _ => false,
        },
        paced: is_paced(graph, edge),
        through: None,
        beside: beside(graph, edge),
    }
}

fn beside(graph: &Graph, edge: &EdgeSpec) -> Vec<EdgeId> {
    let of_port = graph.edges_from(edge.from).iter();
    let others = of_port.filter(|other| graph.edge(**other).is_some_and(|spec| spec.to != edge.to));
    others.copied().collect()
}

fn is_paced(graph: &Graph, edge: &EdgeSpec) -> bool {
    let Origin::Node { node, .. } = edge.from else {
        return false;
    };
    let is_read = match edge.to {
        // See `passages`.
        Destination::Node { .. } => false,
        // Of what the scheduler makes itself, no worker waits for room.
        Destination::Result { .. } => match graph.home(node) {
            Home::Node(home) => graph.bind_depth(home) == 0,
            Home::Scheduler => false,
        },
    };
    edge.value_type.stream && is_read
}

/// Whether an edge leads to a role node that is bound when its branch is taken.
fn waits_for_gates(graph: &Graph, edge: &EdgeSpec) -> bool {
    let Destination::Node { node, .. } = edge.to else {
        return false;
    };
    let spec = &graph.nodes()[node.index()];
    let in_own_scope = |port: PortIx| {
        let edge = graph
            .edge_into(node, port)
            .and_then(|edge| graph.edge(edge));
        edge.is_some_and(|edge| edge_scope(graph, edge) == spec.scope)
    };
    spec.kind.is_role() && spec.gates().next().is_some() && spec.gates().all(in_own_scope)
}

fn ends(graph: &Graph, node: NodeId) -> Ends {
    let scope = graph.nodes()[node.index()].scope;
    let mut ends = Ends {
        depth: around(graph, scope).len(),
        ..Ends::default()
    };
    if graph.home(node) != Home::Node(node) {
        return ends;
    }
    for beside in std::iter::once(&node).chain(graph.companions(node)) {
        let spec = &graph.nodes()[beside.index()];
        for port in 0..spec.inputs.len() {
            let Some(edge) = graph.edge_into(*beside, PortIx(port as u32)) else {
                continue;
            };
            ends.incoming.push(edge);
            let of_own_key = graph
                .edge(edge)
                .is_some_and(|spec| edge_scope(graph, spec) == scope);
            if of_own_key && spec.scope == scope && serves(graph, *beside, node) {
                ends.read.push(edge);
            }
        }
        for port in 0..spec.outputs.len() {
            let port = PortIx(port as u32);
            ends.outgoing.extend(graph.edges_from(Origin::Node {
                node: *beside,
                port,
            }));
        }
        if let NodeKind::Loop { scope, .. } = spec.kind {
            ends.loops.push(scope);
        }
    }
    ends
}

/// Whether a node at a role node's side has done its work for a key when the role node has: all that it gives goes there.
fn serves(graph: &Graph, node: NodeId, home: NodeId) -> bool {
    if node == home {
        return true;
    }
    let spec = &graph.nodes()[node.index()];
    let follows = matches!(
        spec.kind,
        NodeKind::Each { .. } | NodeKind::Route { .. } | NodeKind::Loop { .. }
    );
    let ports = (0..spec.outputs.len() as u32).map(PortIx);
    let mut readers = ports.flat_map(|port| graph.edges_from(Origin::Node { node, port }));
    !follows
        && readers.all(|edge| match graph.edge(*edge).map(|edge| edge.to) {
            Some(Destination::Node { node: reader, .. }) => serves(graph, reader, home),
            _ => false,
        })
}
