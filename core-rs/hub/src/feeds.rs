//! What of a job's inputs goes where, looked up once for each flow.

use omniflow_flow::{
    Destination, EdgeId, Graph, Home, Key, NodeId, NodeKind, Origin, PortIx, Reader, ScopeId,
};

/// An edge that leads from an input of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Feed {
    pub(crate) edge: EdgeId,
    /// Which input.
    pub(crate) port: PortIx,
    /// What it brings is for every key of the node: once to each worker is enough (rule 3).
    pub(crate) every: bool,
}

/// An edge that brings a stream of a result from a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paced {
    pub(crate) edge: EdgeId,
    /// Where whoever makes it runs.
    pub(crate) home: NodeId,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    /// By node: what goes to where it is bound, for itself and for the control nodes at its side.
    into: Box<[Vec<Feed>]>,
    /// What the scheduler's own resolver reads.
    own: Vec<Feed>,
    /// Of what goes to nodes that are not bound at once: the scheduler's resolver acts for those (rule 7).
    late: Vec<Feed>,
    /// Whether it has control nodes: only then is anything bound while the job runs.
    pub(crate) dynamic: bool,
    /// By scope, counting the flow itself: how many nodes its values leave by.
    closers: Box<[usize]>,
    /// Results that are streams of workers, and the edges that bring them.
    paced: Box<[(usize, Vec<Paced>)]>,
}

impl Feeds {
    pub(crate) fn new(graph: &Graph) -> Self {
        let mut into = vec![Vec::new(); graph.nodes().len()];
        let (mut own, mut late) = (Vec::new(), Vec::new());
        for port in (0..graph.inputs().len()).map(|port| PortIx(port as u32)) {
            for edge in graph.edges_from(Origin::Input { port }).iter().copied() {
                let feed = |every| Feed { edge, port, every };
                match graph.reader(edge, &Key::ROOT) {
                    Some(Reader::One(node, _)) => {
                        into[node.index()].push(feed(false));
                        if is_gated(graph, node) {
                            late.push(feed(false));
                        }
                    }
                    Some(Reader::Every(node, _)) => {
                        into[node.index()].push(feed(true));
                        late.push(feed(true));
                    }
                    Some(Reader::Scheduler) => own.push(feed(false)),
                    None => {}
                }
            }
        }
        Self {
            into: into.into(),
            own,
            late,
            dynamic: graph.nodes().iter().any(|node| !node.kind.is_role()),
            closers: closers(graph),
            paced: paced(graph),
        }
    }

    /// What goes to where the node is bound.
    pub(crate) fn of_node(&self, node: NodeId) -> &[Feed] {
        self.into.get(node.index()).map_or(&[], Vec::as_slice)
    }

    /// How many nodes have to say that a scope is left before it has ended.
    pub(crate) fn closers(&self, scope: ScopeId) -> usize {
        self.closers.get(scope.index()).copied().unwrap_or_default()
    }

    /// Results that come as far as they are read, by their index.
    pub(crate) fn paced(&self) -> impl Iterator<Item = (usize, &[Paced])> {
        self.paced.iter().map(|(port, edges)| (*port, &edges[..]))
    }

    /// What the scheduler's own resolver takes in when the job begins, and whether that is everything or marks only.
    pub(crate) fn at_the_start(&self) -> impl Iterator<Item = (Feed, bool)> {
        let own = self.own.iter().map(|feed| (*feed, true));
        own.chain(self.late.iter().map(|feed| (*feed, false)))
    }
}

/// As workers see it: what its maker sends beyond what it was told stays there.
fn paced(graph: &Graph) -> Box<[(usize, Vec<Paced>)]> {
    let from_worker = |edge: &EdgeId| {
        let spec = graph.edge(*edge).filter(|edge| edge.value_type.stream)?;
        let Origin::Node { node, .. } = spec.from else {
            return None;
        };
        match graph.home(node) {
            Home::Node(home) if graph.bind_depth(home) == 0 => Some(Paced { edge: *edge, home }),
            Home::Node(_) | Home::Scheduler => None,
        }
    };
    let ports = (0..graph.results().len()).map(|port| {
        let edges = graph.edges_into_result(PortIx(port as u32)).iter();
        (port, edges.filter_map(from_worker).collect::<Vec<_>>())
    });
    ports.filter(|(_, edges)| !edges.is_empty()).collect()
}

fn closers(graph: &Graph) -> Box<[usize]> {
    let mut closers = vec![0; graph.spec().scopes.len() + 1];
    for node in graph.nodes() {
        let makes_only = matches!(node.kind, NodeKind::Each { .. });
        if let Some(scope) = node.kind.inner_scope().filter(|_| !makes_only) {
            closers[scope.index()] += 1;
        }
    }
    closers.into()
}

/// Whether it is bound only when a branch that leads to it is taken.
pub(crate) fn is_gated(graph: &Graph, node: NodeId) -> bool {
    graph
        .node(node)
        .is_some_and(|spec| spec.gates().next().is_some())
}

/// Whether a frame on this edge must wait for the gate of the node that reads it: that is what binds the node then. What a
/// control node at its side reads does not.
pub(crate) fn waits_for_gate(graph: &Graph, edge: EdgeId, home: NodeId) -> bool {
    let Some(Destination::Node { node, .. }) = graph.edge(edge).map(|edge| edge.to) else {
        return false;
    };
    node == home && graph.home(node) == Home::Node(node) && gate_is_near(graph, node)
}

/// Whether all gates are fed from the node's own scope, so that the mark which opens them is for one key alone.
fn gate_is_near(graph: &Graph, node: NodeId) -> bool {
    let Some(spec) = graph.node(node) else {
        return false;
    };
    let near = |port| {
        let edge = graph
            .edge_into(node, port)
            .and_then(|edge| graph.edge(edge));
        match edge.map(|edge| edge.from) {
            Some(Origin::Node { node, port }) => graph
                .node(node)
                .is_some_and(|from| from.output_scope(port) == spec.scope),
            _ => false,
        }
    };
    spec.gates().next().is_some() && spec.gates().all(near)
}
