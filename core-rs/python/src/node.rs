//! `Node`, `Ready`, `Activation`: a worker's data path for Python. Waiting and locking happen without the GIL.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use omniflow_link::Address;
use omniflow_node::{
    ActivationHandle, InputKind, Node as CoreNode, NodeConfig, Ready as CoreReady,
};
use omniflow_wire::v1;
use prost::Message;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::payloads::{Draft, Given, to_python};
use crate::{errors, tls};

/// So little is sent without letting go of the GIL, if nobody has to be waited for: it takes a few microseconds, and with
/// many threads at work, getting the GIL back takes far longer.
const AT_ONCE_BYTES: usize = 64 << 10;

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Node>()?;
    module.add_class::<Ready>()?;
    module.add_class::<Activation>()
}

/// Seconds as Python gives them; what is no time at all is none.
fn duration(seconds: f64) -> Duration {
    if seconds.is_nan() || seconds <= 0.0 {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Links, resolvers and ready queues of one worker.
#[pyclass(frozen, module = "omniflow_core._native")]
struct Node(CoreNode);

#[pymethods]
impl Node {
    #[new]
    #[pyo3(signature = (
        info,
        listen,
        *,
        cluster,
        retention_bytes = 268_435_456,
        retention_disk_bytes = 0,
        retention_job_bytes = 0,
        retention_folder = None,
        arena_bytes = 536_870_912,
        lease_ms = 60_000,
        heartbeat_limit_ms = 10_000,
        reconnect_ms = 2_000,
        tls = None,
    ))]
    #[allow(clippy::too_many_arguments)] // Keyword arguments of the Python class.
    fn new(
        py: Python<'_>,
        info: &[u8],
        listen: Vec<String>,
        cluster: String,
        retention_bytes: usize,
        retention_disk_bytes: u64,
        retention_job_bytes: usize,
        retention_folder: Option<PathBuf>,
        arena_bytes: u64,
        lease_ms: u64,
        heartbeat_limit_ms: u64,
        reconnect_ms: u64,
        tls: Option<tls::Files>,
    ) -> PyResult<Self> {
        let info =
            v1::WorkerInfo::decode(info).map_err(|error| errors::wire("WorkerInfo", &error))?;
        let listen = listen.iter().map(|text| text.parse());
        let listen: Vec<Address> = listen.collect::<Result<_, _>>().map_err(errors::link)?;
        let config = NodeConfig {
            cluster,
            retention_bytes,
            retention_disk_bytes,
            retention_job_bytes: match retention_job_bytes {
                0 => usize::MAX,
                limit => limit,
            },
            retention_folder: retention_folder.unwrap_or_else(std::env::temp_dir),
            arena_bytes,
            lease: Duration::from_millis(lease_ms),
            heartbeat_limit: Duration::from_millis(heartbeat_limit_ms),
            reconnect: Duration::from_millis(reconnect_ms),
            tls: tls::load(tls)?,
        };
        py.detach(|| CoreNode::new(&info, &listen, &config))
            .map(Self)
            .map_err(errors::node)
    }

    #[getter]
    fn addresses(&self) -> Vec<String> {
        self.0.addresses().to_vec()
    }

    fn ready(&self, py: Python<'_>, role: &str) -> PyResult<Ready> {
        py.detach(|| self.0.ready(role))
            .map(Ready)
            .map_err(errors::node)
    }

    fn drain(&self, py: Python<'_>) {
        py.detach(|| self.0.drain());
    }

    fn wait_drained(&self, py: Python<'_>, timeout: f64) -> bool {
        py.detach(|| self.0.wait_drained(duration(timeout)))
    }

    fn draining(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.draining())
    }

    fn stats(&self, py: Python<'_>) -> BTreeMap<&'static str, u64> {
        py.detach(|| self.0.stats()).into_iter().collect()
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

/// The ready queue of one role.
#[pyclass(frozen, module = "omniflow_core._native")]
struct Ready(CoreReady);

#[pymethods]
impl Ready {
    fn take(&self, py: Python<'_>, max_n: usize, timeout: f64) -> PyResult<Vec<Activation>> {
        let taken = py
            .detach(|| self.0.take(max_n, duration(timeout)))
            .map_err(errors::node)?;
        Ok(taken.into_iter().map(Activation).collect())
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// One run of a node in a job for one key.
#[pyclass(frozen, module = "omniflow_core._native")]
struct Activation(ActivationHandle);

#[pymethods]
impl Activation {
    #[getter]
    fn job(&self) -> String {
        self.0.activation().job().to_string()
    }

    #[getter]
    fn node(&self) -> &str {
        self.0.activation().node()
    }

    #[getter]
    fn role(&self) -> &str {
        self.0.activation().role()
    }

    #[getter]
    fn method(&self) -> &str {
        self.0.activation().method()
    }

    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
        pyo3::types::PyTuple::new(py, self.0.activation().key())
    }

    #[getter]
    fn epoch(&self) -> u32 {
        self.0.activation().epoch()
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.0.activation().seed()
    }

    #[getter]
    fn tenant(&self) -> &str {
        self.0.activation().tenant()
    }

    #[getter]
    fn cancelled(&self) -> bool {
        self.0.activation().cancelled()
    }

    #[getter]
    fn job_over(&self) -> bool {
        self.0.activation().job_over()
    }

    #[getter]
    fn remaining_ms(&self) -> u64 {
        // Without a deadline: a number that every consumer of it can still add to.
        let endless = Duration::from_millis(u64::from(u32::MAX));
        let remaining = self.0.activation().remaining().unwrap_or(endless);
        remaining.as_millis().try_into().unwrap_or(u64::MAX)
    }

    #[getter]
    fn resumed<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let resumed = self.0.activation().resumed().iter();
        resumed.map(|frame| PyBytes::new(py, frame)).collect()
    }

    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> BTreeMap<String, Bound<'py, PyBytes>> {
        let parameters = self.0.activation().parameters();
        let python = |(name, value): (String, Bytes)| (name, PyBytes::new(py, &value));
        parameters.into_iter().map(python).collect()
    }

    #[getter]
    fn inputs(&self) -> Vec<(String, &'static str)> {
        let word = |kind| match kind {
            InputKind::Value => "value",
            InputKind::Stream => "stream",
            InputKind::None => "none",
        };
        let inputs = self.0.inputs().into_iter();
        inputs.map(|(name, kind)| (name, word(kind))).collect()
    }

    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        for (name, value) in self.0.activation().values() {
            values.set_item(name, to_python(py, value)?)?;
        }
        Ok(values)
    }

    fn value<'py>(&self, py: Python<'py>, parameter: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.0.activation().value(parameter).map_err(errors::node)?;
        value.map(|value| to_python(py, &value)).transpose()
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        parameter: &str,
        max_n: usize,
        timeout: f64,
    ) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
        let frames = py
            .detach(|| self.0.read(parameter, max_n, duration(timeout)))
            .map_err(errors::node)?;
        let python = |frames: Vec<Bytes>| {
            let frames = frames.iter();
            frames.map(|frame| to_python(py, frame)).collect()
        };
        frames.map(python).transpose()
    }

    #[pyo3(signature = (port, frames, more = false))]
    fn emit(&self, py: Python<'_>, port: &str, frames: Vec<Given>, more: bool) -> PyResult<usize> {
        let frames: Vec<Vec<&[u8]>> = frames.iter().map(Given::parts).collect::<PyResult<_>>()?;
        let bytes: usize = frames.iter().flatten().map(|part| part.len()).sum();
        let taken = if bytes > AT_ONCE_BYTES {
            py.detach(|| self.0.emit_parts(more, port, &frames))
        } else {
            let frames = frames.iter().map(|parts| self.0.payload(parts));
            match self.0.try_emit_before(more, port, frames.collect()) {
                Ok(taken) => taken,
                Err(frames) => py.detach(|| self.0.emit_before(more, port, frames)),
            }
        };
        taken.map_err(errors::node)
    }

    fn draft(&self, bytes: usize) -> Option<Draft> {
        self.0.draft(bytes).map(Draft)
    }

    fn wait_for_room(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        py.detach(|| self.0.wait_for_room(duration(timeout)))
            .map_err(errors::node)
    }

    fn end(&self, py: Python<'_>, port: &str) -> PyResult<()> {
        py.detach(|| self.0.end(port)).map_err(errors::node)
    }

    #[pyo3(signature = (features, last = Vec::new(), more = false))]
    fn finish(
        &self,
        py: Python<'_>,
        features: BTreeMap<String, f64>,
        last: Vec<(String, Given)>,
        more: bool,
    ) -> PyResult<()> {
        let ports = last.iter().map(|(port, _)| port.clone());
        let frames = last.iter().map(|(_, frame)| frame.parts());
        let frames = frames.collect::<PyResult<Vec<Vec<&[u8]>>>>()?;
        let last: Vec<(String, Vec<&[u8]>)> = ports.zip(frames).collect();
        py.detach(|| {
            let last = last.into_iter();
            let last = last.map(|(port, parts)| (port, self.0.payload(&parts)));
            self.0.finish_before(more, last.collect(), features)
        })
        .map_err(errors::node)
    }

    fn fail(&self, py: Python<'_>, error: &[u8]) -> PyResult<()> {
        py.detach(|| self.0.fail(error)).map_err(errors::node)
    }
}
