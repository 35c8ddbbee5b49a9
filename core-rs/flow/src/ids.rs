//! Names of the parts of one graph.

/// A scope of a flow: 0 is the flow itself, the others are numbered as in `GraphSpec::scopes`, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeId(pub u32);

/// A node: its index in the flow's list of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// An edge: its index in the flow's list of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EdgeId(pub u32);

/// A port: its index among the inputs or the outputs of its node, or among the flow's inputs or results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortIx(pub u32);

impl NodeId {
    /// The index as the language wants it.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl EdgeId {
    /// The index as the language wants it.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl PortIx {
    /// The index as the language wants it.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl ScopeId {
    /// The flow itself.
    pub const ROOT: ScopeId = ScopeId(0);

    /// The index as the language wants it, counting the flow itself.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
