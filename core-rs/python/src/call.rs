//! `Call`: the client's side of a gRPC call, from the crate `omniflow_grpc`.

use std::time::Duration;

use omniflow_grpc::{CallConfig, binary_entries};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Adds the class of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Call>()
}

/// A gRPC call with a stream of messages each way.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct Call(omniflow_grpc::Call);

/// Code, message, and the binary entries of the trailers.
type Status<'py> = (u32, String, Vec<(String, Bound<'py, PyBytes>)>);

#[pymethods]
impl Call {
    #[new]
    #[pyo3(signature = (
        address,
        method,
        *,
        connect_ms = 10_000,
        ping_every_ms = 20_000,
        ping_patience_ms = 10_000,
    ))]
    fn new(
        py: Python<'_>,
        address: String,
        method: String,
        connect_ms: u64,
        ping_every_ms: u64,
        ping_patience_ms: u64,
    ) -> PyResult<Self> {
        let config = CallConfig {
            address,
            method,
            patience: Duration::from_millis(connect_ms),
            ping_every: Duration::from_millis(ping_every_ms),
            ping_patience: Duration::from_millis(ping_patience_ms),
        };
        let call = py.detach(|| omniflow_grpc::Call::new(config));
        call.map(Self)
            .map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// A descriptor, readable when there is something to take, or a status.
    fn fileno(&self) -> i32 {
        self.0.fileno()
    }

    /// Sends a message. It takes a microsecond: less than letting go of the GIL.
    fn send(&self, message: &[u8]) {
        self.0.send(message);
    }

    /// The messages that have arrived; resets the descriptor.
    fn take<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let messages = self.0.take();
        messages
            .iter()
            .map(|message| PyBytes::new(py, message))
            .collect()
    }

    /// How it ended, once everything was taken.
    fn status<'py>(&self, py: Python<'py>) -> Option<Status<'py>> {
        let status = self.0.status()?;
        let binary = binary_entries(&status).into_iter();
        let binary = binary.map(|(name, value)| (name, PyBytes::new(py, &value)));
        Some((
            status.code() as u32,
            status.message().to_owned(),
            binary.collect(),
        ))
    }

    /// Ends it; the peer is told.
    fn cancel(&self) {
        self.0.cancel();
    }
}
