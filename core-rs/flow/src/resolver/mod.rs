//! Where a frame becomes an activation. The rules are numbers 1 to 9 and 12 of the exact rules.

use std::sync::Arc;

use crate::effect::{Arrival, Effect};
use crate::error::ResolverError;
use crate::graph::Graph;
use crate::ids::{EdgeId, Key, NodeId, PortIx};
use crate::item::{Item, Payload};

/// One job at one place: a worker with some of the job's nodes, or the scheduler with its inputs and results.
///
/// The driver brings arrivals (`accept`) and what activations do (`emit`, `end`, `finish`), and carries out the effects
/// that are appended to `effects`, in order. A frame to a node at the same place goes out as `Send` like any other, so
/// that retention sees it, and comes back through `accept`. Dropping the resolver cancels the job at this place.
pub struct Resolver<P> {
    graph: Arc<Graph>,
    nothing: std::marker::PhantomData<P>,
}

/// What a resolver holds. All zero when everything hosted has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Frames held: of ports whose alternative has not fired, and those that arrived ahead of a missing one.
    pub frames: usize,
    /// Their bytes.
    pub bytes: usize,
    /// (node, key) pairs and results that something has come for, or that run, and that have not ended.
    pub open: usize,
}

impl<P: Payload> Resolver<P> {
    /// For a worker: takes frames for nodes that it hosts, now or later.
    pub fn new(graph: Arc<Graph>) -> Self {
        Self {
            graph,
            nothing: std::marker::PhantomData,
        }
    }

    /// For the scheduler: takes results too, and says when the job is `Done`.
    pub fn with_results(graph: Arc<Graph>) -> Self {
        Self::new(graph)
    }

    /// The graph that it runs.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    // --- binds ----------------------------------------------------------------------------------------------------

    /// The node runs here for this key, its frames under this epoch. Frames that came before are looked at now; a node
    /// without inputs fires at once. Hosting again under a higher epoch starts clean: what the last attempt held and
    /// had read is gone, and producers send it again.
    ///
    /// Fails with `UnknownNode`, `StaleEpoch`.
    pub fn host(
        &mut self,
        node: NodeId,
        key: &Key,
        epoch: u32,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), ResolverError> {
        let _ = (node, key, epoch, effects);
        unimplemented!()
    }

    /// The node has moved away or is over for this key: forgets all about it. Harmless when it was never here.
    pub fn unhost(&mut self, node: NodeId, key: &Key) {
        let _ = (node, key);
    }

    /// The epoch under which a node is hosted here for a key, `None` when it is not.
    pub fn hosted(&self, node: NodeId, key: &Key) -> Option<u32> {
        let _ = (node, key);
        None
    }

    /// A node that is elsewhere has a new attempt: its undelivered frames of earlier epochs are dropped from now on.
    /// Arrivals of a higher epoch say the same by themselves.
    pub fn producer_restarted(&mut self, node: NodeId, key: &Key, epoch: u32) {
        let _ = (node, key, epoch);
    }

    // --- consumers ------------------------------------------------------------------------------------------------

    /// Something arrived on an edge whose destination is (or will be) here. `epoch` is the frame's: of its producer.
    ///
    /// Fails with `UnknownEdge`, `NoResultsHere`, `Violation`; then nothing has changed.
    pub fn accept(
        &mut self,
        edge: EdgeId,
        key: &Key,
        epoch: u32,
        item: Item<P>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<Arrival, ResolverError> {
        let _ = (edge, key, epoch, item, effects);
        unimplemented!()
    }

    // --- producers: running activations ---------------------------------------------------------------------------

    /// A running activation yields a frame on an output port: one `Send` for each edge of it that is still wanted.
    ///
    /// Fails with `NotRunning`, `UnknownPort`, `PortFull`.
    pub fn emit(
        &mut self,
        node: NodeId,
        key: &Key,
        port: PortIx,
        payload: P,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), ResolverError> {
        let _ = (node, key, port, payload, effects);
        unimplemented!()
    }

    /// A running activation ends one of its stream outputs: `END(count)` on its edges.
    ///
    /// Fails with `NotRunning`, `UnknownPort`, `NotAStream`, `PortFull` (ended before).
    pub fn end(
        &mut self,
        node: NodeId,
        key: &Key,
        port: PortIx,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), ResolverError> {
        let _ = (node, key, port, effects);
        unimplemented!()
    }

    /// A running activation is over: closes optional outputs that got nothing, ends open streams, and tells producers of
    /// streams that it did not read to the end (`Unwanted`).
    ///
    /// Fails with `NotRunning`, and with `MissingOutput` when a required plain output got nothing; it still runs then.
    pub fn finish(
        &mut self,
        node: NodeId,
        key: &Key,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), ResolverError> {
        let _ = (node, key, effects);
        unimplemented!()
    }

    /// The consumer's place has said that it wants nothing more on this edge: no more `Send` on it. `Unneeded` follows
    /// when it was the last edge of a running activation that anyone wanted.
    ///
    /// Fails with `UnknownEdge`. Harmless for an edge whose producer is not here or not running.
    pub fn unwanted(
        &mut self,
        edge: EdgeId,
        key: &Key,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), ResolverError> {
        let _ = (edge, key, effects);
        unimplemented!()
    }

    // --- producers: the flow's inputs (at the scheduler) ----------------------------------------------------------

    /// The job's next frame of an input of the flow: one `Send` for each of its edges, under epoch 0. A plain input takes
    /// one frame, a stream any number and then `end_input`.
    ///
    /// Fails with `UnknownPort`, `PortFull`.
    pub fn feed_input(
        &mut self,
        port: PortIx,
        payload: P,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), ResolverError> {
        let _ = (port, payload, effects);
        unimplemented!()
    }

    /// The job's stream input is complete: `END(count)` on its edges.
    ///
    /// Fails with `UnknownPort`, `NotAStream`, `PortFull` (ended before).
    pub fn end_input(
        &mut self,
        port: PortIx,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), ResolverError> {
        let _ = (port, effects);
        unimplemented!()
    }

    /// The job leaves an optional input out: `Closed` on its edges.
    ///
    /// Fails with `UnknownPort`, `PortFull` (something was fed), `MissingOutput` (the input is required).
    pub fn close_input(
        &mut self,
        port: PortIx,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), ResolverError> {
        let _ = (port, effects);
        unimplemented!()
    }

    // --- looking --------------------------------------------------------------------------------------------------

    /// Whether every result has ended or closed. Always false without results.
    pub fn done(&self) -> bool {
        false
    }

    /// What it holds now. O(hosted nodes).
    pub fn footprint(&self) -> Footprint {
        Footprint::default()
    }

    /// Whether it holds nothing: everything that was hosted or arrived has ended.
    pub fn is_empty(&self) -> bool {
        self.footprint() == Footprint::default()
    }

    /// Verifies every invariant; the error says which is broken. For tests, and when idle.
    pub fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
