//! `least-outstanding`: the worker with the fewest activations that have not ended.

use crate::WorkerId;
use crate::ledger::Ledger;
use crate::policy::{Policy, Request};

/// Takes the worker with the fewest outstanding activations; of equals, the one that was given something longest ago.
pub(crate) struct LeastOutstanding;

impl Policy for LeastOutstanding {
    fn name(&self) -> &'static str {
        "least-outstanding"
    }

    fn choose(&mut self, request: &Request<'_>, ledger: &Ledger) -> Option<WorkerId> {
        ledger.least_outstanding(request.role)
    }
}
