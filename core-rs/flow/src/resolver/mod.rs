//! Where a frame becomes an activation. The rules are numbers 1 to 9 and 12 of the exact rules.

mod inlet;
mod inspect;
mod node_run;
mod outlet;
mod per_key;
mod result_run;

use std::sync::Arc;

use crate::effect::{Arrival, Effect};
use crate::error::ResolverError;
use crate::graph::Graph;
use crate::ids::{EdgeId, Key, NodeId, PortIx};
use crate::item::{Item, Payload};
use crate::spec::{Destination, Origin};

pub use inspect::Footprint;
use node_run::{NodeRun, Place};
use outlet::{Lane, Outlet, OutletError};
use per_key::PerKey;
use result_run::ResultRun;

/// One job at one place: a worker with some of the job's nodes, or the scheduler with its inputs and results.
///
/// The driver brings arrivals (`accept`) and what activations do (`emit`, `end`, `finish`), and carries out the effects
/// that are appended to `effects`, in order. A frame to a node at the same place goes out as `Send` like any other, so
/// that retention sees it, and comes back through `accept`. Dropping the resolver cancels the job at this place.
pub struct Resolver<P> {
    graph: Arc<Graph>,
    /// By node.
    nodes: Vec<PerKey<NodeRun<P>>>,
    /// By input of the flow.
    inputs: Vec<Outlet>,
    /// By result of the flow; `None` where results are not taken.
    results: Option<Vec<ResultRun<P>>>,
    results_open: usize,
}

impl<P: Payload> Resolver<P> {
    /// For a worker: takes frames for nodes that it hosts, now or later.
    pub fn new(graph: Arc<Graph>) -> Self {
        let nodes = graph.nodes().iter().map(|_| PerKey::default()).collect();
        let inputs = graph.inputs().iter().map(Outlet::new).collect();
        Self {
            graph,
            nodes,
            inputs,
            results: None,
            results_open: 0,
        }
    }

    /// For the scheduler: takes results too, and says when the job is `Done`.
    pub fn with_results(graph: Arc<Graph>) -> Self {
        let runs = graph.results().iter().enumerate();
        let results: Vec<_> = runs
            .map(|(port, spec)| ResultRun::new(&graph, PortIx(port as u32), spec.value_type.stream))
            .collect();
        Self {
            results_open: results.len(),
            results: Some(results),
            ..Self::new(graph)
        }
    }

    /// The graph that it runs.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    // --- binds ----------------------------------------------------------------------------------------------------

    /// The node runs here for this key, its frames under this epoch. Frames that came before are looked at now; a node
    /// without inputs fires at once. The same epoch again changes nothing. A higher one starts clean: what the last
    /// attempt held and had read is gone, and producers send it again. When an attempt fails here, call `unhost` before
    /// reporting it: then what is sent again ahead of the next `host` is parked, not taken for double.
    ///
    /// Fails with `UnknownNode`, `StaleEpoch` (a lower epoch).
    pub fn host(
        &mut self,
        node: NodeId,
        key: &Key,
        epoch: u32,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), ResolverError> {
        let place = place(&self.graph, node, key)?;
        let runs = &mut self.nodes[node.index()];
        let run = runs.get_or_insert_with(key, || NodeRun::new(place.spec));
        match run.epoch() {
            Some(current) if epoch == current => return Ok(()),
            Some(current) if epoch < current => {
                return Err(ResolverError::StaleEpoch {
                    node,
                    key: key.clone(),
                    current,
                    asked: epoch,
                });
            }
            Some(_) => *run = NodeRun::new(place.spec),
            None => {}
        }
        run.host(place, epoch, effects);
        Ok(())
    }

    /// The node has moved away or is over for this key: forgets all about it. Harmless when it was never here.
    pub fn unhost(&mut self, node: NodeId, key: &Key) {
        if let Some(runs) = self.nodes.get_mut(node.index()) {
            runs.remove(key);
        }
    }

    /// The epoch under which a node is hosted here for a key, `None` when it is not.
    pub fn hosted(&self, node: NodeId, key: &Key) -> Option<u32> {
        self.nodes.get(node.index())?.get(key)?.epoch()
    }

    /// A node that is elsewhere has a new attempt: its undelivered frames of earlier epochs are dropped from now on.
    /// Arrivals of a higher epoch say the same by themselves.
    pub fn producer_restarted(&mut self, node: NodeId, key: &Key, epoch: u32) {
        let Some(outputs) = self.graph.node(node).map(|spec| spec.outputs.len()) else {
            return;
        };
        let ports = (0..outputs).map(|port| Origin::Node {
            node,
            port: PortIx(port as u32),
        });
        for edge in ports.flat_map(|origin| self.graph.edges_from(origin)) {
            match self.graph.edge(*edge).map(|spec| spec.to) {
                Some(Destination::Node { node, port }) => {
                    let Ok(place) = place(&self.graph, node, key) else {
                        continue;
                    };
                    let run = self.nodes[node.index()]
                        .get_or_insert_with(key, || NodeRun::new(place.spec));
                    run.producer_restarted(port, epoch);
                }
                Some(Destination::Result { port }) => {
                    if let Some(run) = self
                        .results
                        .as_mut()
                        .and_then(|results| results.get_mut(port.index()))
                    {
                        run.producer_restarted(*edge, epoch);
                    }
                }
                None => {}
            }
        }
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
        match self
            .graph
            .edge(edge)
            .ok_or(ResolverError::UnknownEdge(edge))?
            .to
        {
            Destination::Node { node, port } => {
                let place = place(&self.graph, node, key)?;
                let run =
                    self.nodes[node.index()].get_or_insert_with(key, || NodeRun::new(place.spec));
                run.accept(place, port, epoch, item, effects)
                    .map_err(|what| violation(edge, key, what))
            }
            Destination::Result { port } => {
                self.accept_result(edge, port, key, epoch, item, effects)
            }
        }
    }

