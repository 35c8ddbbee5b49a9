//! Who reads from whom, of nodes that are bound. A control node counts as part of the role node at whose side it runs; those
//! at the scheduler keep what they get, and pass it on to whoever reads from them.

use omniflow_flow::{Destination, Graph, NodeId, NodeKind, Origin, PortIx};

use super::{PlannedNode, home, scopes};

/// One node reads what leaves another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The reader.
    pub(crate) node: u32,
    /// The reader has all of it once it is queued: a plain value of its own.
    pub(crate) whole: bool,
    /// A scope that ends where this is read: then the reader has all of it. 0: none.
    pub(crate) closes: u32,
    /// How many indices of their keys are the same.
    pub(crate) common: usize,
    /// The outermost fan-out that the reader is in and the other is not; 0: none, it has one key for each of the other's.
    pub(crate) into: u32,
}

/// Fills in readers, relations and results.
pub(super) fn join(graph: &Graph, nodes: &mut [PlannedNode]) {
    let mut related: Vec<Vec<(u32, usize)>> = vec![Vec::new(); nodes.len()];
    let mut readers: Vec<Vec<Link>> = vec![Vec::new(); nodes.len()];
    for edge in &graph.spec().edges {
        let Origin::Node { node: from, .. } = edge.from else {
            continue;
        };
        let Some(unit) = home(graph, from) else {
            continue;
        };
        let mut ends = Vec::new();
        follow(graph, edge.to, edge.value_type.stream, false, &mut ends);
        let early = from.index() != unit && sends_by_itself(&graph.nodes()[from.index()].kind);
        let leaves = |end: &End| !matches!(end, End::Node(reader, _) if *reader == unit);
        nodes[unit].forwards |= early && ends.iter().any(leaves);
        for end in ends {
            match end {
                End::Result(result) if !nodes[unit].results.contains(&result) => {
                    let results = nodes[unit].results.iter().copied();
                    nodes[unit].results = results.chain([result]).collect();
                }
                End::Node(reader, _) if reader == unit => {}
                End::Node(reader, whole) => {
                    let (common, into) = scopes::relation(graph, unit, reader);
                    let link = Link {
                        node: reader as u32,
                        whole: whole && !nodes[reader].in_loop,
                        closes: closes(graph, edge.to),
                        common,
                        into,
                    };
                    if !readers[unit].contains(&link) {
                        readers[unit].push(link);
                    }
                    for (one, other) in [(unit, reader), (reader, unit)] {
                        if !related[one].contains(&(other as u32, common)) {
                            related[one].push((other as u32, common));
                        }
                    }
                }
                End::Result(_) => {}
            }
        }
    }
    for ((node, readers), related) in nodes.iter_mut().zip(readers).zip(related) {
        node.readers = readers.into();
        node.related = related.into();
    }
}

/// Whether a control node may send before the node at whose side it runs has sent anything.
fn sends_by_itself(kind: &NodeKind) -> bool {
    !matches!(kind, NodeKind::Each { .. } | NodeKind::Route { .. })
}

/// The scope that ends at a node.
fn closes(graph: &Graph, to: Destination) -> u32 {
    let Destination::Node { node, .. } = to else {
        return 0;
    };
    let scope = graph.nodes()[node.index()].kind.inner_scope();
    scope.map_or(0, |scope| scope.0)
}

/// Where something ends up.
enum End {
    Result(u32),
    /// At a role node; whether as a plain value of its own.
    Node(usize, bool),
}

/// Everywhere that an edge leads to, through the control nodes at the scheduler.
fn follow(graph: &Graph, to: Destination, stream: bool, passed_on: bool, ends: &mut Vec<End>) {
    let node = match to {
        Destination::Result { port } => return ends.push(End::Result(port.0)),
        Destination::Node { node, .. } => node,
    };
    if let Some(unit) = home(graph, node) {
        let own = unit == node.index() && !stream && !passed_on;
        return ends.push(End::Node(unit, own));
    }
    // Control nodes at the scheduler form no cycle: a loop runs where its body's first node is bound.
    for port in 0..graph.nodes()[node.index()].outputs.len() {
        for edge in edges_of(graph, node, port) {
            follow(graph, edge.to, edge.value_type.stream, true, ends);
        }
    }
}

fn edges_of(
    graph: &Graph,
    node: NodeId,
    port: usize,
) -> impl Iterator<Item = &omniflow_flow::EdgeSpec> {
    let port = PortIx(port as u32);
    let edges = graph.edges_from(Origin::Node { node, port });
    edges.iter().filter_map(|edge| graph.edge(*edge))
}
