//! Whether what leaves one end of an edge fits into the other.

use crate::ids::EdgeId;
use crate::problem::{Problem, ProblemCode};
use crate::spec::{Destination, GraphSpec, Origin};
use crate::value_type::ValueType;

use super::problem;

pub(super) fn check(spec: &GraphSpec, problems: &mut Vec<Problem>) {
    for (index, edge) in spec.edges.iter().enumerate() {
        let id = EdgeId(index as u32);
        let (from, source) = origin(spec, edge.from);
        let (to, target, node) = destination(spec, edge.to);
        let ends = Ends {
            from: &from,
            source,
            to: &to,
            target,
        };
        let found = ends
            .mismatch()
            .or_else(|| ends.label_mismatch(&edge.value_type));
        if let Some(found) = found.map(|found| found.at_edge(id)) {
            problems.push(match node {
                Some(node) => found.at_node(node),
                None => found,
            });
        }
    }
}

struct Ends<'a> {
    from: &'a str,
    source: &'a ValueType,
    to: &'a str,
    target: &'a ValueType,
}

impl Ends<'_> {
    /// `optional` is no part of the fit: CLOSED into a required port closes the node, and a value fits `T | None`.
    fn mismatch(&self) -> Option<Problem> {
        let Self {
            from,
            source,
            to,
            target,
        } = self;
        if source.kind != target.kind {
            let message = format!("{to} takes {target}, but {from} gives {source}");
            return Some(problem(
                ProblemCode::TypeMismatch,
                message,
                format!(
                    "pass a value of type {}, or put a role between them that makes one",
                    target.kind
                ),
            ));
        }
        match (source.stream, target.stream) {
            (true, false) => Some(problem(
                ProblemCode::StreamIntoPlain,
                format!(
                    "{to} takes one {}, but {from} gives a stream of them",
                    target.kind
                ),
                format!(
                    "declare it Stream[{}], or put a role between them that makes one of many",
                    target.kind
                ),
            )),
            (false, true) => Some(problem(
                ProblemCode::PlainIntoStream,
                format!(
                    "{to} takes a stream of {}, but {from} gives only one",
                    target.kind
                ),
                format!(
                    "declare it {}, or put a role between them that yields a stream",
                    target.kind
                ),
            )),
            _ => None,
        }
    }

    fn label_mismatch(&self, label: &ValueType) -> Option<Problem> {
        let Self { from, source, .. } = self;
        (label.kind != source.kind || label.stream != source.stream).then(|| {
            problem(
                ProblemCode::TypeMismatch,
                format!("an edge says that it carries {label}, but {from} gives {source}"),
                "give the edge the type of the output that it leaves",
            )
        })
    }
}

fn origin(spec: &GraphSpec, origin: Origin) -> (String, &ValueType) {
    match origin {
        Origin::Input { port } => {
            let port = &spec.inputs[port.index()];
            (
                format!("the flow's input `{}`", port.name),
                &port.value_type,
            )
        }
        Origin::Node { node, port } => {
            let node = &spec.nodes[node.index()];
            let port = &node.outputs[port.index()];
            (
                format!("output `{}` of {}", port.name, node.name),
                &port.value_type,
            )
        }
    }
}

fn destination(spec: &GraphSpec, destination: Destination) -> (String, &ValueType, Option<usize>) {
    match destination {
        Destination::Result { port } => {
            let port = &spec.results[port.index()];
            (
                format!("the flow's result `{}`", port.name),
                &port.value_type,
                None,
            )
        }
        Destination::Node { node, port } => {
            let index = node.index();
            let node = &spec.nodes[index];
            let port = &node.inputs[port.index()];
            let parameter = if port.parameter.is_empty() {
                &port.name
            } else {
                &port.parameter
            };
            (
                format!("parameter `{parameter}` of {}", node.name),
                &port.value_type,
                Some(index),
            )
        }
    }
}
