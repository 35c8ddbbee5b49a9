//! One node for one key at one place: from its first frame to the end of its activation (rules 1, 2, 5).

use crate::effect::{ActivationInput, Arrival, Effect, InputValue};
use crate::ids::{EdgeId, PortIx};
use crate::item::Item;
use crate::payload::Payload;
use crate::spec::{NodeKind, NodeSpec, Origin, PortSpec};

use super::control::{Control, InnerTaking, Ports, Step};
use super::inlet::Inlet;
use super::outlet::{Lane, Outlet, OutletError};
use super::place::Place;

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
    /// What runs here instead of at an engine.
    control: Option<Control<P>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running,
    Over,
}

impl<P: Payload> NodeRun<P> {
    pub(super) fn new(spec: &NodeSpec) -> Self {
        let inlet = |port: &PortSpec| Inlet::new(port.value_type.stream, port.value_type.optional);
        Self {
            epoch: None,
            phase: Phase::Waiting,
            inlets: spec.inputs.iter().map(inlet).collect(),
            outlets: spec.outputs.iter().map(Outlet::new).collect(),
            control: Control::new(spec),
        }
    }

    pub(super) fn epoch(&self) -> Option<u32> {
        self.epoch
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
        if taking.arrival == Arrival::Taken {
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
                (true, _) => self.advance(place, effects),
                (false, Some(port)) => self.pass_on(place, port, effects),
                (false, None) => {}
            }
        } else if self.epoch.is_none() {
            if place.scheduler && came {
                self.act_for_unbound(place, port, effects);
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
        port: Option<PortIx>,
        effects: &mut Vec<Effect<P>>,
    ) {
        if self.phase == Phase::Over {
            return;
        }
        if self.dead(place) {
            self.close(place, 0, effects);
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

    /// Fires the first complete alternative, or closes the node when none can fire any more.
    fn evaluate(&mut self, place: Place<'_>, effects: &mut Vec<Effect<P>>) {
        let Some(epoch) = self.epoch.filter(|_| self.phase == Phase::Waiting) else {
            return;
        };
        let ready = |port: &PortIx| self.inlets[port.index()].ready();
        if self.control.is_none() {
            let complete = |ports: &Vec<PortIx>| ports.iter().all(ready);
            if let Some(alternative) = alternatives(place).iter().position(complete) {
                return self.fire(place, epoch, alternative, effects);
            }
        } else if self.may_begin(place) {
            return self.fire_control(place, effects);
        }
        if self.dead(place) {
            self.close(place, epoch, effects);
        }
    }

    /// Whether a control node may: its gates are open, and it has the heads of what it reads in its own scope. `any_of` is
    /// content with one; `merge` and what gathers a scope are at once: the first to come may be the only one for long.
    fn may_begin(&self, place: Place<'_>) -> bool {
        let ports = || place.spec.inputs.iter().zip(&self.inlets);
        let mut gates = ports().filter(|(port, _)| port.gate);
        let mut values = ports().filter(|(port, _)| !port.gate);
        let at_once = match place.spec.kind {
            NodeKind::Merge | NodeKind::Ordered { .. } | NodeKind::Unordered { .. } => true,
            NodeKind::Collect { .. } => place.closes().is_some(),
            _ => false,
        };
        let begun = match place.spec.kind {
            _ if at_once => true,
            NodeKind::AnyOf => values.any(|(_, inlet)| inlet.ready()),
            NodeKind::Loop { carried, .. } => values
                .take(carried as usize)
                .all(|(_, inlet)| inlet.ready()),
            _ => values.all(|(_, inlet)| inlet.ready()),
        };
        begun && gates.all(|(_, inlet)| inlet.ready()) && !self.dead(place)
    }

    /// Whether it can never fire, whatever comes (rule 2).
    fn dead(&self, place: Place<'_>) -> bool {
        let dead = |port: &PortIx| self.inlets[port.index()].dead();
        if self.control.is_none() {
            let closed = |ports: &Vec<PortIx>| ports.iter().any(dead);
            return alternatives(place).iter().all(closed);
        }
        if matches!(place.spec.kind, NodeKind::Merge | NodeKind::AnyOf) {
            let mut merged = place.spec.inputs.iter().zip(&self.inlets);
            return place.spec.gates().any(|port| dead(&port))
                || merged.all(|(port, inlet)| port.gate || inlet.closed());
        }
        self.inlets.iter().any(Inlet::dead)
    }

    fn fire(
        &mut self,
        place: Place<'_>,
        epoch: u32,
        alternative: usize,
        effects: &mut Vec<Effect<P>>,
    ) {
        self.phase = Phase::Running;
        let ports = &alternatives(place)[alternative];
        let read = ports
            .iter()
            .filter(|port| !place.spec.inputs[port.index()].gate);
        let inputs = read.filter_map(|port| self.input(*port)).collect();
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
            let read = ports.contains(&PortIx(port as u32)) && !place.spec.inputs[port].gate;
            if !read && inlet.refuse() {
                place.unwanted(port, effects);
            }
        }
        self.tell_unneeded(place, effects);
    }

    fn fire_control(&mut self, place: Place<'_>, effects: &mut Vec<Effect<P>>) {
        self.phase = Phase::Running;
        if !self.wanted(place) {
            return self.leave(place, effects);
        }
        if let (Some(control), mut ports) = self.split(place, effects) {
            control.fire(&mut ports);
        }
        self.advance(place, effects);
    }

    /// Lets a control node do what it can.
    fn advance(&mut self, place: Place<'_>, effects: &mut Vec<Effect<P>>) {
        let (Some(control), mut ports) = self.split(place, effects) else {
            return;
        };
        match control.advance(&mut ports) {
            Step::Going => {}
            Step::Over => self.close_outputs(place, effects),
            Step::Failed(fault) => {
                effects.push(Effect::Failed {
                    node: place.node,
                    key: place.key.clone(),
                    fault,
                });
                self.leave(place, effects);
            }
        }
    }

    fn split<'a>(
        &'a mut self,
        place: Place<'a>,
        effects: &'a mut Vec<Effect<P>>,
    ) -> (Option<&'a mut Control<P>>, Ports<'a, P>) {
        let ports = Ports {
            place,
            epoch: self.epoch.unwrap_or_default(),
            inlets: &mut self.inlets,
            outlets: &mut self.outlets,
            effects,
        };
        (self.control.as_mut(), ports)
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
        self.epoch = Some(epoch);
        if self.control.is_none() {
            effects.push(Effect::NodeClosed {
                node: place.node,
                key: place.key.clone(),
            });
        }
        self.close_outputs(place, effects);
    }

    /// Closes the outputs that have not ended. Those into a scope that never begins need no mark.
    fn close_outputs(&mut self, place: Place<'_>, effects: &mut Vec<Effect<P>>) {
        let epoch = self.epoch.unwrap_or_default();
        for (port, outlet) in self.outlets.iter_mut().enumerate() {
            if outlet.is_over() || !place.leaves_in_own_scope(port) {
                continue;
            }
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
        if self.control.take().is_some()
            && let Some(scope) = place.closes()
        {
            effects.push(Effect::ScopeLeft {
                scope,
                key: place.key.clone(),
                by: place.node,
            });
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
        let Some(outlet) = self.outlets.get_mut(port.index()) else {
            return;
        };
        // What goes into a scope goes to all of its keys, whatever one of them says.
        if !place.leaves_in_own_scope(port.index()) || !outlet.refuse(edge) {
            return;
        }
        if self.control.is_none() {
            self.tell_unneeded(place, effects);
        } else if self.running() && !self.wanted(place) {
            self.leave(place, effects);
        }
    }

    fn wanted(&self, place: Place<'_>) -> bool {
        let wanted = |(port, outlet): (usize, &Outlet)| {
            place.leaves_in_own_scope(port) && outlet.wanted(place.edges_out(port))
        };
        self.outlets.iter().enumerate().any(wanted)
    }

    fn tell_unneeded(&self, place: Place<'_>, effects: &mut Vec<Effect<P>>) {
        if self.running() && !self.wanted(place) {
            effects.push(Effect::Unneeded {
                node: place.node,
                key: place.key.clone(),
            });
        }
    }

    /// Whether it counts as open: hosted or reached, and not over.
    pub(super) fn open(&self) -> bool {
        self.phase != Phase::Over
            && (self.epoch.is_some()
                || self.inlets.iter().any(Inlet::touched)
                || self
                    .control
                    .as_ref()
                    .is_some_and(|control| control.holds().0 > 0))
    }

    /// Frames held, and their bytes.
    pub(super) fn holds(&self) -> (usize, usize) {
        let control = self.control.iter().map(Control::holds);
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

/// OR of ANDs. A role without a trigger fires at once.
fn alternatives<'a>(place: Place<'a>) -> &'a [Vec<PortIx>] {
    static AT_ONCE: [Vec<PortIx>; 1] = [Vec::new()];
    match place.spec.trigger.is_empty() {
        true => &AT_ONCE,
        false => &place.spec.trigger,
    }
}
