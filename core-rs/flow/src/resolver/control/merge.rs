//! `merge`: all frames, numbered by arrival (rule 8). `any_of`: those of the input that came first (rule 1).

use crate::ids::PortIx;
use crate::payload::Payload;

use super::{Ports, Step};

pub(super) fn merge<P: Payload>(ports: &mut Ports<'_, P>, came: Option<PortIx>) -> Step {
    if let Some(port) = came {
        let inlet = &ports.inlets[port.index()];
        if inlet.holds_back() && inlet.ended().is_none() {
            pass_on(port.index(), ports);
            return Step::Going;
        }
    }
    let (mut open, mut closed) = (0, 0);
    let merged = values(ports);
    for port in 0..merged {
        pass_on(port, ports);
        let inlet = &ports.inlets[port];
        closed += usize::from(inlet.closed());
        open += usize::from(!inlet.closed() && inlet.ended().is_none());
    }
    if open > 0 {
        return Step::Going;
    }
    if closed < merged {
        ports.end(0);
    }
    Step::Over
}

pub(super) fn any_of<P: Payload>(chosen: &mut Option<usize>, ports: &mut Ports<'_, P>) -> Step {
    let first = |ports: &Ports<'_, P>| (0..values(ports)).find(|port| ports.inlets[*port].ready());
    let Some(port) = chosen.or_else(|| first(ports)) else {
        return Step::Going;
    };
    if chosen.replace(port).is_none() {
        for other in (0..values(ports)).filter(|other| *other != port) {
            if ports.inlets[other].refuse() {
                ports.place.unwanted(other, ports.effects);
            }
        }
    }
    pass_on(port, ports);
    if ports.inlets[port].ended().is_none() {
        return Step::Going;
    }
    if ports.inlets[port].is_stream() {
        ports.end(0);
    }
    Step::Over
}

fn pass_on<P: Payload>(port: usize, ports: &mut Ports<'_, P>) {
    while let Some((_, payload)) = ports.inlets[port].hand_on() {
        ports.frame(0, payload);
    }
}

/// How many inputs are no gates; those stand last.
fn values<P: Payload>(ports: &Ports<'_, P>) -> usize {
    let inputs = &ports.place.spec.inputs;
    inputs.iter().filter(|port| !port.gate).count()
}
