//! What a hub is told once.

use std::time::Duration;

use omniflow_link::Tls;

use crate::journal::JournalConfig;
use crate::replication::ReplicationConfig;

/// Bounds and names of one cluster's hub.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// The cluster's name: workers of another one refuse the link.
    pub cluster: String,
    /// The leader's number.
    pub term: u64,
    /// Name of the placement policy.
    pub policy: String,
    /// Jobs that are accepted and have not ended.
    pub queue_limit: usize,
    /// The longest deadline, and that of jobs without one.
    pub max_deadline_ms: u64,
    /// Bytes of all inputs of a job together.
    pub max_input_bytes: usize,
    /// Bytes of the inputs of all jobs that have not ended; also what may wait on its way to workers.
    pub max_held_input_bytes: usize,
    /// Bytes of the results of all jobs whose records are kept.
    pub max_kept_result_bytes: usize,
    /// How long a job goes on whose client is gone without a word.
    pub client_grace_ms: u64,
    /// How long an ended job's results and record are kept.
    pub result_ttl_ms: u64,
    /// Attempts of a node before its job fails.
    pub max_attempts: u32,
    /// Where accepted jobs are written, so that they survive this process; none: they don't.
    pub journal: Option<JournalConfig>,
    /// How a standby follows the journal; none: there is no standby.
    pub replication: Option<ReplicationConfig>,
    /// How often a worker is asked whether it is there.
    pub heartbeat: Duration,
    /// A worker that is silent for longer is dead.
    pub heartbeat_limit: Duration,
    /// A worker whose link stays closed for longer is dead.
    pub reconnect: Duration,
    /// The scheduler's certificate, for links over TCP; none: they are plain.
    pub tls: Option<Tls>,
}

impl HubConfig {
    /// The defaults.
    pub fn new(cluster: impl Into<String>, term: u64) -> Self {
        Self {
            cluster: cluster.into(),
            term,
            policy: "least-outstanding".to_owned(),
            queue_limit: 100_000,
            max_deadline_ms: 600_000,
            max_input_bytes: 64 << 20,
            max_held_input_bytes: 2 << 30,
            max_kept_result_bytes: 2 << 30,
            client_grace_ms: 5_000,
            result_ttl_ms: 60_000,
            max_attempts: 3,
            journal: None,
            replication: None,
            heartbeat: Duration::from_secs(1),
            heartbeat_limit: Duration::from_secs(10),
            reconnect: Duration::from_secs(2),
            tls: None,
        }
    }
}
