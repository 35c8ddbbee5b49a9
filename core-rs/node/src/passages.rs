//! How streams come to the ports of a role: from which producers, and through which control nodes at its side (rule 10).
//!
//! `merge` and `any_of` pass on whatever comes, `zip_streams` what has come on all of its streams. One that has other
//! readers too, or is fed by the flow's inputs or by what gathers keys, paces nobody: whoever reads there would wait for
//! whoever reads here.

use omniflow_flow::{EdgeId, Graph, Home, NodeId, NodeKind, Origin, PortIx};

/// Streams into one role that are read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    /// The role's.
    pub(crate) node: NodeId,
    /// One for each lane.
    pub(crate) ports: Vec<PortIx>,
    pub(crate) lanes: Vec<Lane>,
    /// Where the lanes are brought into step; each is the input of that number.
    pub(crate) zip: Option<NodeId>,
}

/// What one port reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    /// From producers.
    pub(crate) sources: Vec<EdgeId>,
    /// Whether they are numbered anew on their way.
    pub(crate) merged: bool,
}

impl Passage {
    /// Whether what is read on its port is what was sent, one for one.
    pub(crate) fn is_straight(&self) -> bool {
        self.zip.is_none() && self.lanes.iter().all(|lane| !lane.merged)
    }
}

/// Of all roles.
pub(crate) fn passages(graph: &Graph) -> Vec<Passage> {
    let mut found: Vec<Passage> = Vec::new();
    let roles = (0..).map(NodeId).zip(graph.nodes());
    for (node, spec) in roles.filter(|(_, spec)| spec.kind.is_role()) {
        for port in (0..spec.inputs.len() as u32).map(PortIx) {
            let known = |passage: &Passage| passage.node == node && passage.ports.contains(&port);
            if !found.iter().any(known) {
                found.extend(passage(graph, node, port));
            }
        }
    }
    found
}

fn passage(graph: &Graph, node: NodeId, port: PortIx) -> Option<Passage> {
    let edge = graph.edge_into(node, port)?;
    if !graph.edge(edge)?.value_type.stream {
        return None;
    }
    let zip = maker(graph, edge).filter(|maker| graph.nodes()[maker.index()].kind == NodeKind::Zip);
    let Some(zip) = zip else {
        let lanes = vec![lane(graph, node, edge)?];
        let (ports, zip) = (vec![port], None);
        return Some(Passage {
            node,
            ports,
            lanes,
            zip,
        });
    };
    let is_beside = is_beside(graph, zip, node);
    let inputs = graph.nodes()[zip.index()].outputs.len() as u32;
    let (mut ports, mut lanes) = (Vec::new(), Vec::new());
    for number in (0..inputs).map(PortIx).filter(|_| is_beside) {
        ports.push(only_reader(graph, zip, number, node)?);
        lanes.push(lane(graph, node, graph.edge_into(zip, number)?)?);
    }
    let zip = Some(zip);
    is_beside.then_some(Passage {
        node,
        ports,
        lanes,
        zip,
    })
}

/// Everything that comes by an edge, if all of it comes from roles.
fn lane(graph: &Graph, node: NodeId, edge: EdgeId) -> Option<Lane> {
    let from = maker(graph, edge)?;
    let spec = &graph.nodes()[from.index()];
    if spec.kind.is_role() {
        let sources = vec![edge];
        let merged = false;
        return (spec.scope == graph.nodes()[node.index()].scope)
            .then_some(Lane { sources, merged });
    }
    let merges = matches!(spec.kind, NodeKind::Merge | NodeKind::AnyOf);
    let alone = graph.edges_from(Origin::Node {
        node: from,
        port: PortIx(0),
    }) == [edge];
    if !merges || !alone || !is_beside(graph, from, node) {
        return None;
    }
    let mut sources = Vec::new();
    let ports = (0..).map(PortIx).zip(&spec.inputs);
    for (port, _) in ports.filter(|(_, input)| !input.gate) {
        sources.extend(lane(graph, node, graph.edge_into(from, port)?)?.sources);
    }
    let merged = true;
    Some(Lane { sources, merged })
}

fn maker(graph: &Graph, edge: EdgeId) -> Option<NodeId> {
    match graph.edge(edge)?.from {
        Origin::Node { node, .. } => Some(node),
        Origin::Input { .. } => None,
    }
}

/// Whether a control node runs at the side of the role, once for each of its runs.
fn is_beside(graph: &Graph, control: NodeId, node: NodeId) -> bool {
    let scope = |node: NodeId| graph.nodes()[node.index()].scope;
    graph.home(control) == Home::Node(node) && scope(control) == scope(node)
}

/// The role's port, if nobody else reads what leaves by that of the control node.
fn only_reader(graph: &Graph, from: NodeId, port: PortIx, node: NodeId) -> Option<PortIx> {
    let [edge] = graph.edges_from(Origin::Node { node: from, port }) else {
        return None;
    };
    match graph.edge(*edge)?.to {
        omniflow_flow::Destination::Node { node: reader, port } => (reader == node).then_some(port),
        omniflow_flow::Destination::Result { .. } => None,
    }
}
