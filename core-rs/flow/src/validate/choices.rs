//! Whether the triggers of nodes can fire, and mean what they say.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::Wiring;
use crate::ids::{EdgeId, NodeId, PortIx};
use crate::problem::{Problem, ProblemCode};
use crate::spec::{GraphSpec, NodeSpec, PortSpec};

use super::conditions::{Conditions, alternatives};
use super::problem;
use super::shapes::ungated;

pub(super) fn check(spec: &GraphSpec, wiring: &Wiring, problems: &mut Vec<Problem>) {
    for (index, node) in spec.nodes.iter().enumerate() {
        let mut report = |found: Problem| problems.push(found.at_node(index));
        check_feeds(node, &wiring.node_inputs[index], &mut report);
        if node.kind.is_role() {
            check_alternatives(node, &mut report);
            check_gates(node, &mut report);
            check_parameters(node, &mut report);
        }
    }
    check_exclusive(spec, wiring, problems);
}

fn check_gates(node: &NodeSpec, report: &mut impl FnMut(Problem)) {
    if let Some(alternative) = ungated(node) {
        report(problem(
            ProblemCode::MissingGate,
            format!(
                "alternative {alternative} of {} does not wait for the branch that the node is in",
                node.name
            ),
            "put its gates into every alternative",
        ));
    }
}

/// Alternatives that wait for two branches of one `Choice`, of which only one is ever taken (rule 6).
fn check_exclusive(spec: &GraphSpec, wiring: &Wiring, problems: &mut Vec<Problem>) {
    let mut possible = Conditions::possible(spec, wiring);
    for (index, node) in spec.nodes.iter().enumerate() {
        let id = NodeId(index as u32);
        for (number, ports) in alternatives(spec, id).iter().enumerate() {
            if !possible.of_ports(id, ports).is_never() {
                continue;
            }
            // What can never come is the fault of who makes it.
            let dead = |port: &PortIx| possible.of_ports(id, &[*port]).is_never();
            if ports.iter().any(dead) {
                continue;
            }
            let message = format!(
                "alternative {number} of {} waits for values of several branches of one route, of which only one is \
                 taken, so it can never fire",
                node.name
            );
            let cure =
                "any_of(...) them, or let what they have in common come from outside the branches";
            problems.push(problem(ProblemCode::ExclusiveJoin, message, cure).at_node(index));
        }
    }
}

fn check_feeds(node: &NodeSpec, feeds: &[Vec<EdgeId>], report: &mut impl FnMut(Problem)) {
    for (port, edges) in node.inputs.iter().zip(feeds) {
        let (name, port) = (&node.name, &port.name);
        match edges.as_slice() {
            [_] => {}
            [] => report(problem(
                ProblemCode::UnfedPort,
                format!("nothing feeds input `{port}` of {name}, so it can never fire"),
                "pass a value of the flow to it",
            )),
            [first, ..] => {
                let found = problem(
                    ProblemCode::FedTwice,
                    format!(
                        "{} edges feed input `{port}` of {name}; each would bring a first frame",
                        edges.len()
                    ),
                    "pass one value, or `any_of(...)`, which makes one port for each",
                );
                report(found.at_edge(*first));
            }
        }
    }
}

fn check_alternatives(node: &NodeSpec, report: &mut impl FnMut(Problem)) {
    let name = &node.name;
    if !node.inputs.is_empty()
        && (node.trigger.is_empty() || node.trigger.iter().any(Vec::is_empty))
    {
        report(problem(
            ProblemCode::EmptyTrigger,
            format!("{name} has inputs, but an alternative that waits for none of them"),
            "list the ports that it waits for",
        ));
        return;
    }
    let used: FxHashSet<PortIx> = node.trigger.iter().flatten().copied().collect();
    for (index, port) in node.inputs.iter().enumerate() {
        if !used.contains(&PortIx(index as u32)) {
            report(problem(
                ProblemCode::UnusedPort,
                format!(
                    "no alternative of {name} waits for its input `{}`, so what comes there is lost",
                    port.name
                ),
                "add the port to an alternative, or drop it",
            ));
        }
    }
    let sets: Vec<FxHashSet<PortIx>> = node
        .trigger
        .iter()
        .map(|ports| ports.iter().copied().collect())
        .collect();
    for (later, set) in sets.iter().enumerate() {
        if let Some(earlier) = sets[..later]
            .iter()
            .position(|earlier| earlier.is_subset(set))
        {
            report(problem(
                ProblemCode::ShadowedAlternative,
                format!(
                    "alternative {later} of {name} can never win: alternative {earlier} is complete before it"
                ),
                "drop it, or declare it before the one that waits for less",
            ));
        }
    }
}

/// What one parameter is fed by: in each alternative by exactly one port.
fn check_parameters(node: &NodeSpec, report: &mut impl FnMut(Problem)) {
    let mut names: Vec<&str> = Vec::new();
    let mut ports_of: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    let read = node
        .inputs
        .iter()
        .enumerate()
        .filter(|(_, port)| !port.gate);
    for (index, port) in read {
        let ports = ports_of.entry(parameter(port)).or_default();
        if ports.is_empty() {
            names.push(parameter(port));
        }
        ports.push(index);
    }
    for name in names {
        let ports = &ports_of[name];
        let optional = ports
            .iter()
            .any(|port| node.inputs[*port].value_type.optional);
        for (alternative, set) in node.trigger.iter().enumerate() {
            let feeding = ports
                .iter()
                .filter(|port| set.contains(&PortIx(**port as u32)))
                .count();
            if feeding > 1 || (feeding == 0 && !optional && !set.is_empty()) {
                report(feeding_problem(node, name, alternative, feeding));
            }
        }
        if ports.len() > 1 && optional {
            report(problem(
                ProblemCode::OptionalChoice,
                format!(
                    "parameter `{name}` of {} is fed by a choice between optional ports: the first of them that stays \
                     empty would win with `None`",
                    node.name
                ),
                "make the ports of the choice required; the node is closed when all of them stay empty",
            ));
        }
    }
}

fn feeding_problem(node: &NodeSpec, parameter: &str, alternative: usize, feeds: usize) -> Problem {
    if feeds == 0 {
        return problem(
            ProblemCode::MissingParameter,
            format!(
                "alternative {alternative} of {} leaves its parameter `{parameter}` without a value",
                node.name
            ),
            "feed every parameter in every alternative, or declare it `| None`",
        );
    }
    problem(
        ProblemCode::ExclusiveJoin,
        format!(
            "alternative {alternative} of {} waits for {feeds} ports of the one parameter `{parameter}`, which exclude \
             each other, so it can never fire",
            node.name
        ),
        "put each of them into an alternative of its own",
    )
}

fn parameter(port: &PortSpec) -> &str {
    if port.parameter.is_empty() {
        &port.name
    } else {
        &port.parameter
    }
}
