//! What a driver or a peer did wrong.

use crate::ids::{EdgeId, NodeId, PortIx};
use crate::key::Key;

/// A call that breaks the resolver's contract. The resolver is as before the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolverError {
    /// The flow has fewer edges.
    #[error("edge {} does not exist in this flow; check that both sides run the same flow version", .0.0)]
    UnknownEdge(EdgeId),
    /// The flow has fewer nodes.
    #[error("node {} does not exist in this flow; check that both sides run the same flow version", .0.0)]
    UnknownNode(NodeId),
    /// The node (or the flow) has no such output (or input).
    #[error("port {} does not exist; name one that the method declares", .0.0)]
    UnknownPort(PortIx),
    /// A result's frame reached a resolver without results.
    #[error("edge {} leads to a result, which only the scheduler takes; send it there", .0.0)]
    NoResultsHere(EdgeId),
    /// The node is hosted here already, under a higher epoch.
    #[error("node {} is hosted for key {key} under epoch {current} already, not under {asked}; a new attempt needs a higher epoch", .node.0)]
    StaleEpoch {
        /// Which node.
        node: NodeId,
        /// For which key.
        key: Key,
        /// The epoch that is known.
        current: u32,
        /// The epoch that was given.
        asked: u32,
    },
    /// A control node, which runs at the side of a role node, or a key that is no bind's.
    #[error("node {} is not bound by key {key}: its binds have keys of {depth} indices, and only role nodes are bound; see Graph::bind_key", .node.0)]
    NotBound {
        /// Which node.
        node: NodeId,
        /// For which key.
        key: Key,
        /// How many indices its binds have.
        depth: usize,
    },
    /// The node has no running activation here for the key.
    #[error("node {} has no running activation for key {key}; it was not started here, has finished, or moved", .node.0)]
    NotRunning {
        /// Which node.
        node: NodeId,
        /// For which key.
        key: Key,
    },
    /// A second frame on a plain output, or a frame on one that has ended.
    #[error("output port {} takes no more frames: a plain port takes one, a stream none after its end", .0.0)]
    PortFull(PortIx),
    /// `end` of a plain output.
    #[error("output port {} is not a stream, so it has no end; emit its one value", .0.0)]
    NotAStream(PortIx),
    /// `finish` with a required plain output still empty.
    #[error("output port {} got no value; emit one, or declare it `| None`", .0.0)]
    MissingOutput(PortIx),
    /// An item that its edge cannot carry: END or seq > 0 on a plain edge, a frame past END, CLOSED after frames.
    #[error("edge {} for key {key}: {what}; the producer broke the protocol", .edge.0)]
    Violation {
        /// On which edge.
        edge: EdgeId,
        /// For which key.
        key: Key,
        /// What was wrong.
        what: &'static str,
    },
}
