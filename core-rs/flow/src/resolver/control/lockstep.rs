//! `each` and `zip`: streams of which frame i counts once all of them have it (rule 4).

use crate::payload::Payload;

use super::{Ports, Step};
use crate::resolver::inlet::Inlet;

pub(super) fn each<P: Payload>(made: &mut u32, ports: &mut Ports<'_, P>) -> Step {
    let count = ports.outlets.len() - 1;
    while let Some(row) = next_row(&mut ports.inlets[..count]) {
        let key = ports.place.key.child(*made);
        *made += 1;
        for (port, payload) in row.into_iter().enumerate() {
            ports.inner_frame(port, &key, payload);
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
    while let Some(row) = next_row(&mut ports.inlets[..streams]) {
        for (port, payload) in row.into_iter().enumerate() {
            ports.frame(port, payload);
        }
    }
    if !shortest_is_over(&ports.inlets[..streams]) {
        return Step::Going;
    }
    (0..streams).for_each(|port| ports.end(port));
    Step::Over
}

fn next_row<P: Payload>(inlets: &mut [Inlet<P>]) -> Option<Vec<P>> {
    if !inlets.iter().all(Inlet::holds_back) {
        return None;
    }
    inlets
        .iter_mut()
        .map(|inlet| inlet.hand_on().map(|(_, payload)| payload))
        .collect()
}

fn shortest_is_over<P: Payload>(inlets: &[Inlet<P>]) -> bool {
    inlets
        .iter()
        .any(|inlet| inlet.ended().is_some() && !inlet.holds_back())
}
