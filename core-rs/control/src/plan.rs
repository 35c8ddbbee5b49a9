//! What the job table needs to know of a flow, looked up once per flow instead of once per job.

use std::sync::Arc;

use omniflow_flow::{Destination, Graph, NodeId, NodeKind, Origin};
use omniflow_placement::RoleId;

use crate::fleet::Fleet;

/// A flow as the job table sees it; all lists are by node index.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) graph: Arc<Graph>,
    pub(crate) nodes: Box<[PlannedNode]>,
    pub(crate) results: usize,
}

#[derive(Debug)]
pub(crate) struct PlannedNode {
    pub(crate) role: RoleId,
    /// Nodes that read its outputs.
    pub(crate) consumers: Box<[Consumer]>,
    /// Results that its outputs feed.
    pub(crate) results: Box<[u32]>,
    /// A new attempt sends what an earlier one sent.
    pub(crate) deterministic: bool,
    /// 0: the cluster's default.
    pub(crate) max_attempts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Consumer {
    pub(crate) node: NodeId,
    pub(crate) stream: bool,
}

impl Plan {
    pub(crate) fn new(graph: Arc<Graph>, fleet: &mut Fleet) -> Self {
        let nodes = graph.nodes().iter().enumerate().map(|(index, node)| {
            let role = match &node.kind {
                NodeKind::Role { role, .. } => fleet.role(role),
                // A kind of a later version runs nowhere: its jobs are refused as UNKNOWN_ROLE.
                _ => fleet.role(&node.name),
            };
            let (consumers, results) = readers(&graph, NodeId(index as u32));
            PlannedNode {
                role,
                consumers: consumers.into(),
                results: results.into(),
                deterministic: node.options.deterministic,
                max_attempts: node.options.max_attempts,
            }
        });
        let nodes = nodes.collect();
        let results = graph.results().len();
        Self {
            graph,
            nodes,
            results,
        }
    }

    pub(crate) fn name(&self, node: usize) -> &str {
        self.graph.nodes().get(node).map_or("?", |node| &node.name)
    }
}

fn readers(graph: &Graph, node: NodeId) -> (Vec<Consumer>, Vec<u32>) {
    let (mut consumers, mut results) = (Vec::new(), Vec::new());
    for edge in &graph.spec().edges {
        if !matches!(edge.from, Origin::Node { node: from, .. } if from == node) {
            continue;
        }
        match edge.to {
            Destination::Node { node, .. } => {
                consumers.push(Consumer {
                    node,
                    stream: edge.value_type.stream,
                });
            }
            Destination::Result { port } => results.push(port.0),
        }
    }
    (consumers, results)
}
