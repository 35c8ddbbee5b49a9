//! `route`: opens the gates of the branches that a choice names (rule 6).

use crate::effect::Fault;
use crate::payload::Payload;
use crate::spec::NodeKind;

use super::{Ports, Step};

pub(super) fn route<P: Payload>(ports: &mut Ports<'_, P>) -> Step {
    let NodeKind::Route {
        branches,
        exclusive,
    } = &ports.place.spec.kind
    else {
        return Step::Over;
    };
    let Some((_, choice)) = ports.inlets[0].hand_on() else {
        return Step::Going;
    };
    let name = || ports.place.spec.name.clone();
    let Some(chosen) = choice.names() else {
        return Step::Failed(Fault::BadValue {
            name: name(),
            wanted: "a choice: a text, or a list of texts",
        });
    };
    let bad = |choice: String| {
        Step::Failed(Fault::BadRoute {
            name: name(),
            choice,
            branches: branches.clone(),
        })
    };
    if let Some(unknown) = chosen.iter().find(|chosen| !branches.contains(chosen)) {
        return bad(format!("`{unknown}`"));
    }
    if *exclusive && chosen.len() != 1 {
        return bad(format!("{} names at once", chosen.len()));
    }
    for (port, branch) in branches.iter().enumerate() {
        match chosen.contains(branch) {
            true => ports.frame(port, choice.clone()),
            false => ports.close(port),
        }
    }
    Step::Over
}
