//! Whether everything lies on a path to a result, without going in circles.

use crate::graph::Wiring;
use crate::ids::{EdgeId, NodeId};
use crate::problem::{Problem, ProblemCode};
use crate::spec::{Destination, GraphSpec, Origin};

use super::problem;

/// Nodes in an order in which each comes after those that feed it, and those for which there is none.
pub(super) struct Order {
    pub(super) sorted: Vec<NodeId>,
    /// On a cycle, or fed by one.
    pub(super) stuck: Vec<NodeId>,
}

pub(super) fn order(spec: &GraphSpec, wiring: &Wiring) -> Order {
    let mut waits: Vec<usize> = wiring
        .node_inputs
        .iter()
        .map(|ports| producers(spec, ports).count())
        .collect();
    let ids = || (0..spec.nodes.len()).map(|node| NodeId(node as u32));
    let mut sorted: Vec<NodeId> = ids().filter(|node| waits[node.index()] == 0).collect();
    let mut next = 0;
    while let Some(node) = sorted.get(next).copied() {
        next += 1;
        for consumer in consumers(spec, &wiring.node_outputs[node.index()]) {
            waits[consumer.index()] -= 1;
            if waits[consumer.index()] == 0 {
                sorted.push(consumer);
            }
        }
    }
    Order {
        sorted,
        stuck: ids().filter(|node| waits[node.index()] > 0).collect(),
    }
}

pub(super) fn check(spec: &GraphSpec, wiring: &Wiring, order: &Order, problems: &mut Vec<Problem>) {
    check_cycles(spec, wiring, order, problems);
    check_results(spec, wiring, problems);
    check_optional_results(spec, wiring, order, problems);
    check_dangling(spec, wiring, problems);
}

fn check_cycles(spec: &GraphSpec, wiring: &Wiring, order: &Order, problems: &mut Vec<Problem>) {
    let mut stuck = order.stuck.clone();
    // What a cycle feeds is stuck as well, but not at fault: peel off nodes whose output nobody stuck waits for.
    loop {
        let before = stuck.len();
        let all = stuck.clone();
        stuck.retain(|node| {
            consumers(spec, &wiring.node_outputs[node.index()])
                .any(|consumer| all.contains(&consumer))
        });
        if stuck.len() == before {
            break;
        }
    }
    let Some(first) = stuck.first() else { return };
    let names: Vec<&str> = stuck
        .iter()
        .map(|node| spec.nodes[node.index()].name.as_str())
        .collect();
    let message = format!(
        "{} wait for each other in a cycle, so none of them can ever fire",
        names.join(", ")
    );
    problems.push(
        problem(
            ProblemCode::Cycle,
            message,
            "let one of them depend on the flow's inputs only",
        )
        .at_node(first.index()),
    );
}

fn check_results(spec: &GraphSpec, wiring: &Wiring, problems: &mut Vec<Problem>) {
    if spec.results.is_empty() {
        let message = format!(
            "flow `{}` has no result, so a job of it could never end",
            spec.name
        );
        problems.push(problem(
            ProblemCode::NoResults,
            message,
            "return what it makes",
        ));
    }
    for (port, edges) in spec.results.iter().zip(&wiring.results) {
        if edges.is_empty() {
            let message = format!("no path leads to the result `{}`", port.name);
            problems.push(problem(
                ProblemCode::UnreachableResult,
                message,
                "return the output of a role for it",
            ));
        }
    }
}

/// A result without `| None` needs an edge that can never be CLOSED.
fn check_optional_results(
    spec: &GraphSpec,
    wiring: &Wiring,
    order: &Order,
    problems: &mut Vec<Problem>,
) {
    let mut sure = vec![false; spec.nodes.len()];
    for node in &order.sorted {
        let inputs = &spec.nodes[node.index()].inputs;
        let feeds = &wiring.node_inputs[node.index()];
        let port_sure = |port: usize| {
            // An unfed port is a problem of its own, and no reason to speak of this one.
            inputs[port].value_type.optional
                || feeds[port].is_empty()
                || feeds[port].iter().any(|edge| edge_sure(spec, *edge, &sure))
        };
        let trigger = &spec.nodes[node.index()].trigger;
        sure[node.index()] = trigger.is_empty()
            || trigger
                .iter()
                .any(|ports| ports.iter().all(|port| port_sure(port.index())));
    }
    for (port, edges) in spec.results.iter().zip(&wiring.results) {
        let certain = edges.iter().any(|edge| edge_sure(spec, *edge, &sure));
        if !edges.is_empty() && !port.value_type.optional && !certain && order.stuck.is_empty() {
            let message = format!(
                "the result `{}` may stay empty, because what feeds it depends on something optional, but its type \
                 is {}",
                port.name, port.value_type
            );
            let cure = format!(
                "declare it `{} | None`, or feed it by `any_of(...)` with something that is always there",
                port.value_type
            );
            problems.push(problem(ProblemCode::OptionalResult, message, cure).at_edge(edges[0]));
        }
    }
}

/// Whether an edge always carries something, given which nodes always fire.
fn edge_sure(spec: &GraphSpec, edge: EdgeId, sure: &[bool]) -> bool {
    match spec.edges[edge.index()].from {
        Origin::Input { port } => !spec.inputs[port.index()].value_type.optional,
        Origin::Node { node, port } => {
            sure[node.index()]
                && !spec.nodes[node.index()].outputs[port.index()]
                    .value_type
                    .optional
        }
    }
}

fn check_dangling(spec: &GraphSpec, wiring: &Wiring, problems: &mut Vec<Problem>) {
    let mut useful = vec![false; spec.nodes.len()];
    let mut pending: Vec<NodeId> = producers(spec, &wiring.results).collect();
    while let Some(node) = pending.pop() {
        if !std::mem::replace(&mut useful[node.index()], true) {
            pending.extend(producers(spec, &wiring.node_inputs[node.index()]));
        }
    }
    for (index, node) in spec
        .nodes
        .iter()
        .enumerate()
        .filter(|(index, _)| !useful[*index])
    {
        let message = format!("nothing that {} makes reaches a result", node.name);
        problems.push(
            problem(
                ProblemCode::DanglingNode,
                message,
                "return it, pass it on, or drop the call",
            )
            .at_node(index),
        );
    }
}

/// The nodes that feed these ports; one that feeds several comes several times.
fn producers<'a>(
    spec: &'a GraphSpec,
    ports: &'a [Vec<EdgeId>],
) -> impl Iterator<Item = NodeId> + 'a {
    ports
        .iter()
        .flatten()
        .filter_map(|edge| match spec.edges[edge.index()].from {
            Origin::Node { node, .. } => Some(node),
            Origin::Input { .. } => None,
        })
}

/// The nodes that these ports feed; one fed by several comes several times.
fn consumers<'a>(
    spec: &'a GraphSpec,
    ports: &'a [Vec<EdgeId>],
) -> impl Iterator<Item = NodeId> + 'a {
    ports
        .iter()
        .flatten()
        .filter_map(|edge| match spec.edges[edge.index()].to {
            Destination::Node { node, .. } => Some(node),
            Destination::Result { .. } => None,
        })
}
