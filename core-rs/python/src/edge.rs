//! `Edge`: the scheduler's gRPC port, from the crate `omniflow_grpc`.

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use omniflow_grpc::{Server, ServerConfig};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::errors;
use crate::hub::Hub;

/// A client is sent no more than one batch in this time.
const PACE: Duration = Duration::from_micros(500);

/// Adds the class of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Edge>()
}

/// The scheduler's gRPC port.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct Edge(Server);

#[pymethods]
impl Edge {
    #[new]
    fn new(listen: &str) -> PyResult<Self> {
        let bound = TcpListener::bind(listen).and_then(Server::new);
        bound.map(Self).map_err(|error| {
            let message = format!("{listen}: {error}");
            match error.kind() {
                io::ErrorKind::AddrInUse => errors::AddressInUse::new_err(message),
                _ => PyOSError::new_err(message),
            }
        })
    }

    /// The port that it has.
    #[getter]
    fn port(&self) -> u16 {
        self.0.address().port()
    }

    /// Serves calls of `method` from the hub; others are answered by the server on the abstract Unix socket `behind`.
    #[pyo3(signature = (
        hub,
        method,
        behind,
        *,
        max_message_bytes,
        ping_every_ms = 30_000,
        ping_patience_ms = 10_000,
    ))]
    fn start(
        &self,
        hub: &Hub,
        method: String,
        behind: String,
        max_message_bytes: usize,
        ping_every_ms: u64,
        ping_patience_ms: u64,
    ) -> PyResult<()> {
        let config = ServerConfig {
            method,
            message_bytes: max_message_bytes,
            behind,
            pace: PACE,
            ping_every: Duration::from_millis(ping_every_ms),
            ping_patience: Duration::from_millis(ping_patience_ms),
        };
        let started = self.0.start(config, hub.0.clone());
        started.map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Clients are given what there is for them, and their calls of the method end.
    fn finish(&self) {
        self.0.finish();
    }

    /// Closes the port and every connection.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.0.stop());
    }
}
