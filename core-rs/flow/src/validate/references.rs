//! Whether every index names something.

use crate::ids::{EdgeId, PortIx};
use crate::problem::{Problem, ProblemCode};
use crate::spec::{Destination, EdgeSpec, GraphSpec, Origin};

use super::problem;

const CURE: &str = "compile the flow again with the same version of omniflow as the cluster's";

pub(super) fn check(spec: &GraphSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, edge) in spec.edges.iter().enumerate() {
        check_edge(spec, EdgeId(index as u32), edge, &mut problems);
    }
    for (index, node) in spec.nodes.iter().enumerate() {
        let unknown = node
            .trigger
            .iter()
            .flatten()
            .find(|port| port.index() >= node.inputs.len());
        if let Some(PortIx(port)) = unknown {
            let message = format!(
                "the trigger of {} names input port {port}, but it has only {}",
                node.name,
                node.inputs.len()
            );
            problems.push(problem(ProblemCode::BrokenReference, message, CURE).at_node(index));
        }
    }
    problems
}

fn check_edge(spec: &GraphSpec, id: EdgeId, edge: &EdgeSpec, problems: &mut Vec<Problem>) {
    let from = match edge.from {
        Origin::Input { port } => (port.index() < spec.inputs.len()).then_some(()),
        Origin::Node { node, port } => spec
            .nodes
            .get(node.index())
            .and_then(|node| node.outputs.get(port.index()))
            .map(|_| ()),
    };
    let to = match edge.to {
        Destination::Result { port } => (port.index() < spec.results.len()).then_some(()),
        Destination::Node { node, port } => spec
            .nodes
            .get(node.index())
            .and_then(|node| node.inputs.get(port.index()))
            .map(|_| ()),
    };
    for (end, what) in [(from, "begins"), (to, "ends")] {
        if end.is_none() {
            let message = format!("edge {} {what} at a port that does not exist", id.0);
            problems.push(problem(ProblemCode::BrokenReference, message, CURE).at_edge(id));
        }
    }
}
