//! From `omniflow.v1.Flow` to a graph: the one conversion for all who run flows.

use omniflow_wire::v1;

use crate::graph::Graph;
use crate::ids::{EdgeId, NodeId, PortIx, ScopeId};
use crate::problem::{Problem, ProblemCode};
use crate::spec::{
    Destination, EdgeSpec, GraphSpec, NodeKind, NodeOptions, NodeSpec, Origin, PortSpec, ScopeSpec,
    SourcePlace,
};
use crate::value_type::{ValueKind, ValueType};

/// Converts and validates. The problems are those of `Graph::new`, plus `broken-reference` for what cannot be converted
/// at all (an end without a place, a port without a type).
pub fn graph(flow: &v1::Flow) -> Result<Graph, Vec<Problem>> {
    Graph::new(spec(flow)?)
}

/// Converts without validating.
pub fn spec(flow: &v1::Flow) -> Result<GraphSpec, Vec<Problem>> {
    let mut conversion = Conversion::default();
    let spec = GraphSpec {
        name: flow.name.clone(),
        inputs: conversion.ports("the flow's input", &flow.inputs),
        nodes: conversion.nodes(&flow.nodes),
        edges: conversion.edges(&flow.edges),
        results: conversion.ports("the flow's result", &flow.results),
        scopes: conversion.scopes(&flow.scopes),
    };
    if conversion.problems.is_empty() {
        Ok(spec)
    } else {
        Err(conversion.problems)
    }
}

/// Where the conversion is, and what it could not convert: those parts are left out.
#[derive(Default)]
struct Conversion {
    node: Option<NodeId>,
    edge: Option<EdgeId>,
    problems: Vec<Problem>,
}

impl Conversion {
    fn broken(&mut self, message: String) {
        self.problems.push(Problem {
            code: ProblemCode::BrokenReference,
            message,
            cure: "compile the flow again with the same version of omniflow as the cluster's"
                .into(),
            node: self.node,
            edge: self.edge,
        });
    }

    fn nodes(&mut self, nodes: &[v1::Node]) -> Vec<NodeSpec> {
        let converted = nodes.iter().enumerate().map(|(index, node)| {
            self.node = Some(NodeId(index as u32));
            self.node(node)
        });
        let converted = converted.collect();
        self.node = None;
        converted
    }

    fn scopes(&mut self, scopes: &[v1::Scope]) -> Vec<ScopeSpec> {
        let scope = |scope: &v1::Scope| {
            if scope.kind() == v1::scope::Kind::Unspecified {
                self.broken(format!("scope `{}` is of an unknown kind", scope.name));
            }
            ScopeSpec {
                name: scope.name.clone(),
                parent: ScopeId(scope.parent),
                node: NodeId(scope.node),
                is_loop: scope.kind() == v1::scope::Kind::Loop,
            }
        };
        scopes.iter().map(scope).collect()
    }

    fn node(&mut self, node: &v1::Node) -> NodeSpec {
        let ports =
            |alternative: &v1::Alternative| alternative.ports.iter().copied().map(PortIx).collect();
        NodeSpec {
            name: node.name.clone(),
            scope: ScopeId(node.scope),
            kind: kind(node),
            inputs: self.ports(&format!("{}'s input", node.name), &node.inputs),
            outputs: self.ports(&format!("{}'s output", node.name), &node.outputs),
            trigger: node.trigger.iter().map(ports).collect(),
            options: options(node.options.as_ref()),
            source: node.source.as_ref().map(|source| SourcePlace {
                file: source.file.clone(),
                line: source.line,
                function: source.function.clone(),
            }),
        }
    }

    fn ports(&mut self, what: &str, ports: &[v1::Port]) -> Vec<PortSpec> {
        ports
            .iter()
            .filter_map(|port| self.port(what, port))
            .collect()
    }

