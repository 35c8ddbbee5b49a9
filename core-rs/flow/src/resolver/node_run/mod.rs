//! One node for one key at one place: from its first frame to the end of its activation (rules 1, 2, 5).

mod firing;
mod leaving;

use crate::effect::{Arrival, Effect};
use crate::ids::PortIx;
use crate::item::Item;
use crate::payload::Payload;
use crate::spec::{NodeSpec, Origin, PortSpec};

use super::control::{Control, InnerTaking};
use super::delivered::Given;
use super::few::Few;
use super::inlet::Inlet;
use super::outlet::{Lane, Outlet};
use super::place::Place;

/// See the module.
#[derive(Debug)]
pub(super) struct NodeRun<P> {
    /// `None`: not hosted here (yet); what arrives is parked.
    epoch: Option<u32>,
    phase: Phase,
    /// By input port; empty once over.
    inlets: Few<Inlet<P>>,
    /// By output port; empty once over.
    outlets: Few<Outlet>,
    /// Once over: what it was given by resumable nodes, which may have to go on from that for others (rule 12).
    given: Option<Given<P>>,
    /// What runs here instead of at an engine.
    control: Option<Box<Control<P>>>,
    /// How many ports of the first alternative are known to be ready, from its first one on.
    ready: usize,
    /// Whether CLOSED came on any port: else nothing can be dead.
    any_closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running,
    Over,
}

impl<P: Payload> NodeRun<P> {
    /// `keeps`: input ports at which what comes is kept (rule 12).
    pub(super) fn new(spec: &NodeSpec, keeps: &[PortIx]) -> Self {
        let inlet = |(index, port): (usize, &PortSpec)| {
            let keeps = keeps.contains(&PortIx(index as u32));
            Inlet::new(port.value_type.stream, port.value_type.optional).keeping(keeps)
        };
        Self {
            epoch: None,
            phase: Phase::Waiting,
            inlets: spec.inputs.iter().enumerate().map(inlet).collect(),
            outlets: spec.outputs.iter().map(Outlet::new).collect(),
            given: None,
            control: Control::new(spec).map(Box::new),
            ready: 0,
            any_closed: false,
        }
    }

    pub(super) fn epoch(&self) -> Option<u32> {
        self.epoch
    }

    /// What came on an input port of a resumable node's frames, and whether END did.
    pub(super) fn delivered(&self, port: PortIx) -> Option<(&[P], bool)> {
        if let Some(inlet) = self.inlets.get(port.index()) {
            return inlet.delivered();
        }
        let mut given = self.given.iter().flatten();
        let (_, given) = given.find(|(of, _)| *of == port)?;
        Some((&given.frames, given.ended))
    }

    pub(super) fn running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Whether a role's method runs for it now.
    pub(super) fn at_an_engine(&self) -> bool {
        self.running() && self.control.is_none()
    }

    pub(super) fn over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Runs here from now on. What was parked counts as one arrival: the first complete alternative wins.
    pub(super) fn host(&mut self, place: Place<'_>, epoch: u32, effects: &mut Vec<Effect<P>>) {
        self.epoch = Some(epoch);
        self.evaluate(place, effects);
    }

    /// Something from outside of the scope, known before the run began.
    pub(super) fn know(&mut self, port: PortIx, epoch: u32, item: Item<P>) {
        if let Some(inlet) = self.inlets.get_mut(port.index()) {
            self.any_closed |= matches!(item, Item::Closed);
            // It was taken in before, from the same edge: it fits.
            let _ = inlet.take(epoch, item);
        }
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
        let closed = matches!(item, Item::Closed);
        let taking = inlet.take(epoch, item)?;
        if let Some(seq) = taking.contradiction
            && let Some(edge) = place.graph.edge_into(place.node, port)
        {
            effects.push(Effect::Contradiction {
                edge,
                key: place.key.clone(),
                seq,
            });
        }
        if taking.arrival == Arrival::Taken {
            self.any_closed |= closed;
            let came = taking.turned || self.control.is_some();
            return Ok(self.go_on(place, Some(port), came, effects));
        }
        Ok(taking.arrival)
    }

