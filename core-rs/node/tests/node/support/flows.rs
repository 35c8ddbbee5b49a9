//! Flows to test with.

use omniflow_wire::v1;

fn port(name: &str, stream: bool) -> v1::Port {
    v1::Port {
        name: name.into(),
        parameter: name.into(),
        r#type: Some(text(stream)),
        ..Default::default()
    }
}

fn text(stream: bool) -> v1::Type {
    v1::Type {
        kind: v1::Kind::Text.into(),
        stream,
        ..Default::default()
    }
}

/// input -> a -> b -> c -> result, where what leaves `a` and `b` is a stream or not.
pub fn chain(stream: bool) -> v1::Flow {
    let node = |name: &str, input: bool, output: bool| v1::Node {
        name: format!("{name}.run"),
        role: name.into(),
        method: "run".into(),
        inputs: vec![port("text", input)],
        outputs: vec![port("text", output)],
        trigger: vec![v1::Alternative { ports: vec![0] }],
        ..Default::default()
    };
    let end = |place: v1::end::Place, node: u32| {
        Some(v1::End {
            place: place.into(),
            node,
            port: 0,
        })
    };
    use v1::end::Place::{Input, Node, Result};
    let edge = |from, to, stream| v1::Edge {
        from,
        to,
        r#type: Some(text(stream)),
    };
    v1::Flow {
        name: "chain".into(),
        inputs: vec![port("text", false)],
        nodes: vec![
            node("a", false, stream),
            node("b", stream, stream),
            node("c", stream, false),
        ],
        edges: vec![
            edge(end(Input, 0), end(Node, 0), false),
            edge(end(Node, 0), end(Node, 1), stream),
            edge(end(Node, 1), end(Node, 2), stream),
            edge(end(Node, 2), end(Result, 0), false),
        ],
        results: vec![port("text", false)],
        ..Default::default()
    }
}
