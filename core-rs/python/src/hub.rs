//! `Hub`: the scheduler's data path from the crate `omniflow_hub`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use omniflow_hub::{HubConfig, JournalConfig, Marked, ReplicationConfig};
use omniflow_link::Address;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::{errors, tls};

/// Adds the class of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Hub>()
}

/// Clients and worker links around the job table.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct Hub(pub(crate) Arc<omniflow_hub::Hub>);

fn bytes<'py>(py: Python<'py>, content: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, content)
}

#[pymethods]
impl Hub {
    #[new]
    #[pyo3(signature = (
        *,
        cluster,
        term,
        policy = "least-outstanding",
        queue_limit = 100_000,
        max_deadline_ms = 600_000,
        max_input_bytes = 67_108_864,
        max_held_input_bytes = 2_147_483_648,
        max_kept_result_bytes = 2_147_483_648,
        client_grace_ms = 5_000,
        result_ttl_ms = 60_000,
        max_attempts = 3,
        journal = None,
        journal_fsync = false,
        heartbeat_ms = 1_000,
        heartbeat_limit_ms = 10_000,
        reconnect_ms = 2_000,
        tls = None,
        standby_listen = None,
        standby_limit_ms = 2_000,
    ))]
    #[allow(clippy::too_many_arguments)] // Keyword arguments of the Python class.
    fn new(
        py: Python<'_>,
        cluster: &str,
        term: u64,
        policy: &str,
        queue_limit: usize,
        max_deadline_ms: u64,
        max_input_bytes: usize,
        max_held_input_bytes: usize,
        max_kept_result_bytes: usize,
        client_grace_ms: u64,
        result_ttl_ms: u64,
        max_attempts: u32,
        journal: Option<PathBuf>,
        journal_fsync: bool,
        heartbeat_ms: u64,
        heartbeat_limit_ms: u64,
        reconnect_ms: u64,
        tls: Option<tls::Files>,
        standby_listen: Option<&str>,
        standby_limit_ms: u64,
    ) -> PyResult<Self> {
        let listen = standby_listen.map(str::parse::<Address>).transpose();
        let listen = listen.map_err(errors::link)?;
        let config = HubConfig {
            cluster: cluster.to_owned(),
            term,
            policy: policy.to_owned(),
            queue_limit,
            max_deadline_ms,
            max_input_bytes,
            max_held_input_bytes,
            max_kept_result_bytes,
            client_grace_ms,
            result_ttl_ms,
            max_attempts,
            journal: journal.map(|folder| JournalConfig {
                fsync: journal_fsync,
                ..JournalConfig::new(folder)
            }),
            replication: listen.map(|listen| ReplicationConfig {
                listen,
                limit: Duration::from_millis(standby_limit_ms),
            }),
            heartbeat: Duration::from_millis(heartbeat_ms),
            heartbeat_limit: Duration::from_millis(heartbeat_limit_ms),
            reconnect: Duration::from_millis(reconnect_ms),
            tls: tls::load(tls)?,
        };
        py.detach(|| omniflow_hub::Hub::new(config))
            .map(|hub| Self(Arc::new(hub)))
            .map_err(errors::hub)
    }

    /// A descriptor, readable once `ready_clients` is to be asked.
    fn fileno(&self) -> i32 {
        self.0.fileno()
    }

    /// A new client's number.
    fn open_client(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.0.open_client())
    }

    /// The call or stream broke or ended.
    fn close_client(&self, py: Python<'_>, client: u64) {
        py.detach(|| self.0.close_client(client));
    }

    /// Takes in a serialized `ClientBatch`; returns how many answers wait for the client.
    fn send(&self, py: Python<'_>, client: u64, batch: &[u8]) -> PyResult<usize> {
        py.detach(|| self.0.send(client, batch))
            .map_err(errors::hub)
    }

    /// Clients with something to take; resets the descriptor.
    fn ready_clients(&self, py: Python<'_>) -> Vec<u64> {
        py.detach(|| self.0.ready_clients())
    }

    /// A serialized `EventBatch`; empty when nothing is left.
    fn take<'py>(&self, py: Python<'py>, client: u64, max_bytes: usize) -> Bound<'py, PyBytes> {
        let batch = py.detach(|| self.0.take(client, max_bytes));
        bytes(py, &batch)
    }

    /// Stores a serialized `Flow`: (version, existed).
    fn put_flow<'py>(&self, py: Python<'py>, flow: &[u8]) -> PyResult<(Bound<'py, PyBytes>, bool)> {
        let (version, existed) = py.detach(|| self.0.put_flow(flow)).map_err(errors::hub)?;
        Ok((bytes(py, &version), existed))
    }

    /// Forgets every version of a flow.
    fn drop_flow(&self, py: Python<'_>, name: &str) -> bool {
        py.detach(|| self.0.drop_flow(name))
    }

    /// The newest version of every flow, serialized.
    fn flows<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let flows = py.detach(|| self.0.flows());
        flows.iter().map(|flow| bytes(py, flow)).collect()
    }

    /// The registry shows this serialized `WorkerInfo`.
    fn worker_seen(&self, py: Python<'_>, info: &[u8]) -> PyResult<()> {
        py.detach(|| self.0.worker_seen(info)).map_err(errors::hub)
    }

    /// The registration vanished.
    fn worker_gone(&self, py: Python<'_>, name: &str, incarnation: &str) {
        py.detach(|| self.0.worker_gone(name, incarnation));
    }

    /// The worker finishes what it has and leaves; returns its outstanding activations.
    #[pyo3(signature = (name, within_ms = 0))]
    fn drain_worker(&self, py: Python<'_>, name: &str, within_ms: u64) -> PyResult<u32> {
        py.detach(|| self.0.drain_worker(name, within_ms))
            .map_err(errors::hub)
    }

    /// A serialized `ClusterStatus`.
    fn cluster_status<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let status = py.detach(|| self.0.cluster_status());
        bytes(py, &status)
    }

    /// A serialized `JobStatus`, if the job is known.
    fn job_status<'py>(&self, py: Python<'py>, job: &str) -> Option<Bound<'py, PyBytes>> {
        let status = py.detach(|| self.0.job_status(job));
        status.map(|status| bytes(py, &status))
    }

    /// A serialized `ListResponse` to a serialized `ListRequest`.
    fn list_jobs<'py>(&self, py: Python<'py>, request: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let jobs = py
            .detach(|| self.0.list_jobs(request))
            .map_err(errors::hub)?;
        Ok(bytes(py, &jobs))
    }

    /// What etcd has to be asked about the standby's journal: (ticket, journal or none).
    fn next_mark(&self, py: Python<'_>, patience: f64) -> Option<(u64, Option<String>)> {
        let patience = Duration::try_from_secs_f64(patience).unwrap_or_default();
        let mark = py.detach(|| self.0.next_mark(patience));
        mark.map(|mark| (mark.ticket, mark.standby))
    }

    /// What became of that: "done", "unknown" or "superseded".
    fn marked(&self, py: Python<'_>, ticket: u64, answer: &str) -> PyResult<()> {
        let answer = match answer {
            "done" => Marked::Done,
            "unknown" => Marked::Unknown,
            "superseded" => Marked::Superseded,
            other => {
                let message = format!("{other:?} is no answer; say done, unknown or superseded");
                return Err(errors::InvalidArgument::new_err(message));
            }
        };
        py.detach(|| self.0.marked(ticket, answer));
        Ok(())
    }

    /// Refuses new jobs, waits up to `timeout` seconds for running ones, closes the links.
    fn close(&self, py: Python<'_>, timeout: f64) {
        // What is no time at all means: do not wait; what is too long: for as long as it takes.
        let longest = if timeout > 0.0 {
            Duration::MAX
        } else {
            Duration::ZERO
        };
        let timeout = Duration::try_from_secs_f64(timeout).unwrap_or(longest);
        py.detach(|| self.0.close(timeout));
    }
}
