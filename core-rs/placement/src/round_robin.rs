//! `round-robin`: each worker of a role in turn.

use rustc_hash::FxHashMap;

use crate::ledger::Ledger;
use crate::policy::{Policy, Request};
use crate::{RoleId, WorkerId};

/// Takes the candidates of a role in the order of their numbers, from the one after the last choice.
#[derive(Default)]
pub(crate) struct RoundRobin {
    last: FxHashMap<RoleId, WorkerId>,
}

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn choose(&mut self, request: &Request<'_>, ledger: &Ledger) -> Option<WorkerId> {
        let last = self.last.get(&request.role).copied();
        let chosen = ledger.candidate_after(request.role, last)?;
        self.last.insert(request.role, chosen);
        Some(chosen)
    }
}
