//! Whether it depends on who comes first what a node reads: then no two attempts need be alike (rule 8).

use std::collections::{BTreeMap, BTreeSet};

use omniflow_flow::{EdgeId, Graph, NodeId, NodeKind, Origin, PortIx};

/// An output of a route that opens exactly one.
type Branch = (NodeId, PortIx);

/// Whether the order of arrival decides what the node, or a control node at its side, reads.
pub(super) fn is_a_race(graph: &Graph, node: NodeId) -> bool {
    let beside = graph.companions(node).iter().copied();
    std::iter::once(node).chain(beside).any(|node| {
        let spec = &graph.nodes()[node.index()];
        match spec.kind {
            NodeKind::Merge => spec.inputs.len() > 1,
            NodeKind::Unordered { .. } => true,
            NodeKind::Role { .. } | NodeKind::AnyOf => !all_exclude_each_other(graph, node),
            _ => false,
        }
    })
}

/// Whether no two of its alternatives can both come: they stand in different branches of a choice.
fn all_exclude_each_other(graph: &Graph, node: NodeId) -> bool {
    let alternatives = alternatives(graph, node);
    if alternatives.len() < 2 {
        return true;
    }
    let mut needs = Needs {
        graph,
        known: BTreeMap::new(),
    };
    let branches: Vec<BTreeSet<Branch>> = alternatives
        .iter()
        .map(|ports| needs.of_ports(node, ports))
        .collect();
    let exclude = |one: &BTreeSet<Branch>, other: &BTreeSet<Branch>| {
        let against =
            |branch: &Branch| (other.iter()).any(|with| with.0 == branch.0 && with.1 != branch.1);
        one.iter().any(against)
    };
    let later = |index: usize| &branches[index + 1..];
    (branches.iter().enumerate())
        .all(|(index, one)| later(index).iter().all(|other| exclude(one, other)))
}

fn alternatives(graph: &Graph, node: NodeId) -> Vec<Vec<PortIx>> {
    let spec = &graph.nodes()[node.index()];
    let own = (0..spec.inputs.len() as u32)
        .map(PortIx)
        .filter(|port| spec.input_scope(*port) == spec.scope);
    match spec.kind {
        NodeKind::Role { .. } => spec.trigger.clone(),
        NodeKind::Merge | NodeKind::AnyOf => own
            .filter(|port| !spec.inputs[port.index()].gate)
            .map(|port| std::iter::once(port).chain(spec.gates()).collect())
            .collect(),
        _ => vec![own.collect()],
    }
}

/// Branches without which something does not come.
struct Needs<'a> {
    graph: &'a Graph,
    /// By node; none while it is being looked at, which only a cycle asks for again.
    known: BTreeMap<NodeId, Option<BTreeSet<Branch>>>,
}

impl Needs<'_> {
    /// To fill all of these ports.
    fn of_ports(&mut self, node: NodeId, ports: &[PortIx]) -> BTreeSet<Branch> {
        let inputs = &self.graph.nodes()[node.index()].inputs;
        let mut all = BTreeSet::new();
        for port in ports {
            let required = |port: &PortIx| {
                let input = inputs.get(port.index());
                input.is_some_and(|input| !input.value_type.optional)
            };
            let edge = self.graph.edge_into(node, *port);
            if let Some(edge) = edge.filter(|_| required(port)) {
                all.append(&mut self.of_edge(edge));
            }
        }
        all
    }

    fn of_edge(&mut self, edge: EdgeId) -> BTreeSet<Branch> {
        let Some(Origin::Node { node, port }) = self.graph.edge(edge).map(|edge| edge.from) else {
            return BTreeSet::new();
        };
        let mut all = self.of_node(node);
        let route = &self.graph.nodes()[node.index()].kind;
        if matches!(
            route,
            NodeKind::Route {
                exclusive: true,
                ..
            }
        ) {
            all.insert((node, port));
        }
        all
    }

    /// To run it at all: what its alternatives have in common.
    fn of_node(&mut self, node: NodeId) -> BTreeSet<Branch> {
        if let Some(known) = self.known.get(&node) {
            return known.clone().unwrap_or_default();
        }
        self.known.insert(node, None);
        let mut common: Option<BTreeSet<Branch>> = None;
        for ports in alternatives(self.graph, node) {
            let one = self.of_ports(node, &ports);
            common = Some(match common {
                None => one,
                Some(common) => common.intersection(&one).copied().collect(),
            });
        }
        let common = common.unwrap_or_default();
        self.known.insert(node, Some(common.clone()));
        common
    }
}
