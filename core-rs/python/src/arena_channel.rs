//! Arenas that travel between processes of one host.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::time::Duration;

use omniflow_arena::{Address, Channel, Listener, Offer, Offered, offer, take_offers};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arena::{ArenaLayout, HostArena, access, duplicate};
use crate::errors::{self, InvalidArgument};

/// Adds the classes of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ArenaChannel>()?;
    module.add_class::<ArenaListener>()?;
    module.add_class::<OfferedArena>()
}

/// One end of a connection over which arenas travel.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct ArenaChannel(Channel);

#[pymethods]
impl ArenaChannel {
    #[staticmethod]
    fn pair() -> PyResult<(Self, Self)> {
        let (one, other) = Channel::pair().map_err(errors::arena)?;
        Ok((Self(one), Self(other)))
    }

    #[staticmethod]
    fn connect(py: Python<'_>, address: &str) -> PyResult<Self> {
        let address = parse(address)?;
        let channel = py.detach(|| Channel::connect(&address));
        channel.map(Self).map_err(errors::arena)
    }

    #[staticmethod]
    fn of(descriptor: RawFd) -> PyResult<Self> {
        let channel = Channel::of(duplicate(descriptor)?);
        channel.map(Self).map_err(errors::arena)
    }

    fn fileno(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }

    #[pyo3(signature = (arenas, *, patience = None))]
    fn offer(
        &self,
        py: Python<'_>,
        arenas: Vec<(String, Py<HostArena>, Option<RawFd>)>,
        patience: Option<f64>,
    ) -> PyResult<()> {
        let patience = seconds(patience)?;
        let own = |descriptor: Option<RawFd>| descriptor.map(duplicate).transpose();
        let elsewhere = arenas
            .iter()
            .map(|(_, _, descriptor)| own(*descriptor))
            .collect::<PyResult<Vec<_>>>()?;
        let offers: Vec<Offer<'_>> = arenas
            .iter()
            .zip(&elsewhere)
            .map(|((name, arena, _), elsewhere)| Offer {
                name,
                arena: &arena.get().0,
                elsewhere: elsewhere.as_ref().map(AsFd::as_fd),
            })
            .collect();
        py.detach(|| offer(&self.0, &offers, patience))
            .map_err(errors::arena)
    }

    #[pyo3(signature = (*, patience = None))]
    fn take(&self, py: Python<'_>, patience: Option<f64>) -> PyResult<Vec<OfferedArena>> {
        let patience = seconds(patience)?;
        let offered = py.detach(|| take_offers(&self.0, patience));
        let offered = offered.map_err(errors::arena)?.into_iter();
        Ok(offered.map(OfferedArena::from).collect())
    }

    #[pyo3(signature = (payload, descriptors = Vec::new(), *, patience = None))]
    fn send(
        &self,
        py: Python<'_>,
        payload: &[u8],
        descriptors: Vec<RawFd>,
        patience: Option<f64>,
    ) -> PyResult<()> {
        let patience = seconds(patience)?;
        let own = descriptors
            .into_iter()
            .map(duplicate)
            .collect::<PyResult<Vec<_>>>()?;
        let borrowed: Vec<BorrowedFd<'_>> = own.iter().map(AsFd::as_fd).collect();
        py.detach(|| self.0.send(payload, &borrowed, patience))
            .map_err(errors::arena)
    }

    #[pyo3(signature = (*, patience = None))]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        patience: Option<f64>,
    ) -> PyResult<(Bound<'py, PyBytes>, Vec<RawFd>)> {
        let patience = seconds(patience)?;
        let message = py.detach(|| self.0.receive(patience));
        let message = message.map_err(errors::arena)?;
        let payload = PyBytes::new(py, &message.payload);
        let descriptors = message.descriptors.into_iter();
        Ok((payload, descriptors.map(IntoRawFd::into_raw_fd).collect()))
    }

    #[getter]
    fn hung_up(&self) -> PyResult<bool> {
        self.0.hung_up().map_err(errors::arena)
    }
}

/// Where processes of the same user connect to.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct ArenaListener(Listener);

#[pymethods]
impl ArenaListener {
    #[new]
    fn new(address: &str) -> PyResult<Self> {
        let listener = Listener::bind(&parse(address)?);
        listener.map(Self).map_err(errors::arena)
    }

    #[getter]
    fn address(&self) -> String {
        self.0.address().to_string()
    }

    fn fileno(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }

    #[pyo3(signature = (*, patience = None))]
    fn accept(&self, py: Python<'_>, patience: Option<f64>) -> PyResult<ArenaChannel> {
        let patience = seconds(patience)?;
        let accepted = py.detach(|| self.0.accept(patience));
        accepted.map(ArenaChannel).map_err(errors::arena)
    }
}

/// An arena that has come, and is not mapped yet.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct OfferedArena {
    name: String,
    layout: omniflow_arena::Layout,
    id: omniflow_arena::ArenaId,
    /// `None` once opened.
    offered: Mutex<Option<Offered>>,
}

impl From<Offered> for OfferedArena {
    fn from(offered: Offered) -> Self {
        Self {
            name: offered.name.clone(),
            layout: offered.layout().clone(),
            id: offered.id(),
            offered: Mutex::new(Some(offered)),
        }
    }
}

#[pymethods]
impl OfferedArena {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn layout(&self) -> ArenaLayout {
        ArenaLayout(self.layout.clone())
    }

    #[getter]
    fn id<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.id.0)
    }

    #[pyo3(signature = (wanted = None, *, writable = true))]
    fn open(
        &self,
        wanted: Option<&ArenaLayout>,
        writable: bool,
    ) -> PyResult<(HostArena, Option<RawFd>)> {
        let offered = self.offered.lock().take();
        let offered = offered.ok_or_else(|| {
            InvalidArgument::new_err("the arena was opened or closed before: ask for it again")
        })?;
        let opened = match wanted {
            Some(wanted) => offered.open_as(&wanted.0, access(writable)),
            None => offered.open(access(writable)),
        };
        let (arena, elsewhere) = opened.map_err(errors::arena)?;
        Ok((HostArena(arena), elsewhere.map(IntoRawFd::into_raw_fd)))
    }

    fn close(&self) {
        drop(self.offered.lock().take());
    }
}

/// `@NAME` or a path.
fn parse(address: &str) -> PyResult<Address> {
    match address.strip_prefix('@') {
        Some(name) => Ok(Address::Abstract(name.into())),
        None if address.is_empty() => Err(InvalidArgument::new_err(
            "an address is a path, or @NAME for one without a file",
        )),
        None => Ok(Address::File(address.into())),
    }
}

fn seconds(patience: Option<f64>) -> PyResult<Option<Duration>> {
    let duration = |patience: f64| {
        Duration::try_from_secs_f64(patience).map_err(|_| {
            InvalidArgument::new_err(format!(
                "patience is {patience}: pass seconds, 0 or more, or None to wait for ever"
            ))
        })
    };
    patience.map(duration).transpose()
}