    fn port(&mut self, what: &str, port: &v1::Port) -> Option<PortSpec> {
        let value_type =
            self.value_type(&format!("{what} `{}`", port.name), port.r#type.as_ref())?;
        Some(PortSpec {
            name: port.name.clone(),
            value_type,
            parameter: port.parameter.clone(),
            gate: port.gate,
        })
    }

    fn edges(&mut self, edges: &[v1::Edge]) -> Vec<EdgeSpec> {
        let converted = edges.iter().enumerate().filter_map(|(index, edge)| {
            self.edge = Some(EdgeId(index as u32));
            self.edge(index, edge)
        });
        let converted = converted.collect();
        self.edge = None;
        converted
    }

    fn edge(&mut self, index: usize, edge: &v1::Edge) -> Option<EdgeSpec> {
        let from = edge.from.and_then(origin);
        let to = edge.to.and_then(destination);
        for (missing, end) in [(from.is_none(), "begins"), (to.is_none(), "ends")] {
            if missing {
                self.broken(format!("edge {index} does not say where it {end}"));
            }
        }
        let value_type = self.value_type(&format!("edge {index}"), edge.r#type.as_ref())?;
        Some(EdgeSpec {
            from: from?,
            to: to?,
            value_type,
        })
    }

    fn value_type(&mut self, what: &str, value_type: Option<&v1::Type>) -> Option<ValueType> {
        let Some(value_type) = value_type else {
            self.broken(format!("{what} has no type"));
            return None;
        };
        let kind = match value_type.kind() {
            v1::Kind::Text => ValueKind::Text,
            v1::Kind::Image => ValueKind::Image,
            v1::Kind::Audio => ValueKind::Audio,
            v1::Kind::Video => ValueKind::Video,
            v1::Kind::Tensor => ValueKind::Tensor,
            v1::Kind::Boolean => ValueKind::Boolean,
            v1::Kind::Integer => ValueKind::Integer,
            v1::Kind::Real => ValueKind::Real,
            v1::Kind::List => {
                ValueKind::List(Box::new(self.value_type(what, value_type.item.as_deref())?))
            }
            v1::Kind::Record => self.record(what, value_type)?,
            v1::Kind::Unspecified => {
                self.broken(format!("{what} has a type of an unknown kind"));
                return None;
            }
        };
        Some(ValueType {
            kind,
            stream: value_type.stream,
            optional: value_type.optional,
        })
    }

    fn record(&mut self, what: &str, value_type: &v1::Type) -> Option<ValueKind> {
        let field = |field: &v1::Field| {
            let what = format!("field `{}` of {what}", field.name);
            Some((
                field.name.clone(),
                self.value_type(&what, field.r#type.as_ref())?,
            ))
        };
        let fields = value_type.fields.iter().map(field).collect::<Option<_>>()?;
        Some(ValueKind::Record {
            name: value_type.record.clone(),
            fields,
        })
    }
}

fn kind(node: &v1::Node) -> NodeKind {
    use v1::node::Control;
    match &node.control {
        None => NodeKind::Role {
            role: node.role.clone(),
            method: node.method.clone(),
        },
        Some(Control::Each(each)) => NodeKind::Each {
            scope: ScopeId(each.scope),
        },
        Some(Control::Collect(collect)) => NodeKind::Collect {
            scope: ScopeId(collect.scope),
        },
        Some(Control::Ordered(ordered)) => NodeKind::Ordered {
            scope: ScopeId(ordered.scope),
        },
        Some(Control::Unordered(unordered)) => NodeKind::Unordered {
            scope: ScopeId(unordered.scope),
        },
        Some(Control::Zip(_)) => NodeKind::Zip,
        Some(Control::Merge(_)) => NodeKind::Merge,
        Some(Control::AnyOf(_)) => NodeKind::AnyOf,
        Some(Control::Route(route)) => NodeKind::Route {
            branches: route.branches.clone(),
            exclusive: route.exclusive,
        },
        Some(Control::Loop(cycle)) => NodeKind::Loop {
            scope: ScopeId(cycle.scope),
            carried: cycle.carried,
            emitted: cycle.emitted,
            max_rounds: cycle.max_rounds,
        },
    }
}

fn options(options: Option<&v1::NodeOptions>) -> NodeOptions {
    let Some(options) = options else {
        return NodeOptions::default();
    };
    NodeOptions {
        max_attempts: options.max_attempts,
        deterministic: options.deterministic,
        resumable: options.resumable,
        deadline_share: options.deadline_share,
        near: options.near.iter().copied().map(NodeId).collect(),
    }
}

fn origin(end: v1::End) -> Option<Origin> {
    match end.place() {
        v1::end::Place::Input => Some(Origin::Input {
            port: PortIx(end.port),
        }),
        v1::end::Place::Node => Some(Origin::Node {
            node: NodeId(end.node),
            port: PortIx(end.port),
        }),
        v1::end::Place::Result | v1::end::Place::Unspecified => None,
    }
}

fn destination(end: v1::End) -> Option<Destination> {
    match end.place() {
        v1::end::Place::Result => Some(Destination::Result {
            port: PortIx(end.port),
        }),
        v1::end::Place::Node => Some(Destination::Node {
            node: NodeId(end.node),
            port: PortIx(end.port),
        }),
        v1::end::Place::Input | v1::end::Place::Unspecified => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(stream: bool) -> Option<v1::Type> {
        Some(v1::Type {
            kind: v1::Kind::Text as i32,
            stream,
            ..Default::default()
        })
    }

    fn port(name: &str, stream: bool) -> v1::Port {
        v1::Port {
            name: name.into(),
            r#type: text(stream),
            ..Default::default()
        }
    }

    fn end(place: v1::end::Place, port: u32) -> Option<v1::End> {
        Some(v1::End {
            place: place as i32,
            node: 0,
            port,
        })
    }

    fn flow() -> v1::Flow {
        use v1::end::Place;
        v1::Flow {
            name: "shout".into(),
            inputs: vec![port("words", false)],
            nodes: vec![v1::Node {
                name: "voice.shout".into(),
                role: "voice".into(),
                method: "shout".into(),
                inputs: vec![port("words", false)],
                outputs: vec![port("out", true)],
                trigger: vec![v1::Alternative { ports: vec![0] }],
                options: Some(v1::NodeOptions {
                    max_attempts: 2,
                    deterministic: true,
                    ..Default::default()
                }),
                ..Default::default()
            }],
            edges: vec![
                v1::Edge {
                    from: end(Place::Input, 0),
                    to: end(Place::Node, 0),
                    r#type: text(false),
                },
                v1::Edge {
                    from: end(Place::Node, 0),
                    to: end(Place::Result, 0),
                    r#type: text(true),
                },
            ],
            results: vec![port("noise", true)],
            ..Default::default()
        }
    }

    #[test]
    fn a_flow_off_the_wire_becomes_a_graph() {
        let graph = graph(&flow()).unwrap();
        let node = graph.node(NodeId(0)).unwrap();
        assert_eq!(
            node.kind,
            NodeKind::Role {
                role: "voice".into(),
                method: "shout".into()
            }
        );
        let options = &node.options;
        assert_eq!((options.max_attempts, options.deterministic), (2, true));
        assert_eq!(graph.edge_into(NodeId(0), PortIx(0)), Some(EdgeId(0)));
        assert_eq!(graph.edges_into_result(PortIx(0)), [EdgeId(1)]);
    }

    #[test]
    fn what_cannot_be_converted_is_named() {
        let mut flow = flow();
        flow.nodes[0].inputs[0].r#type = None;
        flow.edges[1].to = end(v1::end::Place::Input, 0);
        let problems = graph(&flow).unwrap_err();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(
            problems
                .iter()
                .all(|problem| problem.code == ProblemCode::BrokenReference)
        );
        assert_eq!(problems[0].node, Some(NodeId(0)));
        assert_eq!(problems[1].edge, Some(EdgeId(1)));
        assert!(
            problems[0].message.contains("voice.shout's input `words`"),
            "{}",
            problems[0].message
        );
    }
}