    // --- producers: running activations ---------------------------------------------------------------------------

    /// A running activation yields a frame on an output port: one `Send` for each edge of it that is still wanted. These
    /// three calls are the current attempt's: a driver in which an earlier one may still run asks `hosted` first.
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
        let (run, place) = running(&self.graph, &mut self.nodes, node, key)?;
        let (outlet, lane) = run
            .outlet(place, port)
            .ok_or(ResolverError::UnknownPort(port))?;
        outlet
            .frame(lane, payload, effects)
            .map_err(|error| output_error(error, port))
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
        let (run, place) = running(&self.graph, &mut self.nodes, node, key)?;
        let (outlet, lane) = run
            .outlet(place, port)
            .ok_or(ResolverError::UnknownPort(port))?;
        outlet
            .end(lane, effects)
            .map_err(|error| output_error(error, port))
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
        let (run, place) = running(&self.graph, &mut self.nodes, node, key)?;
        run.finish(place, effects)
            .map_err(|(port, error)| output_error(error, port))
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
        match self
            .graph
            .edge(edge)
            .ok_or(ResolverError::UnknownEdge(edge))?
            .from
        {
            Origin::Node { node, port } => {
                let place = place(&self.graph, node, key)?;
                if let Some(run) = self.nodes[node.index()].get_mut(key) {
                    run.refuse_output(place, port, edge, effects);
                }
            }
            Origin::Input { port } => {
                if let Some(outlet) = self.inputs.get_mut(port.index()) {
                    outlet.refuse(edge);
                }
            }
        }
        Ok(())
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
        let (outlet, lane) = self.input(port)?;
        outlet
            .frame(lane, payload, effects)
            .map_err(|error| output_error(error, port))
    }

    /// The job's stream input is complete: `END(count)` on its edges.
    ///
    /// Fails with `UnknownPort`, `NotAStream`, `PortFull` (ended before).
    pub fn end_input(
        &mut self,
        port: PortIx,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), ResolverError> {
        let (outlet, lane) = self.input(port)?;
        outlet
            .end(lane, effects)
            .map_err(|error| output_error(error, port))
    }

    /// The job leaves an optional input out: `Closed` on its edges.
    ///
    /// Fails with `UnknownPort`, `PortFull` (something was fed), `MissingOutput` (the input is required).
    pub fn close_input(
        &mut self,
        port: PortIx,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), ResolverError> {
        let (outlet, lane) = self.input(port)?;
        outlet
            .leave_out(lane, effects)
            .map_err(|error| output_error(error, port))
    }

    // --- looking --------------------------------------------------------------------------------------------------

    /// Whether every result has ended or closed. Always false without results.
    pub fn done(&self) -> bool {
        self.results.is_some() && self.results_open == 0
    }

    fn accept_result(
        &mut self,
        edge: EdgeId,
        port: PortIx,
        key: &Key,
        epoch: u32,
        item: Item<P>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<Arrival, ResolverError> {
        let results = self
            .results
            .as_mut()
            .ok_or(ResolverError::NoResultsHere(edge))?;
        let run = results
            .get_mut(port.index())
            .ok_or(ResolverError::UnknownPort(port))?;
        if !key.is_root() {
            return Err(violation(edge, key, "a result outside of key ()"));
        }
        let before = run.over();
        let arrival = run
            .accept(edge, epoch, item, effects)
            .map_err(|what| violation(edge, key, what))?;
        if run.over() && !before {
            self.results_open -= 1;
            if self.results_open == 0 {
                effects.push(Effect::Done);
            }
        }
        Ok(arrival)
    }

    fn input(&mut self, port: PortIx) -> Result<(&mut Outlet, Lane<'_>), ResolverError> {
        let outlet = self
            .inputs
            .get_mut(port.index())
            .ok_or(ResolverError::UnknownPort(port))?;
        let edges = self.graph.edges_from(Origin::Input { port });
        Ok((
            outlet,
            Lane {
                edges,
                key: &Key::ROOT,
                epoch: 0,
            },
        ))
    }
}

fn place<'a>(graph: &'a Graph, node: NodeId, key: &'a Key) -> Result<Place<'a>, ResolverError> {
    let spec = graph.node(node).ok_or(ResolverError::UnknownNode(node))?;
    Ok(Place {
        graph,
        spec,
        node,
        key,
    })
}

fn running<'a, P: Payload>(
    graph: &'a Graph,
    nodes: &'a mut [PerKey<NodeRun<P>>],
    node: NodeId,
    key: &'a Key,
) -> Result<(&'a mut NodeRun<P>, Place<'a>), ResolverError> {
    let place = place(graph, node, key)?;
    let run = nodes[node.index()].get_mut(key).filter(|run| run.running());
    Ok((
        run.ok_or_else(|| ResolverError::NotRunning {
            node,
            key: key.clone(),
        })?,
        place,
    ))
}

fn violation(edge: EdgeId, key: &Key, what: &'static str) -> ResolverError {
    ResolverError::Violation {
        edge,
        key: key.clone(),
        what,
    }
}

fn output_error(error: OutletError, port: PortIx) -> ResolverError {
    match error {
        OutletError::Full => ResolverError::PortFull(port),
        OutletError::NotAStream => ResolverError::NotAStream(port),
        OutletError::Missing => ResolverError::MissingOutput(port),
    }
}
