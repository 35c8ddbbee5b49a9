//! When a run begins, and what it reads then (rules 1 and 2).

use crate::effect::{ActivationInput, Effect, InputValue};
use crate::ids::PortIx;
use crate::payload::Payload;
use crate::resolver::control::{Control, Ports, Step};
use crate::resolver::inlet::Inlet;
use crate::resolver::place::Place;
use crate::spec::NodeKind;

use super::{NodeRun, Phase};

impl<P: Payload> NodeRun<P> {
    /// Fires the first complete alternative, or closes the node when none can fire any more.
    pub(super) fn evaluate(&mut self, place: Place<'_>, effects: &mut Vec<Effect<P>>) {
        let Some(epoch) = self.epoch.filter(|_| self.phase == Phase::Waiting) else {
            return;
        };
        if self.control.is_none() {
            if let Some(alternative) = self.complete(place) {
                return self.fire(place, epoch, alternative, effects);
            }
        } else if self.may_begin(place) {
            return self.fire_control(place, effects);
        }
        if self.dead(place) {
            self.close(place, epoch, effects);
        }
    }

    /// The first complete alternative. Of a lone one, no port is looked at again once it is ready: a join of many costs as
    /// much as it has ports.
    fn complete(&mut self, place: Place<'_>) -> Option<usize> {
        let ready = |port: &PortIx| self.inlets[port.index()].ready();
        let [only] = alternatives(place) else {
            let complete = |ports: &Vec<PortIx>| ports.iter().all(ready);
            return alternatives(place).iter().position(complete);
        };
        self.ready += only[self.ready..]
            .iter()
            .take_while(|port| ready(port))
            .count();
        (self.ready == only.len()).then_some(0)
    }

    /// Whether a control node may: its gates are open, and it has the heads of what it reads in its own scope. `any_of` is
    /// content with one; `merge` and what gathers a scope are at once: the first to come may be the only one for long.
    fn may_begin(&self, place: Place<'_>) -> bool {
        let ports = || place.spec.inputs.iter().zip(self.inlets.iter());
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
    pub(super) fn dead(&self, place: Place<'_>) -> bool {
        if !self.any_closed {
            return false;
        }
        let dead = |port: &PortIx| self.inlets[port.index()].dead();
        if self.control.is_none() {
            let closed = |ports: &Vec<PortIx>| ports.iter().any(dead);
            return alternatives(place).iter().all(closed);
        }
        if matches!(place.spec.kind, NodeKind::Merge | NodeKind::AnyOf) {
            let mut merged = place.spec.inputs.iter().zip(self.inlets.iter());
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
        let mut inputs = Vec::with_capacity(ports.len());
        for port in ports {
            if !place.spec.inputs[port.index()].gate {
                inputs.extend(self.input(*port));
            }
        }
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
        let all = ports.len() == self.inlets.len();
        for (port, inlet) in self.inlets.iter_mut().enumerate() {
            let read = all || ports.contains(&PortIx(port as u32));
            let read = read && !place.spec.inputs[port].gate;
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
        self.advance(place, None, effects);
    }

    /// Lets a control node do what it can, after something has come on a port in its own scope or elsewhere.
    pub(super) fn advance(
        &mut self,
        place: Place<'_>,
        came: Option<PortIx>,
        effects: &mut Vec<Effect<P>>,
    ) {
        let (Some(control), mut ports) = self.split(place, effects) else {
            return;
        };
        match control.advance(&mut ports, came) {
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
        (self.control.as_deref_mut(), ports)
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
    pub(super) fn pass_on(&mut self, place: Place<'_>, port: PortIx, effects: &mut Vec<Effect<P>>) {
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
}

/// OR of ANDs. A role without a trigger fires at once.
fn alternatives<'a>(place: Place<'a>) -> &'a [Vec<PortIx>] {
    static AT_ONCE: [Vec<PortIx>; 1] = [Vec::new()];
    match place.spec.trigger.is_empty() {
        true => &AT_ONCE,
        false => &place.spec.trigger,
    }
}
