//! One node for one key at one place: from its first frame to the end of its activation (rules 1, 2, 5).

use crate::effect::{ActivationInput, Arrival, Effect, InputValue};
use crate::graph::Graph;
use crate::ids::{EdgeId, Key, NodeId, PortIx};
use crate::item::{Item, Payload};
use crate::spec::{NodeSpec, Origin, PortSpec};

use super::inlet::Inlet;
use super::outlet::{Lane, Outlet, OutletError};

/// See the module.
#[derive(Debug)]
pub(super) struct NodeRun<P> {
    /// `None`: not hosted here (yet); what arrives is parked.
    epoch: Option<u32>,
    phase: Phase,
    /// By input port; empty once over.
    inlets: Vec<Inlet<P>>,
    /// By output port; empty once over.
    outlets: Vec<Outlet>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running,
    Over,
}

/// Which run it is: what effects must name.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) graph: &'a Graph,
    pub(super) spec: &'a NodeSpec,
    pub(super) node: NodeId,
    pub(super) key: &'a Key,
}

impl Place<'_> {
    fn edges_out(&self, port: usize) -> &[EdgeId] {
        self.graph.edges_from(Origin::Node {
            node: self.node,
            port: PortIx(port as u32),
        })
    }

    fn unwanted<P>(&self, port: usize, effects: &mut Vec<Effect<P>>) {
        if let Some(edge) = self.graph.edge_into(self.node, PortIx(port as u32)) {
            effects.push(Effect::Unwanted {
                edge,
                key: self.key.clone(),
            });
        }
    }
}

impl<P: Payload> NodeRun<P> {
    pub(super) fn new(spec: &NodeSpec) -> Self {
        let inlet = |port: &PortSpec| Inlet::new(port.value_type.stream, port.value_type.optional);
        Self {
            epoch: None,
            phase: Phase::Waiting,
            inlets: spec.inputs.iter().map(inlet).collect(),
            outlets: spec.outputs.iter().map(Outlet::new).collect(),
        }
    }

    pub(super) fn epoch(&self) -> Option<u32> {
        self.epoch
    }

    pub(super) fn running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Runs here from now on. What was parked counts as one arrival: the first complete alternative wins.
    pub(super) fn host(&mut self, place: Place<'_>, epoch: u32, effects: &mut Vec<Effect<P>>) {
        self.epoch = Some(epoch);
        self.evaluate(place, effects);
    }

    pub(super) fn producer_restarted(&mut self, port: PortIx, epoch: u32) {
        if let Some(inlet) = self.inlets.get_mut(port.index()) {
            inlet.restart(epoch);
        }
    }

    /// Takes an arrival in and does all that follows from it.
    pub(super) fn accept(
        &mut self,
        place: Place<'_>,
        port: PortIx,
        epoch: u32,
        item: Item<P>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<Arrival, &'static str> {
        let Some(inlet) = self.inlets.get_mut(port.index()) else {
            return Ok(Arrival::Unwanted);
        };
        let taking = inlet.take(epoch, item)?;
        if let (Some(seq), Some(edge)) = (
            taking.contradiction,
            place.graph.edge_into(place.node, port),
        ) {
            effects.push(Effect::Contradiction {
                edge,
                key: place.key.clone(),
                seq,
            });
        }
        if taking.arrival != Arrival::Taken {
            return Ok(taking.arrival);
        }
        if self.phase == Phase::Running {
            self.pass_on(place, port, effects);
        } else if self.epoch.is_none() {
            return Ok(Arrival::Parked);
        } else if taking.turned {
            self.evaluate(place, effects);
        }
        Ok(Arrival::Taken)
    }

    /// Fires the first complete alternative, or closes the node when none can fire any more.
    fn evaluate(&mut self, place: Place<'_>, effects: &mut Vec<Effect<P>>) {
        let Some(epoch) = self.epoch.filter(|_| self.phase == Phase::Waiting) else {
            return;
        };
        let trigger: &[Vec<PortIx>] = if place.spec.trigger.is_empty() {
            &[Vec::new()]
        } else {
            &place.spec.trigger
        };
        let mut all_dead = true;
        for (alternative, ports) in trigger.iter().enumerate() {
            if ports.iter().all(|port| self.inlets[port.index()].ready()) {
                return self.fire(place, epoch, alternative, ports, effects);
            }
            all_dead &= ports.iter().any(|port| self.inlets[port.index()].dead());
        }
        if all_dead {
            self.close(place, epoch, effects);
        }
    }

    fn fire(
        &mut self,
        place: Place<'_>,
        epoch: u32,
        alternative: usize,
        ports: &[PortIx],
        effects: &mut Vec<Effect<P>>,
    ) {
        self.phase = Phase::Running;
        let inputs = ports.iter().filter_map(|port| self.input(*port)).collect();
        effects.push(Effect::Activate {
            node: place.node,
            key: place.key.clone(),
            epoch,
            alternative,
            inputs,
        });
        for port in ports {
            self.pass_on(place, *port, effects);
        }
        for (port, inlet) in self.inlets.iter_mut().enumerate() {
            if !ports.contains(&PortIx(port as u32)) && inlet.refuse() {
                place.unwanted(port, effects);
            }
        }
        self.tell_unneeded(place, effects);
    }

