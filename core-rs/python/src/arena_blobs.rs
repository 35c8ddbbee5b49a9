//! Tensors in blocks of an arena, for Python.

use std::ffi::c_int;

use omniflow_arena::{Blob as CoreBlob, BlobArena as Blobs, Place, View};
use omniflow_pages::{Generation, Moment, OwnerId, PageId, Stamped};
use parking_lot::Mutex;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::arena::{HostArena, export};
use crate::errors;
use crate::pages::PageAllocator;

/// Adds the classes of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<BlobArena>()?;
    module.add_class::<Blob>()?;
    module.add_class::<BlobPlace>()
}

/// Hands out room for tensors and media.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct BlobArena(Blobs);

#[pymethods]
impl BlobArena {
    #[new]
    #[pyo3(signature = (arena, allocator = None))]
    fn new(arena: &HostArena, allocator: Option<&PageAllocator>) -> PyResult<Self> {
        let arena = arena.0.clone();
        match allocator {
            Some(allocator) => Ok(Self(Blobs::over(arena, allocator.allocator.clone()))),
            None => Blobs::whole(arena).map(Self).map_err(errors::arena),
        }
    }

    #[getter]
    fn arena(&self) -> HostArena {
        HostArena(self.0.arena().clone())
    }

    #[getter]
    fn allocator(&self) -> PageAllocator {
        PageAllocator {
            allocator: self.0.allocator().clone(),
        }
    }

    #[pyo3(signature = (bytes, tenant = ""))]
    fn allocate(&self, bytes: u64, tenant: &str) -> PyResult<Blob> {
        let blob = self.0.allocate_for(tenant, bytes).map_err(errors::arena)?;
        Ok(Blob {
            place: blob.place(),
            view: blob.view().clone(),
            blob: Mutex::new(Some(blob)),
        })
    }
}

/// Where a blob lies.
#[pyclass(module = "omniflow_core._native", frozen, eq)]
#[derive(Clone, PartialEq)]
pub struct BlobPlace(pub(crate) Place);

#[pymethods]
impl BlobPlace {
    #[new]
    #[pyo3(signature = (*, offset, bytes, page, generation))]
    fn new(offset: u64, bytes: u64, page: u32, generation: u64) -> Self {
        Self(Place {
            offset,
            bytes,
            first: Stamped {
                page: PageId(page),
                generation: Generation(generation),
            },
        })
    }

    #[getter]
    fn offset(&self) -> u64 {
        self.0.offset
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes
    }

    #[getter]
    fn page(&self) -> u32 {
        self.0.first.page.0
    }

    #[getter]
    fn generation(&self) -> u64 {
        self.0.first.generation.0
    }

    fn __hash__(&self) -> u64 {
        self.0.offset ^ self.0.first.generation.0.rotate_left(32)
    }

    fn __repr__(&self) -> String {
        format!(
            "BlobPlace(offset={}, bytes={}, page={}, generation={})",
            self.0.offset, self.0.bytes, self.0.first.page, self.0.first.generation
        )
    }
}

/// Room for one tensor.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct Blob {
    /// `None` once released. Locked before an allocator, and never while waiting for the GIL.
    blob: Mutex<Option<CoreBlob>>,
    place: Place,
    view: View,
}

impl Blob {
    fn with<T>(&self, work: impl FnOnce(&CoreBlob) -> T) -> PyResult<T> {
        let blob = self.blob.lock();
        let blob = blob.as_ref().ok_or_else(|| errors::released("Blob"))?;
        Ok(work(blob))
    }
}

#[pymethods]
impl Blob {
    fn __len__(&self) -> usize {
        self.view.len()
    }

    #[getter]
    fn place(&self) -> BlobPlace {
        BlobPlace(self.place)
    }

    #[getter]
    fn released(&self) -> bool {
        self.blob.lock().is_none()
    }

    fn lease(&self, holder: u64, until: u64) -> PyResult<u64> {
        let lease = self.with(|blob| {
            let run = blob.run();
            run.allocator()
                .lease(&run.stamped(), OwnerId(holder), Moment(until))
        })?;
        lease.map(|lease| lease.0).map_err(errors::pages)
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().with(|blob| blob.view().clone())?;
        // SAFETY: Python passes a view to fill; `slf` holds the mapping that the bytes lie in.
        unsafe { export(slf.into_any(), view, flags, &bytes) }
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
        drop(self.blob.lock().take());
    }
}
