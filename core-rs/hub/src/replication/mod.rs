//! The journal on two machines (rule 17): a standby follows the leader's, and clients are told what both have.
//!
//! - `agreement`: what may be told, and what etcd has to be asked first; pure. `standing`: the hub's turns around it.
//! - `leader`: a standby's link in the hub, from its greeting to its end. `messages`: what goes over it.
//! - `standby`: the other end, before it leads. `copying`: what it does with what arrives.
//!
//! Nothing here makes a round trip for a job: the leader sends what a turn of its journal's thread writes, the standby writes
//! what has arrived and acknowledges its last record.

pub(crate) mod agreement;
mod copying;
pub(crate) mod leader;
mod messages;
mod standby;
mod standing;
#[cfg(test)]
mod tests;

use std::time::Duration;

use omniflow_link::Address;

pub use agreement::{Mark, Marked};
pub use standby::{Standby, StandbyConfig};
pub(crate) use standing::Replication;

/// How a leader lets a standby follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationConfig {
    /// Where the standby reaches it.
    pub listen: Address,
    /// How long clients wait for a standby that does not answer: then it is taken out of the set.
    pub limit: Duration,
}
