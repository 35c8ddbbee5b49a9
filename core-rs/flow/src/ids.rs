//! Names of the parts of one graph, and of one run of a part.

use std::fmt;
use std::sync::Arc;

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

/// The path of fan-out and loop indices that a frame belongs to: `()`, `(3,)`, `(3, 1)`.
///
/// The root `()` costs nothing to make, copy or compare; a longer one is shared by its copies.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Option<Arc<[u32]>>);

impl Key {
    /// The key `()`: outside every fan-out and loop.
    pub const ROOT: Key = Key(None);

    /// The key with this path; an empty path is the root.
    pub fn new(path: &[u32]) -> Self {
        if path.is_empty() {
            Self::ROOT
        } else {
            Self(Some(path.into()))
        }
    }

    /// The indices, outermost first.
    pub fn path(&self) -> &[u32] {
        self.0.as_deref().unwrap_or(&[])
    }

    /// Whether this is `()`.
    pub fn is_root(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path() {
            [] => f.write_str("()"),
            [only] => write!(f, "({only},)"),
            path => {
                let words: Vec<String> = path.iter().map(u32::to_string).collect();
                write!(f, "({})", words.join(", "))
            }
        }
    }
}
