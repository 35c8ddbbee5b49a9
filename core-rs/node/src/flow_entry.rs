//! A flow as its activations need it: the graph, and names and constants ready to be handed out.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use omniflow_flow::{Destination, PortIx};
use omniflow_flow::{EdgeId, Graph, NodeId, NodeKind, Origin, from_wire};
use omniflow_wire::v1;
use prost::Message;

/// A graph with what the graph itself does not need to know.
#[derive(Debug)]
pub(crate) struct FlowEntry {
    pub(crate) graph: Arc<Graph>,
    nodes: Vec<NodeEntry>,
}

/// What an activation says about its node.
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
                let NodeKind::Role { role, method } = &spec.kind else {
                    return Err(format!(
                        "{}: this worker knows only nodes of roles",
                        spec.name
                    ));
                };
                let constant = |(name, value): (&String, &v1::Value)| {
                    (name.clone(), Bytes::from(value.encode_to_vec()))
                };
                Ok(NodeEntry {
                    name: spec.name.clone(),
                    role: role.clone(),
                    method: method.clone(),
                    constants: node.parameters.iter().map(constant).collect(),
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            graph: Arc::new(graph),
            nodes,
        })
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

    /// The node that an edge comes from; `None` for an input of the flow.
    pub(crate) fn producer(&self, edge: EdgeId) -> Option<NodeId> {
        match self.graph.edge(edge)?.from {
            Origin::Node { node, .. } => Some(node),
            Origin::Input { .. } => None,
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
