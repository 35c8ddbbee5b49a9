//! `DiskArena`: pages that outlive their process.

use std::path::PathBuf;

use omniflow_arena::disk::{DiskArena as Disk, DiskInfo as Info, Opened, Slots};
use omniflow_pages::PageId;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arena::{ArenaLayout, digest};
use crate::buffers;
use crate::errors::{self, InvalidArgument};
use crate::pages::PageAllocator;
use crate::pages_run::PageRun;

/// Adds the classes of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DiskArena>()?;
    module.add_class::<DiskInfo>()
}

/// A file of pages.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct DiskArena {
    arena: Disk,
    dropped: Vec<u32>,
}

#[pymethods]
impl DiskArena {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, layout: &ArenaLayout) -> PyResult<Self> {
        let opened = py.detach(|| Disk::open_or_create(&path, &layout.0));
        let Opened { arena, dropped, .. } = opened.map_err(errors::disk)?;
        Ok(Self {
            arena,
            dropped: dropped.into_iter().map(|page| page.0).collect(),
        })
    }

    #[getter]
    fn layout(&self) -> ArenaLayout {
        ArenaLayout(self.arena.layout().clone())
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.arena.path().into()
    }

    #[getter]
    fn info(&self) -> DiskInfo {
        self.arena.info().into()
    }

    #[getter]
    fn dropped(&self) -> Vec<u32> {
        self.dropped.clone()
    }

    #[allow(clippy::type_complexity)] // A tuple and a list of tuples in Python.
    fn allocator<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(PageAllocator, Vec<(Bound<'py, PyBytes>, PageRun)>)> {
        let Slots { allocator, held } = self.arena.allocator().map_err(errors::pages)?;
        let run = |held: &omniflow_arena::disk::Held| {
            let run = allocator.run_of([&held.page]).map_err(errors::pages)?;
            Ok((PyBytes::new(py, &held.key), PageRun::from(run)))
        };
        let held = held.iter().map(run).collect::<PyResult<_>>()?;
        Ok((PageAllocator { allocator }, held))
    }

    fn write(
        &self,
        py: Python<'_>,
        page: u32,
        key: &[u8],
        content: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let key = digest(key, "a page key")?;
        let content = bytes_of(content, "content")?;
        if !content.is_c_contiguous() {
            return Err(in_pieces("content"));
        }
        let start = content.buf_ptr().cast::<u8>().cast_const() as usize;
        let length = content.len_bytes();
        let written = py.detach(|| {
            // SAFETY: the buffer is held, contiguous, and that long. Its content must not be changed meanwhile, as the
            // caller is told; if it is, the checksum does not fit and the page is dropped when it is read.
            let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, length) };
            self.arena.write(PageId(page), &key, bytes)
        });
        written.map_err(errors::disk)
    }

    fn read_into(
        &self,
        py: Python<'_>,
        page: u32,
        key: &[u8],
        into: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let key = digest(key, "a page key")?;
        let into = bytes_of(into, "into")?;
        if into.readonly() {
            return Err(InvalidArgument::new_err(
                "into is read-only: pass a writable buffer of one page",
            ));
        }
        if !into.is_c_contiguous() {
            return Err(in_pieces("into"));
        }
        let start = into.buf_ptr() as usize;
        let length = into.len_bytes();
        let read = py.detach(|| {
            // SAFETY: the buffer is held, contiguous, writable and that long; nobody else may use it meanwhile, as the
            // caller is told.
            let bytes = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, length) };
            self.arena.read(PageId(page), &key, bytes)
        });
        read.map_err(errors::disk)
    }

    fn forget(&self, py: Python<'_>, page: u32) -> PyResult<()> {
        py.detach(|| self.arena.forget(PageId(page)))
            .map_err(errors::disk)
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.arena.sync()).map_err(errors::disk)
    }
}

/// How an arena lies on disk.
#[pyclass(module = "omniflow_core._native", frozen, get_all)]
pub struct DiskInfo {
    file_bytes: u64,
    direct: bool,
    filled: usize,
}

impl From<Info> for DiskInfo {
    fn from(info: Info) -> Self {
        Self {
            file_bytes: info.file_bytes,
            direct: info.direct,
            filled: info.filled,
        }
    }
}

fn bytes_of(object: &Bound<'_, PyAny>, what: &str) -> PyResult<PyBuffer<u8>> {
    buffers::open(object, what)?;
    PyBuffer::<u8>::get(object).map_err(|_| {
        InvalidArgument::new_err(format!(
            "{what} is not of bytes: pass a memoryview cast to 'B', or an array of uint8"
        ))
    })
}

fn in_pieces(what: &str) -> PyErr {
    InvalidArgument::new_err(format!(
        "{what} is not contiguous: pass a page that lies in one piece"
    ))
}
