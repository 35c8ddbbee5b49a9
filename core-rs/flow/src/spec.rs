//! What a flow says before anyone has looked whether it can work: plain data, as the DSL wrote it.

use crate::ids::{NodeId, PortIx, ScopeId};
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
    /// What runs once for each item of an `each` or each round of a `loop`; `ScopeId(1)` is the first.
    pub scopes: Vec<ScopeSpec>,
}

/// What runs once for each item or round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeSpec {
    /// For messages.
    pub name: String,
    /// The scope around it; of a smaller number.
    pub parent: ScopeId,
    /// The `each` or `loop` that makes its keys; a node of `parent`.
    pub node: NodeId,
    /// Whether each key is one round of a loop, instead of one item of an `each`.
    pub is_loop: bool,
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
    /// Of a node's input: fed by a branch of a `route`; the node runs only when that is taken, and reads nothing there.
    pub gate: bool,
}

/// One use of one role method, or of a control node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSpec {
    /// Unique in the flow, e.g. `llm.chat#2`.
    pub name: String,
    /// Where it runs.
    pub scope: ScopeId,
    /// What it does.
    pub kind: NodeKind,
    /// Each is fed by exactly one edge.
    pub inputs: Vec<PortSpec>,
    /// Each feeds any number of edges.
    pub outputs: Vec<PortSpec>,
    /// OR of ANDs of input ports. Empty, or one empty alternative, for a node without inputs: it runs at once.
    pub trigger: Vec<Vec<PortIx>>,
    /// What the flow says about how it runs.
    pub options: NodeOptions,
    /// Where the user wrote it.
    pub source: Option<SourcePlace>,
}

/// How one node runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeOptions {
    /// Attempts before the job fails; 1: at most once; 0: the cluster's default.
    pub max_attempts: u32,
    /// Whether the same inputs and seed give the same frames.
    pub deterministic: bool,
    /// Whether its frames carry what a later attempt can go on from (rule 12): see `Graph::resumes`.
    pub resumable: bool,
    /// Of the job's deadline, for each activation: above 0, at most 1; 0: no limit of its own.
    pub deadline_share: f64,
    /// Nodes whose workers are preferred.
    pub near: Vec<NodeId>,
}

/// What a node does. The control nodes' ports, in order, are described in `flow.proto`.
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
    /// Fan-out: each frame becomes a key of the scope.
    Each {
        /// What it makes keys for.
        scope: ScopeId,
    },
    /// Joins the values of an `each` (of a stream, when the scope is the root) into a list.
    Collect {
        /// What it collects from; the root: from a stream.
        scope: ScopeId,
    },
    /// The values of an `each` as a stream, in index order.
    Ordered {
        /// What they leave.
        scope: ScopeId,
    },
    /// The values of an `each` as a stream, in order of arrival.
    Unordered {
        /// What they leave.
        scope: ScopeId,
    },
    /// Streams in lockstep.
    Zip,
    /// All frames of all inputs, by arrival.
    Merge,
    /// All frames of the input that comes first.
    AnyOf,
    /// Opens branches.
    Route {
        /// Names, by output.
        branches: Vec<String>,
        /// Exactly one, instead of a set.
        exclusive: bool,
    },
    /// A bounded cycle.
    Loop {
        /// Its body.
        scope: ScopeId,
        /// Values that go from round to round.
        carried: u32,
        /// Values that a round gives out.
        emitted: u32,
        /// The bound.
        max_rounds: u32,
    },
}

impl Default for NodeKind {
    fn default() -> Self {
        Self::Role {
            role: String::new(),
            method: String::new(),
        }
    }
}

impl NodeKind {
    /// Whether it runs on a worker's engine; others run inside the resolver.
    pub fn is_role(&self) -> bool {
        matches!(self, Self::Role { .. })
    }

    /// The scope that it makes or closes.
    pub fn inner_scope(&self) -> Option<ScopeId> {
        match self {
            Self::Each { scope }
            | Self::Collect { scope }
            | Self::Ordered { scope }
            | Self::Unordered { scope }
            | Self::Loop { scope, .. } => Some(*scope).filter(|scope| *scope != ScopeId::ROOT),
            Self::Role { .. } | Self::Zip | Self::Merge | Self::AnyOf | Self::Route { .. } => None,
        }
    }
}

impl NodeSpec {
    /// The scope of an input port: frames that come there have the keys of it or of one around it.
    pub fn input_scope(&self, port: PortIx) -> ScopeId {
        let inner = match &self.kind {
            NodeKind::Collect { .. } | NodeKind::Ordered { .. } | NodeKind::Unordered { .. } => {
                port.0 == 0
            }
            NodeKind::Loop {
                carried, emitted, ..
            } => (*carried..2 * carried + 1 + emitted).contains(&port.0),
            _ => false,
        };
        self.scope_if(inner)
    }

    /// The scope of an output port: frames that leave it have keys of it.
    pub fn output_scope(&self, port: PortIx) -> ScopeId {
        let inner = match &self.kind {
            NodeKind::Each { .. } => port.index() + 1 < self.outputs.len(),
            NodeKind::Loop { carried, .. } => port.0 < *carried,
            _ => false,
        };
        self.scope_if(inner)
    }

    fn scope_if(&self, inner: bool) -> ScopeId {
        match self.kind.inner_scope() {
            Some(scope) if inner => scope,
            _ => self.scope,
        }
    }

    /// The input ports in the node's own scope that gates feed.
    pub fn gates(&self) -> impl Iterator<Item = PortIx> + '_ {
        let ports = self.inputs.iter().enumerate();
        ports
            .filter(|(_, port)| port.gate)
            .map(|(port, _)| PortIx(port as u32))
    }
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
