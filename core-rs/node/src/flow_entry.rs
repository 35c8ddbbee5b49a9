//! A flow as its activations need it: the graph, and names and constants ready to be handed out.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use omniflow_flow::{
    Destination, EdgeId, Graph, Key, NodeId, NodeKind, Origin, PortIx, ScopeId, from_wire,
};
use omniflow_wire::v1;
use prost::Message;

use crate::wires::Wires;

/// A graph with what the graph itself does not need to know.
#[derive(Debug)]
pub(crate) struct FlowEntry {
    pub(crate) graph: Arc<Graph>,
    pub(crate) wires: Wires,
    nodes: Vec<NodeEntry>,
}

/// What an activation says about its node; of a control node, only the name counts.
#[derive(Debug)]
pub(crate) struct NodeEntry {
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) method: String,
    /// Serialized Values: the flow's constants.
    pub(crate) constants: BTreeMap<String, Bytes>,
}

impl FlowEntry {
    /// Validates the flow; the error says why it can never work.
    pub(crate) fn new(flow: &v1::Flow) -> Result<Self, String> {
        let graph = from_wire::graph(flow).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            format!("flow {}: {}", flow.name, problems.join("; "))
        })?;
        let nodes = graph
            .nodes()
            .iter()
            .zip(&flow.nodes)
            .map(|(spec, node)| {
                let (role, method) = match &spec.kind {
                    NodeKind::Role { role, method } => (role.clone(), method.clone()),
                    _ => Default::default(),
                };
                let constant = |(name, value): (&String, &v1::Value)| {
                    (name.clone(), Bytes::from(value.encode_to_vec()))
                };
                NodeEntry {
                    name: spec.name.clone(),
                    role,
                    method,
                    constants: node.parameters.iter().map(constant).collect(),
                }
            })
            .collect();
        Ok(Self {
            wires: Wires::new(&graph),
            graph: Arc::new(graph),
            nodes,
        })
    }

    /// A graph without the names and constants of its flow.
    #[cfg(test)]
    pub(crate) fn of_graph(graph: Arc<Graph>) -> Self {
        let entry = |spec: &omniflow_flow::NodeSpec| NodeEntry {
            name: spec.name.clone(),
            role: spec.name.clone(),
            method: "run".to_owned(),
            constants: BTreeMap::new(),
        };
        Self {
            wires: Wires::new(&graph),
            nodes: graph.nodes().iter().map(entry).collect(),
            graph,
        }
    }

    pub(crate) fn node(&self, node: NodeId) -> Option<&NodeEntry> {
        self.nodes.get(node.index())
    }

    /// The node's name; for a node that does not exist, its number.
    pub(crate) fn node_name(&self, node: NodeId) -> String {
        self.node(node)
            .map_or_else(|| format!("#{}", node.0), |entry| entry.name.clone())
    }

    /// The index of an output port.
    pub(crate) fn output(&self, node: NodeId, port: &str) -> Option<PortIx> {
        let outputs = &self.graph.node(node)?.outputs;
        let index = outputs.iter().position(|output| output.name == port)?;
        Some(PortIx(index as u32))
    }

    /// The node that an edge leads to; `None` for a result, or for an edge that does not exist.
    pub(crate) fn consumer(&self, edge: EdgeId) -> Option<NodeId> {
        match self.graph.edge(edge)?.to {
            Destination::Node { node, .. } => Some(node),
            Destination::Result { .. } => None,
        }
    }

    /// The key around a scope, without the rounds of loops: what binds around it name.
    pub(crate) fn bind_key_around(&self, scope: ScopeId, key: &Key) -> Key {
        let index = scope.index().wrapping_sub(1);
        match self.graph.spec().scopes.get(index) {
            Some(scope) => self.graph.bind_key(scope.node, key),
            None => key.clone(),
        }
    }

    /// An edge as a user would name it.
    pub(crate) fn edge_name(&self, edge: EdgeId) -> String {
        let Some(spec) = self.graph.edge(edge) else {
            return format!("#{}", edge.0);
        };
        let from = match spec.from {
            Origin::Input { port } => format!("input {}", name_of(self.graph.inputs(), port)),
            Origin::Node { node, port } => self.end_name(node, |n| name_of(&n.outputs, port)),
        };
        let to = match spec.to {
            Destination::Result { port } => {
                format!("result {}", name_of(self.graph.results(), port))
            }
            Destination::Node { node, port } => self.end_name(node, |n| name_of(&n.inputs, port)),
        };
        format!("{from} -> {to}")
    }

    fn end_name(
        &self,
        node: NodeId,
        port: impl FnOnce(&omniflow_flow::NodeSpec) -> String,
    ) -> String {
        self.graph.node(node).map_or_else(
            || format!("#{}", node.0),
            |spec| format!("{}.{}", spec.name, port(spec)),
        )
    }
}

fn name_of(ports: &[omniflow_flow::PortSpec], port: PortIx) -> String {
    ports
        .get(port.index())
        .map_or_else(|| format!("#{}", port.0), |port| port.name.clone())
}