    /// Takes in what leaves a scope: it is of the key inside of the run's that has this index.
    pub(super) fn accept_inner(
        &mut self,
        place: Place<'_>,
        port: PortIx,
        index: u32,
        item: Item<P>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<Arrival, &'static str> {
        let Some(control) = self.control.as_mut().filter(|_| self.phase != Phase::Over) else {
            return Ok(Arrival::Unwanted);
        };
        match control.take_inner(port, index, item)? {
            InnerTaking::Duplicate => Ok(Arrival::Duplicate),
            InnerTaking::Contradiction => {
                if let Some(edge) = place.graph.edge_into(place.node, port) {
                    effects.push(Effect::Contradiction {
                        edge,
                        key: place.key.child(index),
                        seq: 0,
                    });
                }
                Ok(Arrival::Duplicate)
            }
            InnerTaking::Taken => Ok(self.go_on(place, None, true, effects)),
        }
    }

    /// Something was taken in: does what follows from it.
    fn go_on(
        &mut self,
        place: Place<'_>,
        port: Option<PortIx>,
        came: bool,
        effects: &mut Vec<Effect<P>>,
    ) -> Arrival {
        if self.phase == Phase::Running {
            match (self.control.is_some(), port) {
                (true, _) => self.advance(place, port, effects),
                (false, Some(port)) => self.pass_on(place, port, effects),
                (false, None) => {}
            }
        } else if self.epoch.is_none() {
            if let Some(epoch) = place.acts_under.filter(|_| came) {
                self.act_for_unbound(place, epoch, port, effects);
            }
            return Arrival::Parked;
        } else if came {
            self.evaluate(place, effects);
        }
        Arrival::Taken
    }

    /// The node is not bound: the scheduler closes it when it is dead, and asks for a bind when its branch is taken.
    fn act_for_unbound(
        &mut self,
        place: Place<'_>,
        epoch: u32,
        port: Option<PortIx>,
        effects: &mut Vec<Effect<P>>,
    ) {
        if self.phase == Phase::Over {
            return;
        }
        if self.dead(place) {
            self.close(place, epoch, effects);
            if place.spec.kind.is_role()
                && place.graph.layout().forwards(place.node)
                && let Some((node, key)) = place.bound_at()
            {
                // It is closed, but others read what runs at its side.
                effects.push(Effect::Wanted { node, key });
            }
            return;
        }
        let is_gate = port.is_some_and(|port| place.spec.inputs[port.index()].gate);
        let open = |port: PortIx| self.inlets[port.index()].ready();
        if let Some((node, key)) = place.bound_at()
            && is_gate
            && place.spec.gates().all(open)
        {
            effects.push(Effect::Wanted { node, key });
        }
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

    /// Whether it counts as open: hosted or reached, and not over.
    pub(super) fn open(&self) -> bool {
        self.phase != Phase::Over
            && (self.epoch.is_some()
                || self.inlets.iter().any(Inlet::touched)
                || self
                    .control
                    .as_deref()
                    .is_some_and(|control| control.holds().0 > 0))
    }

    /// Whether frames on a port wait to be handed on.
    pub(super) fn waits(&self, port: PortIx) -> bool {
        let inlet = self.inlets.get(port.index());
        inlet.is_some_and(Inlet::holds_back)
    }

    /// Frames held, and their bytes.
    pub(super) fn holds(&self) -> (usize, usize) {
        let control = self.control.iter().map(|control| control.holds());
        let holds = self.inlets.iter().map(Inlet::holds).chain(control);
        holds.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
    }

    /// Verifies the invariants.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        self.inlets.iter().try_for_each(Inlet::check)?;
        match self.phase {
            Phase::Over if !self.inlets.is_empty() || !self.outlets.is_empty() => {
                Err("a node that is over holds ports")
            }
            Phase::Running if self.epoch.is_none() => Err("a node runs that is not hosted"),
            Phase::Running
                if self.control.is_none() && self.inlets.iter().any(Inlet::holds_back) =>
            {
                Err("a running node holds frames back")
            }
            _ => Ok(()),
        }
    }
}