    fn input(&mut self, port: PortIx) -> Option<ActivationInput<P>> {
        let inlet = self.inlets.get_mut(port.index())?;
        let value = if inlet.closed() {
            InputValue::None
        } else if inlet.is_stream() {
            InputValue::Stream
        } else {
            InputValue::Plain(inlet.hand_on()?.1)
        };
        Some(ActivationInput { port, value })
    }

    /// Hands on what a stream of the running activation holds.
    fn pass_on(&mut self, place: Place<'_>, port: PortIx, effects: &mut Vec<Effect<P>>) {
        let Some(inlet) = self
            .inlets
            .get_mut(port.index())
            .filter(|inlet| inlet.is_stream())
        else {
            return;
        };
        let (node, key) = (place.node, place.key);
        while let Some((seq, payload)) = inlet.hand_on() {
            effects.push(Effect::Deliver {
                node,
                key: key.clone(),
                port,
                seq,
                payload,
            });
        }
        if let Some(count) = inlet.ended() {
            effects.push(Effect::StreamEnd {
                node,
                key: key.clone(),
                port,
                count,
            });
        }
    }

    /// Dead-path elimination (rule 2).
    fn close(&mut self, place: Place<'_>, epoch: u32, effects: &mut Vec<Effect<P>>) {
        effects.push(Effect::NodeClosed {
            node: place.node,
            key: place.key.clone(),
        });
        for (port, outlet) in self.outlets.iter_mut().enumerate() {
            outlet.close(
                Lane {
                    edges: place.edges_out(port),
                    key: place.key,
                    epoch,
                },
                effects,
            );
        }
        self.leave(place, effects);
    }

    /// Over: tells producers that may still be sending, and frees everything but the fact.
    fn leave(&mut self, place: Place<'_>, effects: &mut Vec<Effect<P>>) {
        for (port, inlet) in self.inlets.iter_mut().enumerate() {
            if inlet.refuse() {
                place.unwanted(port, effects);
            }
        }
        self.phase = Phase::Over;
        self.inlets = Vec::new();
        self.outlets = Vec::new();
    }

    /// One output port of the running activation and where it leads. `None`: there is no such port.
    pub(super) fn outlet<'a>(
        &'a mut self,
        place: Place<'a>,
        port: PortIx,
    ) -> Option<(&'a mut Outlet, Lane<'a>)> {
        let epoch = self.epoch.unwrap_or_default();
        let edges = place.graph.edges_from(Origin::Node {
            node: place.node,
            port,
        });
        Some((
            self.outlets.get_mut(port.index())?,
            Lane {
                edges,
                key: place.key,
                epoch,
            },
        ))
    }

    /// The activation is over. Fails with the first required plain output that got nothing; then it still runs.
    pub(super) fn finish(
        &mut self,
        place: Place<'_>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), (PortIx, OutletError)> {
        if let Some(port) = self.outlets.iter().position(Outlet::missing) {
            return Err((PortIx(port as u32), OutletError::Missing));
        }
        let epoch = self.epoch.unwrap_or_default();
        for (port, outlet) in self.outlets.iter_mut().enumerate() {
            outlet.finish(
                Lane {
                    edges: place.edges_out(port),
                    key: place.key,
                    epoch,
                },
                effects,
            );
        }
        self.leave(place, effects);
        Ok(())
    }

    /// A consumer wants no more on this edge.
    pub(super) fn refuse_output(
        &mut self,
        place: Place<'_>,
        port: PortIx,
        edge: EdgeId,
        effects: &mut Vec<Effect<P>>,
    ) {
        if self
            .outlets
            .get_mut(port.index())
            .is_some_and(|outlet| outlet.refuse(edge))
        {
            self.tell_unneeded(place, effects);
        }
    }

    fn tell_unneeded(&self, place: Place<'_>, effects: &mut Vec<Effect<P>>) {
        let wanted = |(port, outlet): (usize, &Outlet)| outlet.wanted(place.edges_out(port));
        if self.running() && !self.outlets.iter().enumerate().any(wanted) {
            effects.push(Effect::Unneeded {
                node: place.node,
                key: place.key.clone(),
            });
        }
    }

    /// Whether it counts as open: hosted or reached, and not over.
    pub(super) fn open(&self) -> bool {
        self.phase != Phase::Over
            && (self.epoch.is_some() || self.inlets.iter().any(Inlet::touched))
    }

    /// Frames held, and their bytes.
    pub(super) fn holds(&self) -> (usize, usize) {
        self.inlets
            .iter()
            .map(Inlet::holds)
            .fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
    }

    /// Verifies the invariants.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        self.inlets.iter().try_for_each(Inlet::check)?;
        match self.phase {
            Phase::Over if !self.inlets.is_empty() || !self.outlets.is_empty() => {
                Err("a node that is over holds ports")
            }
            Phase::Running if self.epoch.is_none() => Err("a node runs that is not hosted"),
            Phase::Running if self.inlets.iter().any(Inlet::holds_back) => {
                Err("a running node holds frames back")
            }
            _ => Ok(()),
        }
    }
}
