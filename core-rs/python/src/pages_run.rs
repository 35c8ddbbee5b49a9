//! `PageRun` and what it gives: buffers and context managers over handles of `omniflow_pages`.

use std::ffi::c_int;

use omniflow_pages::{Copies, Moment, OwnerId, PageId, Pin, Run};
use parking_lot::Mutex;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffers;
use crate::errors;
use crate::locks;

/// Pages held for one user, in order.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct PageRun {
    /// `None` once released. Locked before an index and before an allocator, and never while waiting for the GIL.
    run: Mutex<Option<Run>>,
}

impl From<Run> for PageRun {
    fn from(run: Run) -> Self {
        Self {
            run: Mutex::new(Some(run)),
        }
    }
}

impl PageRun {
    /// Works on the run, for microseconds.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Run) -> T + Send,
    ) -> PyResult<T> {
        locks::briefly(py, &self.run, |run| run.as_mut().map(work))
            .ok_or_else(|| errors::released("PageRun"))
    }
}

#[pymethods]
impl PageRun {
    fn __len__(&self) -> usize {
        self.run.lock().as_ref().map_or(0, Run::len)
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let py = slf.py();
        let ids = slf.get().with(py, |run| Box::from(run.pages()))?;
        // SAFETY: Python passes a view to fill, and releases it through `__releasebuffer__` below.
        unsafe { buffers::export_ids(slf.into_any(), view, flags, ids) }
    }

    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: Python releases each view that `__getbuffer__` filled, once.
        unsafe { buffers::release_ids(view) }
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (kind, error, trace, /))]
    fn __exit__(&self, py: Python<'_>, kind: Py<PyAny>, error: Py<PyAny>, trace: Py<PyAny>) {
        let _ = (kind, error, trace);
        self.release(py);
    }

    #[getter]
    fn released(&self) -> bool {
        self.run.lock().is_none()
    }

    #[getter]
    fn tenant(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |run| run.tenant().to_owned())
    }

    fn charge_to(&self, py: Python<'_>, tenant: &str) -> PyResult<()> {
        self.with(py, |run| run.charge_to(tenant))
    }

    #[getter]
    fn generations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let stamped = self.with(py, |run| run.stamped())?;
        let words: Vec<u8> = stamped
            .iter()
            .flat_map(|stamped| stamped.generation.0.to_ne_bytes())
            .collect();
        Ok(PyBytes::new(py, &words))
    }

    fn spans(&self, py: Python<'_>) -> PyResult<Vec<(u32, u32)>> {
        let spans = self.with(py, |run| run.spans())?;
        Ok(spans
            .into_iter()
            .map(|span| (span.first.0, span.pages))
            .collect())
    }

    fn extend(&self, py: Python<'_>, pages: usize) -> PyResult<()> {
        self.with(py, |run| run.extend(pages))?
            .map_err(errors::pages)
    }

    fn truncate(&self, py: Python<'_>, pages: usize) -> PyResult<()> {
        self.with(py, |run| run.truncate(pages))
    }

    #[pyo3(signature = (pages = None))]
    fn share(&self, py: Python<'_>, pages: Option<usize>) -> PyResult<PageRun> {
        self.with(py, |run| run.share(pages.unwrap_or(usize::MAX)))
            .map(PageRun::from)
    }

    fn write(&self, py: Python<'_>, start: usize, stop: usize) -> PyResult<PageCopies> {
        let copies = self
            .with(py, |run| run.write(start..stop))?
            .map_err(errors::pages)?;
        Ok(PageCopies {
            copies: Mutex::new(Some(copies)),
        })
    }

    fn pin(&self, py: Python<'_>) -> PyResult<PagePin> {
        let pin = self.with(py, |run| run.pin())?;
        Ok(PagePin {
            pin: Mutex::new(Some(pin)),
        })
    }

    fn lease(&self, py: Python<'_>, holder: u64, until: u64) -> PyResult<u64> {
        let lease = self.with(py, |run| {
            let stamped = run.stamped();
            run.allocator()
                .lease(&stamped, OwnerId(holder), Moment(until))
        })?;
        lease.map(|lease| lease.0).map_err(errors::pages)
    }

    fn release(&self, py: Python<'_>) {
        locks::briefly(py, &self.run, |run| drop(run.take()));
    }

    fn __repr__(&self) -> String {
        match self.run.lock().as_ref() {
            Some(run) => format!("PageRun(pages={})", run.len()),
            None => "PageRun(released)".into(),
        }
    }
}

/// Page ids, as they were.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct PageIds {
    ids: Box<[PageId]>,
}

#[pymethods]
impl PageIds {
    fn __len__(&self) -> usize {
        self.ids.len()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let ids = slf.get().ids.clone();
        // SAFETY: Python passes a view to fill, and releases it through `__releasebuffer__` below.
        unsafe { buffers::export_ids(slf.into_any(), view, flags, ids) }
    }

    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: Python releases each view that `__getbuffer__` filled, once.
        unsafe { buffers::release_ids(view) }
    }
}

/// What `PageRun.write` wants copied.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct PageCopies {
    /// `None` once released. Locked before an allocator.
    copies: Mutex<Option<Copies>>,
}

impl PageCopies {
    fn ids(&self, ids: impl FnOnce(&Copies) -> &[PageId]) -> PyResult<PageIds> {
        let copies = self.copies.lock();
        let copies = copies
            .as_ref()
            .ok_or_else(|| errors::released("PageCopies"))?;
        Ok(PageIds {
            ids: ids(copies).into(),
        })
    }
}

#[pymethods]
impl PageCopies {
    fn __len__(&self) -> usize {
        let copies = self.copies.lock();
        copies.as_ref().map_or(0, |copies| copies.targets().len())
    }

    #[getter]
    fn sources(&self) -> PyResult<PageIds> {
        self.ids(Copies::sources)
    }

    #[getter]
    fn targets(&self) -> PyResult<PageIds> {
        self.ids(Copies::targets)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (kind, error, trace, /))]
    fn __exit__(&self, kind: Py<PyAny>, error: Py<PyAny>, trace: Py<PyAny>) {
        let _ = (kind, error, trace);
        self.release();
    }

    fn release(&self) {
        drop(self.copies.lock().take());
    }
}

/// Keeps pages where they are.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct PagePin {
    /// `None` once released. Locked before an allocator.
    pin: Mutex<Option<Pin>>,
}

#[pymethods]
impl PagePin {
    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (kind, error, trace, /))]
    fn __exit__(&self, kind: Py<PyAny>, error: Py<PyAny>, trace: Py<PyAny>) {
        let _ = (kind, error, trace);
        self.release();
    }

    fn release(&self) {
        drop(self.pin.lock().take());
    }
}
