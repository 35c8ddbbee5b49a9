//! The flows that are measured.

use std::sync::Arc;

use omniflow_flow::{
    Destination, EdgeSpec, Graph, GraphSpec, NodeId, NodeKind, NodeSpec, Origin, PortIx, PortSpec,
    ScopeId, ScopeSpec, ValueKind, ValueType,
};

fn port(name: String, value_type: &ValueType) -> PortSpec {
    PortSpec {
        parameter: name.clone(),
        name,
        value_type: value_type.clone(),
        gate: false,
    }
}

/// A flow of nodes with one output each; `inputs[i]` are the nodes that feed node i, none: the flow's one input.
pub fn graph(value_type: ValueType, inputs: &[&[u32]]) -> Arc<Graph> {
    let mut spec = GraphSpec {
        name: "bench".into(),
        ..GraphSpec::default()
    };
    spec.inputs.push(port("in".into(), &value_type));
    let mut connect = |from: Origin, to: Destination| {
        spec.edges.push(EdgeSpec {
            from,
            to,
            value_type: value_type.clone(),
        })
    };
    for (index, feeds) in inputs.iter().enumerate() {
        let node = NodeId(index as u32);
        let feeds: Vec<Origin> = match feeds {
            [] => vec![Origin::Input { port: PortIx(0) }],
            _ => feeds
                .iter()
                .map(|node| Origin::Node {
                    node: NodeId(*node),
                    port: PortIx(0),
                })
                .collect(),
        };
        for (port, from) in feeds.iter().enumerate() {
            connect(
                *from,
                Destination::Node {
                    node,
                    port: PortIx(port as u32),
                },
            );
        }
        spec.nodes.push(NodeSpec {
            name: format!("node{index}"),
            kind: NodeKind::Role {
                role: "role".into(),
                method: "run".into(),
            },
            inputs: (0..feeds.len())
                .map(|index| port(format!("in{index}"), &value_type))
                .collect(),
            outputs: vec![port("out".into(), &value_type)],
            trigger: vec![(0..feeds.len() as u32).map(PortIx).collect()],
            ..NodeSpec::default()
        });
    }
    let last = NodeId(inputs.len() as u32 - 1);
    connect(
        Origin::Node {
            node: last,
            port: PortIx(0),
        },
        Destination::Result { port: PortIx(0) },
    );
    spec.results.push(port("out".into(), &value_type));
    Arc::new(Graph::new(spec).expect("a valid flow"))
}

/// A flow by hand: what each node is, what feeds its inputs, and what leaves its outputs.
#[derive(Default)]
struct Flow(GraphSpec);

impl Flow {
    fn input(&mut self, value_type: &ValueType) -> Origin {
        self.0
            .inputs
            .push(port(format!("in{}", self.0.inputs.len()), value_type));
        Origin::Input {
            port: PortIx(self.0.inputs.len() as u32 - 1),
        }
    }

    fn node(
        &mut self,
        scope: ScopeId,
        kind: NodeKind,
        inputs: &[(&ValueType, Origin)],
        outputs: &[&ValueType],
    ) -> NodeId {
        let node = NodeId(self.0.nodes.len() as u32);
        for (index, (value_type, from)) in inputs.iter().enumerate() {
            self.edge(*from, node, index as u32, value_type);
        }
        let ports = |what: &str, types: Vec<&ValueType>| {
            let types = types.into_iter().enumerate();
            types
                .map(|(index, value_type)| port(format!("{what}{index}"), value_type))
                .collect::<Vec<_>>()
        };
        self.0.nodes.push(NodeSpec {
            name: format!("node{}", node.0),
            scope,
            kind,
            inputs: ports(
                "in",
                inputs.iter().map(|(value_type, _)| *value_type).collect(),
            ),
            outputs: ports("out", outputs.to_vec()),
            trigger: vec![(0..inputs.len() as u32).map(PortIx).collect()],
            ..NodeSpec::default()
        });
        node
    }

    fn edge(&mut self, from: Origin, node: NodeId, port: u32, value_type: &ValueType) {
        self.0.edges.push(EdgeSpec {
            from,
            to: Destination::Node {
                node,
                port: PortIx(port),
            },
            value_type: value_type.clone(),
        });
    }

    fn scope(&mut self, is_loop: bool) -> ScopeId {
        self.0.scopes.push(ScopeSpec {
            name: "scope".into(),
            parent: ScopeId::ROOT,
            node: NodeId(self.0.nodes.len() as u32),
            is_loop,
        });
        ScopeId(1)
    }

    fn graph(mut self, from: Origin, value_type: &ValueType) -> Arc<Graph> {
        self.0.edges.push(EdgeSpec {
            from,
            to: Destination::Result { port: PortIx(0) },
            value_type: value_type.clone(),
        });
        self.0.results.push(port("out".into(), value_type));
        Arc::new(Graph::new(self.0).expect("a valid flow"))
    }
}

fn out(node: NodeId, port: u32) -> Origin {
    Origin::Node {
        node,
        port: PortIx(port),
    }
}

pub fn text() -> ValueType {
    ValueType::plain(ValueKind::Text)
}

/// `collect(role(item) for item in each(stream))`.
pub fn fan_out() -> Arc<Graph> {
    let (texts, list) = (
        ValueType::stream(ValueKind::Text),
        ValueType::plain(ValueKind::List(Box::new(text()))),
    );
    let count = ValueType::stream(ValueKind::Boolean);
    let mut flow = Flow::default();
    let input = flow.input(&texts);
    let scope = flow.scope(false);
    let kind = NodeKind::Each { scope };
    let each = flow.node(ScopeId::ROOT, kind, &[(&texts, input)], &[&text(), &count]);
    let role = flow.node(
        scope,
        NodeKind::default(),
        &[(&text(), out(each, 0))],
        &[&text()],
    );
    let inputs = [(&text(), out(role, 0)), (&count, out(each, 1))];
    let kind = NodeKind::Collect { scope };
    let collect = flow.node(ScopeId::ROOT, kind, &inputs, &[&list]);
    flow.graph(out(collect, 0), &list)
}

/// A loop whose body is two roles: one makes the next state, one says whether it is over.
pub fn cycle(rounds: u32) -> Arc<Graph> {
    let truth = ValueType::plain(ValueKind::Boolean);
    let mut flow = Flow::default();
    let input = flow.input(&text());
    let scope = flow.scope(true);
    let kind = NodeKind::Loop {
        scope,
        carried: 1,
        emitted: 0,
        max_rounds: rounds + 1,
    };
    let (next, until) = (out(NodeId(1), 0), out(NodeId(2), 0));
    let inputs = [(&text(), input), (&text(), next), (&truth, until)];
    let node = flow.node(ScopeId::ROOT, kind, &inputs, &[&text(), &text()]);
    flow.node(
        scope,
        NodeKind::default(),
        &[(&text(), out(node, 0))],
        &[&text()],
    );
    flow.node(
        scope,
        NodeKind::default(),
        &[(&text(), out(NodeId(1), 0))],
        &[&truth],
    );
    flow.graph(out(node, 1), &text())
}

/// One node that 64 read, and one that reads those.
pub fn wide_diamond() -> Arc<Graph> {
    let mut inputs: Vec<Vec<u32>> = vec![vec![]];
    inputs.extend((0..64).map(|_| vec![0]));
    inputs.push((1..65).collect());
    let inputs: Vec<&[u32]> = inputs.iter().map(Vec::as_slice).collect();
    graph(text(), &inputs)
}
