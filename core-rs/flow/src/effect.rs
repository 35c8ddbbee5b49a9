//! What a resolver asks its driver to do, and how it answers one arrival.

use crate::ids::{EdgeId, NodeId, PortIx, ScopeId};
use crate::item::Item;
use crate::key::Key;

/// Something to be done now, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<P> {
    /// An alternative of a hosted node is complete: put the activation into the ready queue. Exactly one per (node, key)
    /// and hosting. Frames that streams already hold follow as `Deliver` (and `StreamEnd`) in the same batch.
    Activate {
        /// Which node.
        node: NodeId,
        /// For which key.
        key: Key,
        /// The epoch under which the node is hosted: of every frame that it will send.
        epoch: u32,
        /// Which alternative fired: index into `NodeSpec::trigger`.
        alternative: usize,
        /// The ports of that alternative, in its order; gates are left out.
        inputs: Vec<ActivationInput<P>>,
    },
    /// The next frame, in sequence, of a stream port of an activation that has fired.
    Deliver {
        /// Which node.
        node: NodeId,
        /// For which key.
        key: Key,
        /// Which of its input ports.
        port: PortIx,
        /// Position in the stream.
        seq: u64,
        /// The content.
        payload: P,
    },
    /// A stream port of an activation that has fired is over: all `count` frames were delivered.
    StreamEnd {
        /// Which node.
        node: NodeId,
        /// For which key.
        key: Key,
        /// Which of its input ports.
        port: PortIx,
        /// Frames in all.
        count: u64,
    },
    /// Bring this to whom `Graph::reader` names: if that is this very place, to `accept` of this resolver. While the reader
    /// is not bound, a frame waits for its bind, while CLOSED, and whatever goes to a gate (`Graph::is_mark`), goes to the
    /// scheduler (rule 7).
    Send {
        /// On which edge.
        edge: EdgeId,
        /// For which key.
        key: Key,
        /// Epoch of the node that made it; 0 for the flow's inputs.
        epoch: u32,
        /// The frame or mark.
        item: Item<P>,
    },
    /// Nobody will read what still comes on this edge: tell the producer's place, which calls `unwanted`. Sending nothing
    /// is correct too, only wasteful.
    Unwanted {
        /// Which edge.
        edge: EdgeId,
        /// For which key.
        key: Key,
    },
    /// No consumer wants any output of this running activation any more: it may be stopped.
    Unneeded {
        /// Which node.
        node: NodeId,
        /// For which key.
        key: Key,
    },
    /// The scope that this running activation is in has ended, so that nothing it makes can leave: it is forgotten, and to be
    /// stopped. What it still yields is `NotRunning`.
    Cancelled {
        /// Which node.
        node: NodeId,
        /// For which key.
        key: Key,
    },
    /// A hosted node can never fire for this key: it is over without an activation, and its outputs were closed.
    NodeClosed {
        /// Which node.
        node: NodeId,
        /// For which key.
        key: Key,
    },
    /// A branch that leads to this node was taken, and it is not hosted: bind it. (Or it was closed, while others read what
    /// runs at its side: bind it all the same.) Only from a resolver made by
    /// `with_results`; what it holds for the node goes along with the bind (`hand_over`).
    Wanted {
        /// Which node.
        node: NodeId,
        /// For which key of a bind.
        key: Key,
    },
    /// One of the nodes by which values leave a scope is over: tell every place of the job, this one too (`scope_left`).
    ScopeLeft {
        /// Which scope.
        scope: ScopeId,
        /// The key around it.
        key: Key,
        /// Which node.
        by: NodeId,
    },
    /// The job has failed.
    Failed {
        /// Which node.
        node: NodeId,
        /// For which key.
        key: Key,
        /// Why.
        fault: Fault,
    },
    /// Something of a result, in sequence (only from a resolver made by `with_results`). A plain result is one frame with
    /// `seq` 0 and no END, or `Closed`.
    Result {
        /// Which of the flow's results.
        port: PortIx,
        /// The frame or mark.
        item: Item<P>,
    },
    /// A later attempt sent something else than what an earlier one had already delivered (rule 12).
    Contradiction {
        /// On which edge.
        edge: EdgeId,
        /// For which key.
        key: Key,
        /// The frame that differs, or the last of those that are compared together; of a differing END, the smaller count.
        seq: u64,
    },
    /// Every result has ended or closed: the job is over (rule 9). Once, and only from a resolver made by `with_results`.
    Done,
}

/// Why a control node fails its job. `Display` is for the user; the node's name and line are in the graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// LOOP_LIMIT: `until` never said true.
    #[error(
        "loop `{name}` was not over after {max_rounds} rounds; raise max_rounds, or let `until` become true earlier"
    )]
    LoopLimit {
        /// The loop's name.
        name: String,
        /// Its bound.
        max_rounds: u32,
    },
    /// BAD_ROUTE: a choice that is no branch, or not exactly one.
    #[error("`{name}` has no branch for {choice}; its branches are {}", .branches.join(", "))]
    BadRoute {
        /// The route's name.
        name: String,
        /// What was chosen.
        choice: String,
        /// What there is.
        branches: Vec<String>,
    },
    /// A value of another type than its port's.
    #[error("`{name}` got something else than {wanted}")]
    BadValue {
        /// The node's name.
        name: String,
        /// What it takes.
        wanted: &'static str,
    },
}

/// One port of the alternative that fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivationInput<P> {
    /// Which input port; its parameter is in `Graph::node(node).inputs`.
    pub port: PortIx,
    /// What it holds.
    pub value: InputValue<P>,
}

/// What a port holds when its alternative fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputValue<P> {
    /// The one frame of a plain port.
    Plain(P),
    /// A stream: its frames, from seq 0, and its end come as `Deliver` and `StreamEnd`.
    Stream,
    /// An optional port that was CLOSED.
    None,
}

/// What became of an item given to `accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Taken in (and delivered, in the sense of rule 12, unless frames before it are missing).
    Taken,
    /// Taken in, but the node is not hosted here yet: it waits for `host`.
    Parked,
    /// It was there already.
    Duplicate,
    /// Of an earlier attempt than the latest known one: dropped.
    Stale,
    /// Nobody reads this edge any more: dropped.
    Unwanted,
}
