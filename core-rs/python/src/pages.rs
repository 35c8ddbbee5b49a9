//! `PageAllocator` and `PageRun`: the crate `omniflow_pages` with buffers and context managers.

use std::ffi::c_int;

use omniflow_pages::{Generation, PageAllocator as Allocator, PageId, Run};
use parking_lot::Mutex;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::buffers;
use crate::errors;

/// Adds the classes of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PageAllocator>()?;
    module.add_class::<PageRun>()
}

/// Hands out the pages of one KV pool.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct PageAllocator {
    pub(crate) allocator: Allocator,
}

#[pymethods]
impl PageAllocator {
    #[new]
    #[pyo3(signature = (pages, reserved = 1))]
    fn new(pages: u32, reserved: u32) -> PyResult<Self> {
        Ok(Self {
            allocator: Allocator::new(pages, reserved).map_err(errors::pages)?,
        })
    }

    #[getter]
    fn total_pages(&self) -> usize {
        self.allocator.total()
    }

    #[getter]
    fn reserved_pages(&self) -> usize {
        self.allocator.reserved()
    }

    #[getter]
    fn free_pages(&self) -> usize {
        self.allocator.free()
    }

    fn allocate(&self, py: Python<'_>, pages: usize) -> PyResult<PageRun> {
        let run = py
            .detach(|| self.allocator.allocate(pages))
            .map_err(errors::pages)?;
        Ok(PageRun::from(run))
    }

    fn generation(&self, page: u32) -> PyResult<u64> {
        self.allocator
            .generation(PageId(page))
            .map(|generation| generation.0)
            .map_err(errors::pages)
    }

    fn verify(&self, page: u32, generation: u64) -> PyResult<()> {
        self.allocator
            .verify(PageId(page), Generation(generation))
            .map_err(errors::pages)
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.allocator.check())
            .map_err(errors::corrupt)
    }

    fn __repr__(&self) -> String {
        format!(
            "PageAllocator(pages={}, free={})",
            self.allocator.total(),
            self.allocator.free()
        )
    }
}

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
    /// Works on the run with the GIL released.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Run) -> T + Send,
    ) -> PyResult<T> {
        py.detach(|| self.run.lock().as_mut().map(work))
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
        let ids = slf
            .get()
            .run
            .lock()
            .as_ref()
            .map(|run| Box::from(run.pages()));
        let ids = ids.ok_or_else(|| errors::released("PageRun"))?;
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

    fn release(&self, py: Python<'_>) {
        py.detach(|| drop(self.run.lock().take()));
    }

    fn __repr__(&self) -> String {
        match self.run.lock().as_ref() {
            Some(run) => format!("PageRun(pages={})", run.len()),
            None => "PageRun(released)".into(),
        }
    }
}
