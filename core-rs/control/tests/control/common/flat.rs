//! Flows without control nodes.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use omniflow_flow::{
    Destination, EdgeSpec, Graph, GraphSpec, NodeId, NodeKind, NodeOptions, NodeSpec, Origin,
    PortIx, PortSpec, ValueKind, ValueType,
};

fn text(stream: bool) -> ValueType {
    ValueType {
        kind: ValueKind::Text,
        stream,
        optional: false,
    }
}

fn port(name: String, stream: bool) -> PortSpec {
    PortSpec {
        parameter: name.clone(),
        name,
        value_type: text(stream),
        gate: false,
    }
}

/// A flow of nodes `n0`, `n1`, … each given by its role, the nodes it reads and whether it yields a stream. A node that
/// reads none reads the flow's one input. What nobody reads is a result.
pub fn flow(name: &str, nodes: &[(&str, &[u32], bool)]) -> Arc<Graph> {
    let mut spec = GraphSpec {
        name: name.to_owned(),
        inputs: vec![port("in".to_owned(), false)],
        ..Default::default()
    };
    for (index, (role, reads, stream)) in nodes.iter().enumerate() {
        let to = |port| Destination::Node {
            node: NodeId(index as u32),
            port: PortIx(port),
        };
        let mut inputs = Vec::new();
        if reads.is_empty() {
            inputs.push(port("p0".to_owned(), false));
            let from = Origin::Input { port: PortIx(0) };
            spec.edges.push(EdgeSpec {
                from,
                to: to(0),
                value_type: text(false),
            });
        }
        for (place, read) in reads.iter().enumerate() {
            let streams = nodes[*read as usize].2;
            inputs.push(port(format!("p{place}"), streams));
            let from = Origin::Node {
                node: NodeId(*read),
                port: PortIx(0),
            };
            spec.edges.push(EdgeSpec {
                from,
                to: to(place as u32),
                value_type: text(streams),
            });
        }
        spec.nodes.push(NodeSpec {
            name: format!("n{index}"),
            kind: NodeKind::Role {
                role: (*role).to_owned(),
                method: "run".to_owned(),
            },
            trigger: vec![(0..inputs.len() as u32).map(PortIx).collect()],
            inputs,
            outputs: vec![port("out".to_owned(), *stream)],
            options: NodeOptions {
                deterministic: true,
                ..NodeOptions::default()
            },
            ..NodeSpec::default()
        });
    }
    for (index, (_, _, stream)) in nodes.iter().enumerate() {
        if nodes
            .iter()
            .any(|(_, reads, _)| reads.contains(&(index as u32)))
        {
            continue;
        }
        let result = PortIx(spec.results.len() as u32);
        spec.results.push(port(format!("r{index}"), *stream));
        let from = Origin::Node {
            node: NodeId(index as u32),
            port: PortIx(0),
        };
        spec.edges.push(EdgeSpec {
            from,
            to: Destination::Result { port: result },
            value_type: text(*stream),
        });
    }
    Arc::new(Graph::new(spec).expect("the test's flow is valid"))
}
