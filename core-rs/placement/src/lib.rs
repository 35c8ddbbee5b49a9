//! Choice of a worker for a node: the ledger of what each worker has been given, the policy trait, and the policies.
//!
//! Pure: no clock, no I/O. The live scheduler and the simulator run the same objects. Load counts from dispatch on, not
//! from a worker's report, so that a burst of decisions does not herd onto the one worker that looked idle.

mod id;
mod least_outstanding;
mod ledger;
mod policy;
mod round_robin;

pub use id::{RoleId, WorkerId};
pub use ledger::{Broken, Ledger, Load};
pub use policy::{Feature, Policy, Request, UnknownPolicy, policy, policy_names};
