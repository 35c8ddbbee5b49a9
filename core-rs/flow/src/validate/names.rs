//! Whether every name is there, and there once.

use rustc_hash::FxHashSet;

use crate::problem::{Problem, ProblemCode};
use crate::spec::{GraphSpec, PortSpec};

use super::problem;

pub(super) fn check(spec: &GraphSpec, problems: &mut Vec<Problem>) {
    check_ports("input", &spec.inputs, |found| problems.push(found));
    check_ports("result", &spec.results, |found| problems.push(found));
    let mut seen = FxHashSet::default();
    for (index, node) in spec.nodes.iter().enumerate() {
        if node.name.is_empty() || !seen.insert(node.name.as_str()) {
            problems.push(repeated("node", &node.name).at_node(index));
        }
        let mut at_node = |found: Problem| problems.push(found.at_node(index));
        check_ports(
            &format!("input port of {}", node.name),
            &node.inputs,
            &mut at_node,
        );
        check_ports(
            &format!("output port of {}", node.name),
            &node.outputs,
            &mut at_node,
        );
    }
}

fn check_ports(what: &str, ports: &[PortSpec], mut report: impl FnMut(Problem)) {
    let mut seen = FxHashSet::default();
    for port in ports {
        if port.name.is_empty() || !seen.insert(port.name.as_str()) {
            report(repeated(what, &port.name));
        }
    }
}

fn repeated(what: &str, name: &str) -> Problem {
    let message = match name {
        "" => format!("one {what} has no name"),
        _ => format!("more than one {what} is called `{name}`"),
    };
    problem(
        ProblemCode::DuplicateName,
        message,
        "give each a name of its own",
    )
}
