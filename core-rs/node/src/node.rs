//! A worker's data path, as the worker holds it.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use omniflow_link::{Address, Endpoint, LinkConfig, Tls};
use omniflow_wire::v1;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::sync::mpsc::unbounded_channel;

use crate::core::{Core, Keeping};
use crate::error::NodeError;
use crate::handle::Ready;
use crate::io::{self, Identity, Shared};
use crate::ready::ReadyQueue;
use crate::sharing::Sharing;
use crate::spill::Spill;

/// Bounds and names.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// The cluster's name; peers of another one are refused.
    pub cluster: String,
    /// The most bytes of sent frames that are kept in memory for consumers, over all jobs.
    pub retention_bytes: usize,
    /// The most bytes of them on disk, once memory is full; 0: none.
    pub retention_disk_bytes: u64,
    /// The most bytes of them, in memory and on disk, that are one job's.
    pub retention_job_bytes: usize,
    /// Where files for them are made, which have no names.
    pub retention_folder: PathBuf,
    /// The most bytes of big payloads that lie in memory which other workers of the host read in place; taken as they come.
    /// 0: they are copied to them.
    pub arena_bytes: u64,
    /// How long a reader may be silent before what it was lent is free again.
    pub lease: Duration,
    /// A peer that is silent for longer is gone.
    pub heartbeat_limit: Duration,
    /// How long a link outlives its connection.
    pub reconnect: Duration,
    /// This worker's certificate, for links over TCP; none: they are plain.
    pub tls: Option<Tls>,
}

/// A silent peer is asked so many times in the limit whether it is there.
const QUESTIONS: u32 = 4;

impl NodeConfig {
    /// The defaults.
    pub fn new(cluster: impl Into<String>) -> Self {
        Self {
            cluster: cluster.into(),
            retention_bytes: 256 << 20,
            retention_disk_bytes: 0,
            retention_job_bytes: usize::MAX,
            retention_folder: std::env::temp_dir(),
            arena_bytes: 512 << 20,
            lease: Duration::from_secs(60),
            heartbeat_limit: Duration::from_secs(10),
            reconnect: Duration::from_secs(2),
            tls: None,
        }
    }

    fn endpoint(&self) -> Endpoint {
        let links = LinkConfig {
            // What waits is retained too, and may wait twice after a resend.
            max_queued_bytes: self.retention_bytes.saturating_mul(4).max(64 << 20),
            heartbeat: self.heartbeat_limit / QUESTIONS,
            heartbeat_limit: self.heartbeat_limit,
            resume_within: self.reconnect,
            ..LinkConfig::default()
        };
        match &self.tls {
            Some(tls) => Endpoint::secured(links, tls.clone()),
            None => Endpoint::new(links),
        }
    }
}

/// Links, resolvers and ready queues of one worker. Listens once made.
pub struct Node {
    shared: Arc<Shared>,
    addresses: Vec<String>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Node {
    /// Listens at every address, for the worker that `info` describes.
    pub fn new(
        info: &v1::WorkerInfo,
        listen: &[Address],
        config: &NodeConfig,
    ) -> Result<Self, NodeError> {
        if info.name.is_empty() {
            return Err(NodeError::InvalidArgument(
                "WorkerInfo.name is empty: a worker needs a name that is unique in its cluster"
                    .to_owned(),
            ));
        }
        if config.heartbeat_limit.is_zero() {
            return Err(NodeError::InvalidArgument(
                "heartbeat_limit is 0: every link would end at once".to_owned(),
            ));
        }
        let roles = info.roles.iter();
        let queues: FxHashMap<String, Arc<ReadyQueue>> = roles
            .map(|role| (role.name.clone(), Arc::default()))
            .collect();
        let identity = Identity {
            cluster: config.cluster.clone(),
            name: info.name.clone(),
            incarnation: info.incarnation.clone(),
            host: info.host.clone(),
        };
        let sharing = Sharing::new(&identity, config.arena_bytes, config.lease);
        let core = Core::new(
            &info.name,
            &info.incarnation,
            queues,
            Keeping {
                memory: config.retention_bytes,
                of_job: config.retention_job_bytes,
                spill: Spill::new(config.retention_folder.clone(), config.retention_disk_bytes),
            },
        );
        let (dial, dials) = unbounded_channel();
        let shared = Arc::new(Shared::new(
            core,
            identity,
            config.endpoint(),
            sharing,
            dial,
        ));
        let (thread, addresses) = io::start(Arc::clone(&shared), dials, listen)?;
        Ok(Self {
            shared,
            addresses,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Where it listens, with real port numbers.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// The ready queue of a role that `info` named.
    pub fn ready(&self, role: &str) -> Result<Ready, NodeError> {
        let core = self.shared.core.lock();
        let queue = core.queue(role).ok_or_else(|| {
            NodeError::InvalidArgument(format!(
                "this worker has no role {role:?}; its WorkerInfo names: {}",
                core.roles().join(", ")
            ))
        })?;
        Ok(Ready {
            shared: Arc::clone(&self.shared),
            queue,
        })
    }

    /// Take nothing new; finish what is bound. The scheduler is told.
    pub fn drain(&self) {
        self.shared.act(|core, _, out| core.drain(true, out));
    }

    /// Whether everything was finished, and released by the scheduler, within `timeout`.
    pub fn wait_drained(&self, timeout: Duration) -> bool {
        self.shared.wait_drained(timeout)
    }

    /// Whether it was asked to leave, by the scheduler or by `drain`.
    pub fn draining(&self) -> bool {
        self.shared.core.lock().draining()
    }

    /// Counters and gauges, by name.
    pub fn stats(&self) -> Vec<(&'static str, u64)> {
        let mut stats = self.shared.core.lock().stats();
        stats.extend(self.shared.sharing.stats());
        stats
    }

    /// Cancels what runs, sends what is queued, closes the links. Closing twice is harmless.
    pub fn close(&self) {
        self.shared.core.lock().close();
        self.shared.stop();
        if let Some(thread) = self.thread.lock().take() {
            // It ends in an error only if it panicked, which has nothing to add to being closed.
            let _ = thread.join();
        }
        self.shared.sharing.close();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.close();
    }
}
