//! Whether everything lies on a path to a result, without going in circles.

use crate::graph::Wiring;
use crate::ids::{EdgeId, NodeId};
use crate::problem::{Problem, ProblemCode};
use crate::spec::{Destination, GraphSpec, NodeKind, Origin};

use super::conditions::Conditions;
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
        .map(|ports| producers(spec, ports, is_forward).count())
        .collect();
    let ids = || (0..spec.nodes.len()).map(|node| NodeId(node as u32));
    let mut sorted: Vec<NodeId> = ids().filter(|node| waits[node.index()] == 0).collect();
    let mut next = 0;
    while let Some(node) = sorted.get(next).copied() {
        next += 1;
        for consumer in consumers(spec, &wiring.node_outputs[node.index()], is_forward) {
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
            consumers(spec, &wiring.node_outputs[node.index()], is_forward)
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
            "let one of them depend on the flow's inputs only, or make it a `loop`, which has a bound",
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
    let mut conditions = Conditions::sure(spec, wiring);
    for (port, edges) in spec.results.iter().zip(&wiring.results) {
        let certain = conditions.of_any(edges).is_always();
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

fn check_dangling(spec: &GraphSpec, wiring: &Wiring, problems: &mut Vec<Problem>) {
    let mut useful = vec![false; spec.nodes.len()];
    let mut pending: Vec<NodeId> = producers(spec, &wiring.results, |_, _| true).collect();
    while let Some(node) = pending.pop() {
        if !std::mem::replace(&mut useful[node.index()], true) {
            pending.extend(producers(
                spec,
                &wiring.node_inputs[node.index()],
                |_, _| true,
            ));
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

/// Not back to a `loop`, which bounds the cycle.
fn is_forward(spec: &GraphSpec, edge: EdgeId) -> bool {
    let Destination::Node { node, port } = spec.edges[edge.index()].to else {
        return true;
    };
    let node = &spec.nodes[node.index()];
    !matches!(node.kind, NodeKind::Loop { .. }) || node.input_scope(port) == node.scope
}

/// The nodes that feed these ports; one that feeds several comes several times.
fn producers<'a>(
    spec: &'a GraphSpec,
    ports: &'a [Vec<EdgeId>],
    wanted: impl Fn(&GraphSpec, EdgeId) -> bool + 'a,
) -> impl Iterator<Item = NodeId> + 'a {
    ports
        .iter()
        .flatten()
        .filter(move |edge| wanted(spec, **edge))
        .filter_map(|edge| match spec.edges[edge.index()].from {
            Origin::Node { node, .. } => Some(node),
            Origin::Input { .. } => None,
        })
}

/// The nodes that these ports feed; one fed by several comes several times.
fn consumers<'a>(
    spec: &'a GraphSpec,
    ports: &'a [Vec<EdgeId>],
    wanted: impl Fn(&GraphSpec, EdgeId) -> bool + 'a,
) -> impl Iterator<Item = NodeId> + 'a {
    ports
        .iter()
        .flatten()
        .filter(move |edge| wanted(spec, **edge))
        .filter_map(|edge| match spec.edges[edge.index()].to {
            Destination::Node { node, .. } => Some(node),
            Destination::Result { .. } => None,
        })
}
