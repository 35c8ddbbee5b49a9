//! Flows by hand.

use std::sync::Arc;

use omniflow_flow::{
    Destination, EdgeSpec, Graph, GraphSpec, NodeId, NodeKind, NodeSpec, Origin, PortIx, PortSpec,
    ValueKind, ValueType,
};

pub fn text() -> ValueType {
    ValueType::plain(ValueKind::Text)
}

pub fn texts() -> ValueType {
    ValueType::stream(ValueKind::Text)
}

/// Builds a flow call by call, as the DSL does.
#[derive(Clone, Default)]
pub struct FlowBuilder {
    pub spec: GraphSpec,
}

impl FlowBuilder {
    pub fn new() -> Self {
        Self {
            spec: GraphSpec {
                name: "test".into(),
                ..GraphSpec::default()
            },
        }
    }

    pub fn input(&mut self, name: &str, value_type: ValueType) -> Origin {
        self.spec.inputs.push(port(name, name, value_type));
        Origin::Input {
            port: PortIx(self.spec.inputs.len() as u32 - 1),
        }
    }

    /// A node with one port for each of `inputs`, whose trigger is all of them.
    pub fn node(
        &mut self,
        name: &str,
        inputs: &[(&str, ValueType, Origin)],
        outputs: &[ValueType],
    ) -> NodeId {
        let all = (0..inputs.len() as u32).collect();
        let trigger = if inputs.is_empty() { vec![] } else { vec![all] };
        self.node_with_trigger(name, inputs, trigger, outputs)
    }

    /// Inputs that name one parameter are an `any_of`.
    pub fn node_with_trigger(
        &mut self,
        name: &str,
        inputs: &[(&str, ValueType, Origin)],
        trigger: Vec<Vec<u32>>,
        outputs: &[ValueType],
    ) -> NodeId {
        let node = NodeId(self.spec.nodes.len() as u32);
        let mut ports = Vec::new();
        for (index, (parameter, value_type, origin)) in inputs.iter().enumerate() {
            ports.push(port(
                &format!("{parameter}.{index}"),
                parameter,
                value_type.clone(),
            ));
            self.edge(
                *origin,
                Destination::Node {
                    node,
                    port: PortIx(index as u32),
                },
            );
        }
        let outputs = outputs
            .iter()
            .enumerate()
            .map(|(index, value_type)| port(&format!("out{index}"), "", value_type.clone()));
        self.spec.nodes.push(NodeSpec {
            name: name.into(),
            kind: NodeKind::Role {
                role: name.into(),
                method: "run".into(),
            },
            inputs: ports,
            outputs: outputs.collect(),
            trigger: trigger
                .into_iter()
                .map(|ports| ports.into_iter().map(PortIx).collect())
                .collect(),
            max_attempts: 0,
            deterministic: true,
            source: None,
        });
        node
    }

    pub fn result(&mut self, name: &str, value_type: ValueType, origins: &[Origin]) -> PortIx {
        let result = PortIx(self.spec.results.len() as u32);
        self.spec.results.push(port(name, "", value_type));
        for origin in origins {
            self.edge(*origin, Destination::Result { port: result });
        }
        result
    }

    /// The type of an output that exists already.
    pub fn value_type(&self, origin: Origin) -> ValueType {
        self.known_type(origin)
            .expect("the port is declared before it is asked about")
    }

    fn known_type(&self, origin: Origin) -> Option<ValueType> {
        let port = match origin {
            Origin::Input { port } => self.spec.inputs.get(port.index()),
            Origin::Node { node, port } => {
                self.spec.nodes.get(node.index())?.outputs.get(port.index())
            }
        };
        port.map(|port| port.value_type.clone())
    }

    /// An edge with the type of its origin; from a node that is declared only later, plain text.
    pub fn edge(&mut self, from: Origin, to: Destination) {
        let value_type = self.known_type(from).unwrap_or_else(text);
        self.spec.edges.push(EdgeSpec {
            from,
            to,
            value_type,
        });
    }

    pub fn graph(self) -> Arc<Graph> {
        Arc::new(Graph::new(self.spec).unwrap())
    }
}

pub fn out(node: NodeId, port: u32) -> Origin {
    Origin::Node {
        node,
        port: PortIx(port),
    }
}

fn port(name: &str, parameter: &str, value_type: ValueType) -> PortSpec {
    PortSpec {
        name: name.into(),
        value_type,
        parameter: parameter.into(),
    }
}
