//! `Standby`: a scheduler that does not lead, from the crate `omniflow_hub`.

use std::path::PathBuf;
use std::time::Duration;

use omniflow_hub::{JournalConfig, StandbyConfig};
use omniflow_link::Address;
use pyo3::prelude::*;

use crate::{errors, tls};

/// Adds the class of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Standby>()
}

/// Keeps its journal a copy of the leader's.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct Standby(omniflow_hub::Standby);

#[pymethods]
impl Standby {
    #[new]
    #[pyo3(signature = (
        *,
        cluster,
        name,
        journal,
        journal_id,
        journal_fsync = false,
        heartbeat_ms = 1_000,
        heartbeat_limit_ms = 10_000,
        limit_ms = 2_000,
        tls = None,
    ))]
    #[allow(clippy::too_many_arguments)] // Keyword arguments of the Python class.
    fn new(
        py: Python<'_>,
        cluster: &str,
        name: &str,
        journal: PathBuf,
        journal_id: &str,
        journal_fsync: bool,
        heartbeat_ms: u64,
        heartbeat_limit_ms: u64,
        limit_ms: u64,
        tls: Option<tls::Files>,
    ) -> PyResult<Self> {
        let config = StandbyConfig {
            cluster: cluster.to_owned(),
            name: name.to_owned(),
            journal_id: journal_id.to_owned(),
            journal: JournalConfig {
                fsync: journal_fsync,
                ..JournalConfig::new(journal)
            },
            heartbeat: Duration::from_millis(heartbeat_ms),
            heartbeat_limit: Duration::from_millis(heartbeat_limit_ms),
            limit: Duration::from_millis(limit_ms),
            tls: tls::load(tls)?,
        };
        py.detach(|| omniflow_hub::Standby::new(config))
            .map(Self)
            .map_err(errors::hub)
    }

    /// The leader of this term lets standbys follow at that address.
    fn follow(&self, py: Python<'_>, term: u64, address: &str) -> PyResult<()> {
        let address: Address = address.parse().map_err(errors::link)?;
        py.detach(|| self.0.follow(term, address));
        Ok(())
    }

    /// What has happened, for its log; none when nothing does in that time.
    fn news(&self, py: Python<'_>, patience: f64) -> Option<String> {
        let patience = Duration::try_from_secs_f64(patience).unwrap_or_default();
        py.detach(|| self.0.news(patience))
    }

    /// Says goodbye to the leader, and lets go of the journal.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}
