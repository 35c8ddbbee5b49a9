//! What a flow says before anyone has looked whether it can work: plain data, as the DSL wrote it.

use crate::ids::{NodeId, PortIx};
use crate::value_type::ValueType;

/// A flow as compiled by the DSL. `Graph::new` makes a graph of it, or says why it can never work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphSpec {
    /// The flow's name.
    pub name: String,
    /// What a job brings.
    pub inputs: Vec<PortSpec>,
    /// Uses of role methods; an edge names a node by its index here.
    pub nodes: Vec<NodeSpec>,
    /// Edges; a frame names its edge by its index here.
    pub edges: Vec<EdgeSpec>,
    /// What a job answers.
    pub results: Vec<PortSpec>,
}

/// A named end of an edge.
#[derive(Clone, Debug, PartialEq)]
pub struct PortSpec {
    /// Unique among its neighbours.
    pub name: String,
    /// What passes through it.
    pub value_type: ValueType,
    /// Of a node's input: the method's parameter that it feeds; several ports feed one parameter by `any_of`.
    pub parameter: String,
}

/// One use of one role method.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSpec {
    /// Unique in the flow, e.g. `llm.chat#2`.
    pub name: String,
    /// What it does.
    pub kind: NodeKind,
    /// Each is fed by exactly one edge.
    pub inputs: Vec<PortSpec>,
    /// Each feeds any number of edges.
    pub outputs: Vec<PortSpec>,
    /// OR of ANDs of input ports. Empty, or one empty alternative, for a node without inputs: it runs at once.
    pub trigger: Vec<Vec<PortIx>>,
    /// Attempts before the job fails; 0: the cluster's default.
    pub max_attempts: u32,
    /// Whether the same inputs and seed give the same frames.
    pub deterministic: bool,
    /// Where the user wrote it.
    pub source: Option<SourcePlace>,
}

/// What a node does. `each`, `collect`, `route`, `merge` and `loop` will stand beside `Role`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeKind {
    /// Runs a method of a role on a worker.
    Role {
        /// The role's name.
        role: String,
        /// The method's name.
        method: String,
    },
}

/// Joins an output to an input.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeSpec {
    /// Where its frames come from.
    pub from: Origin,
    /// Where they go.
    pub to: Destination,
    /// What travels on it: the type of the output that it leaves.
    pub value_type: ValueType,
}

/// Where an edge begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// One of the flow's inputs.
    Input {
        /// Index into the flow's inputs.
        port: PortIx,
    },
    /// An output port of a node.
    Node {
        /// Index into the flow's nodes.
        node: NodeId,
        /// Index into the node's outputs.
        port: PortIx,
    },
}

/// Where an edge ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// An input port of a node.
    Node {
        /// Index into the flow's nodes.
        node: NodeId,
        /// Index into the node's inputs.
        port: PortIx,
    },
    /// One of the flow's results. Several edges to one result are an `any_of`: the first to bring something wins.
    Result {
        /// Index into the flow's results.
        port: PortIx,
    },
}

/// A place in the user's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePlace {
    /// Path of the file.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// The `@flow` function.
    pub function: String,
}
