//! `each` and `zip`: streams of which frame i counts once all of them have it (rule 4).

use crate::payload::Payload;

use super::{Ports, Step};
use crate::resolver::inlet::Inlet;

pub(super) fn each<P: Payload>(made: &mut u32, ports: &mut Ports<'_, P>) -> Step {
    let count = ports.outlets.len() - 1;
    while ports.inlets[..count].iter().all(Inlet::holds_back) {
        let key = ports.place.key.child(*made);
        *made += 1;
        for port in 0..count {
            if let Some((_, payload)) = ports.inlets[port].hand_on() {
                ports.inner_frame(port, &key, payload);
            }
        }
    }
    if !shortest_is_over(&ports.inlets[..count]) {
        return Step::Going;
    }
    ports.end_with(count, u64::from(*made));
    Step::Over
}

pub(super) fn zip<P: Payload>(ports: &mut Ports<'_, P>) -> Step {
    let streams = ports.outlets.len();
    while ports.inlets[..streams].iter().all(Inlet::holds_back) {
        for port in 0..streams {
            if let Some((_, payload)) = ports.inlets[port].hand_on() {
                ports.frame(port, payload);
            }
        }
    }
    if !shortest_is_over(&ports.inlets[..streams]) {
        return Step::Going;
    }
    (0..streams).for_each(|port| ports.end(port));
    Step::Over
}

fn shortest_is_over<P: Payload>(inlets: &[Inlet<P>]) -> bool {
    inlets
        .iter()
        .any(|inlet| inlet.ended().is_some() && !inlet.holds_back())
}
