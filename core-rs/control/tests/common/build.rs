//! Flows by hand.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use omniflow_flow::{
    Destination, EdgeSpec, Graph, GraphSpec, NodeId, NodeKind, NodeSpec, Origin, PortIx, PortSpec,
    ScopeId, ScopeSpec, ValueKind, ValueType,
};

pub fn text() -> ValueType {
    ValueType::plain(ValueKind::Text)
}

pub fn list() -> ValueType {
    ValueType::plain(ValueKind::List(Box::new(text())))
}

pub fn truth() -> ValueType {
    ValueType::plain(ValueKind::Boolean)
}

/// What tells how many keys an `each` made.
pub fn count() -> ValueType {
    ValueType::stream(ValueKind::Boolean)
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
            ..NodeSpec::default()
        });
        node
    }

    /// A control node, its ports given in order; gates last.
    pub fn control(
        &mut self,
        name: &str,
        scope: ScopeId,
        kind: NodeKind,
        inputs: &[(ValueType, Origin)],
        outputs: &[ValueType],
    ) -> NodeId {
        let inputs: Vec<_> = inputs
            .iter()
            .map(|(kind, from)| (name, kind.clone(), *from))
            .collect();
        let all = (0..inputs.len() as u32).collect();
        let node = self.node_with_trigger(name, &inputs, vec![all], outputs);
        let spec = &mut self.spec.nodes[node.index()];
        (spec.scope, spec.kind) = (scope, kind);
        node
    }

    /// One more input of a node, which a branch feeds.
    pub fn gate(&mut self, node: NodeId, branch: Origin) {
        let value_type = self.value_type(branch);
        let spec = &mut self.spec.nodes[node.index()];
        let index = PortIx(spec.inputs.len() as u32);
        spec.inputs.push(PortSpec {
            gate: true,
            ..port(&format!("gate.{}", index.0), "", value_type)
        });
        if spec.trigger.is_empty() {
            spec.trigger.push(Vec::new());
        }
        spec.trigger.iter_mut().for_each(|ports| ports.push(index));
        self.edge(branch, Destination::Node { node, port: index });
    }

    /// A role node inside of a scope.
    pub fn place(&mut self, node: NodeId, scope: ScopeId) {
        self.spec.nodes[node.index()].scope = scope;
    }

    /// A scope that the next node to be made will make.
    pub fn scope(&mut self, name: &str, parent: ScopeId, is_loop: bool) -> ScopeId {
        self.spec.scopes.push(ScopeSpec {
            name: name.into(),
            parent,
            node: NodeId(self.spec.nodes.len() as u32),
            is_loop,
        });
        ScopeId(self.spec.scopes.len() as u32)
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
        gate: false,
    }
}

impl FlowBuilder {
    /// Gives a loop that was made with its starts alone what its body gives back; its gates move behind that.
    pub fn rebuild_loop(
        &mut self,
        node: NodeId,
        next: Origin,
        until: Origin,
        emits: &[Origin],
        kind: NodeKind,
    ) {
        let moved = 2 + emits.len() as u32;
        for edge in &mut self.spec.edges {
            if let Destination::Node { node: to, port } = &mut edge.to
                && *to == node
                && port.0 > 0
            {
                port.0 += moved;
            }
        }
        let types: Vec<ValueType> = emits.iter().map(|emit| self.value_type(*emit)).collect();
        let spec = &mut self.spec.nodes[node.index()];
        let gates = spec.inputs.split_off(1);
        spec.inputs.push(port("next", "", text().or_none()));
        spec.inputs.push(port("until", "", truth()));
        for (index, value_type) in types.iter().enumerate() {
            let name = format!("emit{index}");
            spec.inputs.push(port(&name, "", value_type.clone()));
            let stream = ValueType::stream(value_type.kind.clone());
            spec.outputs.push(port(&name, "", stream));
        }
        for (index, gate) in gates.into_iter().enumerate() {
            let name = format!("gate{index}");
            spec.inputs.push(PortSpec { name, ..gate });
        }
        spec.kind = kind;
        spec.trigger = vec![(0..spec.inputs.len() as u32).map(PortIx).collect()];
        for (port, from) in (1..).zip([next, until].into_iter().chain(emits.iter().copied())) {
            let port = PortIx(port);
            self.edge(from, Destination::Node { node, port });
        }
    }
}
