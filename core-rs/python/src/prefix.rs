//! `PrefixIndex` and its results: the crate `omniflow_prefix` over pages of one allocator.

use std::ffi::c_int;
use std::sync::Arc;

use omniflow_pages::{Page, PageAllocator as Allocator, PageError, Run};
use omniflow_prefix::{IndexError, Insertion as Inserted, PageKey, PrefixIndex as Index};
use parking_lot::Mutex;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::buffers;
use crate::errors;
use crate::key_chain::KeyChain;
use crate::pages::{PageAllocator, PageRun};

/// Adds the classes of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<KeyChain>()?;
    module.add_class::<Match>()?;
    module.add_class::<Insertion>()?;
    module.add_class::<PrefixIndex>()
}

/// Locked after a run or match and before an allocator, and never while waiting for the GIL.
type SharedIndex = Arc<Mutex<Index<Page>>>;

/// From page keys to pages of one allocator.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct PrefixIndex {
    allocator: Allocator,
    index: SharedIndex,
}

#[pymethods]
impl PrefixIndex {
    #[new]
    fn new(allocator: &PageAllocator) -> Self {
        Self {
            allocator: allocator.allocator.clone(),
            index: SharedIndex::default(),
        }
    }

    fn __len__(&self) -> usize {
        self.index.lock().len()
    }

    #[getter]
    fn evictable_pages(&self, py: Python<'_>) -> usize {
        py.detach(|| self.index.lock().count_evictable(Page::is_sole))
    }

    #[pyo3(name = "match", signature = (keys, max_pages = None))]
    fn longest(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        max_pages: Option<usize>,
    ) -> PyResult<Match> {
        let mut keys = buffers::keys(keys)?;
        keys.truncate(max_pages.unwrap_or(usize::MAX));
        let held = py
            .detach(|| Held::find(&self.allocator, &self.index, &keys))
            .map_err(errors::pages)?;
        Ok(Match {
            pages: held.run.len(),
            held: Mutex::new(Some(held)),
        })
    }

    fn insert(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        run: &PageRun,
    ) -> PyResult<Insertion> {
        let keys = buffers::keys(keys)?;
        let inserted = run.with(py, |run| self.insert_run(&keys, run))?;
        inserted
            .map(|Inserted { present, added }| Insertion { present, added })
            .map_err(PyErr::from)
    }

    fn evict(&self, py: Python<'_>, pages: usize) -> usize {
        py.detach(|| self.index.lock().evict(pages, Page::is_sole).len())
    }

    fn make_room(&self, py: Python<'_>, pages: usize) -> PyResult<usize> {
        py.detach(|| {
            let free = self.allocator.free();
            let evicted = self
                .index
                .lock()
                .try_evict(pages.saturating_sub(free), Page::is_sole);
            let evicted = evicted.map(|pages| pages.len());
            evicted.map_err(|few| PageError::OutOfPages {
                wanted: pages,
                free: free + few.available,
            })
        })
        .map_err(errors::pages)
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.index.lock().check())
            .map_err(errors::corrupt)
    }

    fn __repr__(&self) -> String {
        format!("PrefixIndex(pages={})", self.index.lock().len())
    }
}

impl PrefixIndex {
    fn insert_run(&self, keys: &[PageKey], run: &Run) -> Result<Inserted, InsertError> {
        if !run.allocator().is_same(&self.allocator) {
            return Err(InsertError::Pages(PageError::Foreign));
        }
        if keys.len() > run.len() {
            return Err(InsertError::KeysWithoutPages {
                keys: keys.len(),
                pages: run.len(),
            });
        }
        self.index
            .lock()
            .insert(keys, |missing| run.hold(missing))
            .map_err(InsertError::Index)
    }
}

/// Why a run was not inserted. Becomes a Python exception only when no lock is held: that takes the GIL.
enum InsertError {
    Pages(PageError),
    Index(IndexError),
    KeysWithoutPages { keys: usize, pages: usize },
}

impl From<InsertError> for PyErr {
    fn from(error: InsertError) -> Self {
        match error {
            InsertError::Pages(error) => errors::pages(error),
            InsertError::Index(error) => errors::index(error),
            InsertError::KeysWithoutPages { keys, pages } => {
                errors::keys_without_pages(keys, pages)
            }
        }
    }
}

/// Matched pages, shared, with a pin on the last one's entry, which keeps all before it too.
struct Held {
    run: Run,
    index: SharedIndex,
    pinned: Option<PageKey>,
}

impl Held {
    fn find(
        allocator: &Allocator,
        index: &SharedIndex,
        keys: &[PageKey],
    ) -> Result<Self, PageError> {
        let mut locked = index.lock();
        let run = allocator.run_of(locked.matched(keys))?;
        let last = run
            .len()
            .checked_sub(1)
            .and_then(|last| keys.get(last))
            .copied();
        // A key that was just found can be pinned.
        let pinned = last.filter(|key| locked.pin(key).is_ok());
        Ok(Self {
            run,
            index: index.clone(),
            pinned,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(key) = self.pinned {
            // A pinned entry is in the index until unpinned.
            let _ = self.index.lock().unpin(&key);
        }
    }
}

/// What `PrefixIndex.match` found.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct Match {
    #[pyo3(get)]
    pages: usize,
    /// `None` once released.
    held: Mutex<Option<Held>>,
}

#[pymethods]
impl Match {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let ids = slf
            .get()
            .held
            .lock()
            .as_ref()
            .map(|held| Box::from(held.run.pages()));
        let ids = ids.ok_or_else(|| errors::released("Match"))?;
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

    fn run(&self, py: Python<'_>) -> PyResult<PageRun> {
        let shared = py.detach(|| {
            self.held
                .lock()
                .as_ref()
                .map(|held| held.run.share(usize::MAX))
        });
        shared
            .map(PageRun::from)
            .ok_or_else(|| errors::released("Match"))
    }

    fn release(&self, py: Python<'_>) {
        py.detach(|| drop(self.held.lock().take()));
    }

    fn __repr__(&self) -> String {
        format!("Match(pages={})", self.pages)
    }
}

/// What `PrefixIndex.insert` did.
#[pyclass(module = "omniflow_core._native", frozen, get_all)]
pub struct Insertion {
    present: usize,
    added: usize,
}

#[pymethods]
impl Insertion {
    fn __repr__(&self) -> String {
        format!("Insertion(present={}, added={})", self.present, self.added)
    }
}
