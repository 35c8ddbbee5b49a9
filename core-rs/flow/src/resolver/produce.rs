//! What leaves this place: what activations yield, and the flow's inputs.

use crate::effect::Effect;
use crate::error::ResolverError;
use crate::ids::{EdgeId, NodeId, PortIx};
use crate::key::Key;
use crate::payload::Payload;
use crate::spec::Origin;

use super::node_run::NodeRun;
use super::outlet::{Lane, Outlet};
use super::place::Place;
use super::{Resolver, output_error, place};

impl<P: Payload> Resolver<P> {
    // --- running activations --------------------------------------------------------------------------------------

    /// A running activation yields a frame on an output port: one `Send` for each edge of it that is still wanted. These
    /// three calls are the current attempt's: a driver in which an earlier one may still run asks `hosted` first. `key` is the activation's.
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
        let (run, place) = self.running(node, key)?;
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
        let (run, place) = self.running(node, key)?;
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
        let (run, place) = self.running(node, key)?;
        run.finish(place, effects)
            .map_err(|(port, error)| output_error(error, port))?;
        if !key.is_root() {
            self.settle(node, key);
        }
        Ok(())
    }

    /// The consumer's place has said that it wants nothing more on this edge: no more `Send` on it. `Unneeded` follows
    /// when it was the last edge of a running activation that anyone wanted. Of an attempt of the consumer that was lost, it
    /// must not be brought: the next one may read on.
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
                if self.may_be_refused(node, key) {
                    self.at_run(node, key, effects, |run, place, effects| {
                        run.refuse_output(place, port, edge, effects);
                    });
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

    /// A new attempt of a consumer may read what the one before did not want: `Send` on this edge goes on from here. How
    /// many frames were sent on other edges of the port, and whether it has ended there. `None`: nothing is sent on it any
    /// more, for whoever did is over or not here.
    pub fn wanted_again(&mut self, edge: EdgeId, key: &Key) -> Option<(u64, bool)> {
        let Origin::Node { node, port } = self.graph.edge(edge)?.from else {
            return None;
        };
        let runs = &mut self.nodes[node.index()];
        if runs.is_over(key) {
            return None;
        }
        match runs.runs.get_mut(key) {
            Some(run) => run.resume_output(port, edge),
            None => self.epoch_of(node, key).map(|_| (0, false)),
        }
    }

    /// Whether it is there, or is a control node that is hosted and begins with the first thing that comes: when the node at
    /// whose side it is starts again, its readers may be over before anything has.
    fn may_be_refused(&self, node: NodeId, key: &Key) -> bool {
        let spec = &self.graph.nodes()[node.index()];
        let begins = || {
            let depth = self.graph.layout().depth(spec.scope);
            !spec.kind.is_role()
                && key.depth() == depth
                && self.epoch_of(node, key).is_some()
                && !self.is_past(node, key)
        };
        self.nodes[node.index()].runs.get(key).is_some() || begins()
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

    fn running<'a>(
        &'a mut self,
        node: NodeId,
        key: &'a Key,
    ) -> Result<(&'a mut NodeRun<P>, Place<'a>), ResolverError> {
        let runs = self
            .nodes
            .get_mut(node.index())
            .ok_or(ResolverError::UnknownNode(node))?;
        let run = runs.runs.get_mut(key).filter(|run| run.at_an_engine());
        let run = run.ok_or_else(|| ResolverError::NotRunning {
            node,
            key: key.clone(),
        })?;
        Ok((run, place(&self.graph, node, key, None)))
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
