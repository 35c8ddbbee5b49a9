//! The interface of a policy, and the policies by name.

use crate::least_outstanding::LeastOutstanding;
use crate::ledger::Ledger;
use crate::round_robin::RoundRobin;
use crate::{RoleId, WorkerId};

/// One measured or predicted property of a node's inputs, e.g. `prompt_tokens`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feature<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value.
    pub value: f64,
}

/// What a policy is asked: who shall run this node of this job?
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The job.
    pub job: u64,
    /// The node, as its index in the job's flow.
    pub node: u32,
    /// The role that the node uses.
    pub role: RoleId,
    /// Predicted work of the node, in seconds of a worker; 1.0 where nothing is known.
    pub work: f64,
    /// What is known of the node's inputs.
    pub features: &'a [Feature<'a>],
}

/// Chooses workers. The candidates of a request are `ledger.candidates(request.role)`.
///
/// The ledger already counts every dispatch; a policy that keeps a state of its own hears of the same changes.
pub trait Policy: Send {
    /// The name that selects it.
    fn name(&self) -> &'static str;

    /// A candidate for the request, or none when the role has no candidate.
    fn choose(&mut self, request: &Request<'_>, ledger: &Ledger) -> Option<WorkerId>;

    /// The request was given to the worker; the ledger counts it from now on.
    fn dispatched(&mut self, _request: &Request<'_>, _worker: WorkerId) {}

    /// An activation that had been given to the worker is over, well or not.
    fn ended(&mut self, _role: RoleId, _worker: WorkerId, _work: f64) {}

    /// The worker is gone, with all that it held for this policy.
    fn left(&mut self, _worker: WorkerId) {}
}

/// A policy was asked for that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown placement policy {name:?}; known are {}", policy_names().join(", "))]
pub struct UnknownPolicy {
    /// What was asked for.
    pub name: String,
}

/// The names that [`policy`] knows.
pub const fn policy_names() -> &'static [&'static str] {
    &["least-outstanding", "round-robin"]
}

/// The policy of that name.
pub fn policy(name: &str) -> Result<Box<dyn Policy>, UnknownPolicy> {
    match name {
        "least-outstanding" => Ok(Box::new(LeastOutstanding)),
        "round-robin" => Ok(Box::new(RoundRobin::default())),
        _ => Err(UnknownPolicy {
            name: name.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_policy_exists_and_knows_its_name() {
        for name in policy_names() {
            assert_eq!(policy(name).unwrap().name(), *name);
        }
    }

    #[test]
    fn an_unknown_policy_is_refused_with_the_known_ones() {
        let Err(error) = policy("fastest") else {
            panic!("accepted")
        };
        let message = error.to_string();
        assert!(message.contains("\"fastest\""), "{message}");
        assert!(
            message.contains("least-outstanding, round-robin"),
            "{message}"
        );
    }
}
