//! `PrefixIndex` and its results: the crate `omniflow_prefix` over pages of one allocator.

use std::ffi::c_int;
use std::sync::Arc;

use omniflow_pages::{Page, PageAllocator as Allocator, PageError, PageId, Run};
use omniflow_prefix::{IndexError, Insertion as Inserted, PageKey, PrefixIndex as Index};
use parking_lot::Mutex;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::buffers;
use crate::errors;
use crate::key_chain::KeyChain;
use crate::page_keys::{Keys, PageKeys};
use crate::pages::{PageAllocator, PageRun};

/// Adds the classes of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<KeyChain>()?;
    module.add_class::<PageKeys>()?;
    module.add_class::<Match>()?;
    module.add_class::<Insertion>()?;
    module.add_class::<PrefixIndex>()
}

/// Locked after a run, chain or match and before an allocator, and never while waiting for the GIL.
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
            // It never holds more than the pool has.
            index: Arc::new(Mutex::new(Index::with_room(allocator.allocator.total()))),
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
        let held = Held::new(self, py, Keys::of(keys)?, max_pages);
        Ok(Match {
            pages: held.ids.len(),
            held: Mutex::new(Some(held)),
        })
    }

    #[pyo3(signature = (keys, run, max_pages = None))]
    fn insert(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        run: &PageRun,
        max_pages: Option<usize>,
    ) -> PyResult<Insertion> {
        let keys = Keys::of(keys)?;
        let inserted = run.with(py, |run| {
            let keys = keys.locked();
            self.insert_run(keys.first(max_pages), run)
        })?;
        inserted.map(Insertion::from).map_err(PyErr::from)
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

/// Matched pages with a pin on the last one, which keeps them and all before it.
struct Held {
    allocator: Allocator,
    index: SharedIndex,
    ids: Box<[PageId]>,
    /// The key of the last of them.
    pinned: Option<PageKey>,
}

impl Held {
    fn new(index: &PrefixIndex, py: Python<'_>, keys: Keys<'_>, max_pages: Option<usize>) -> Self {
        let (ids, pinned) = keys.briefly(py, max_pages, &index.index, |index, keys| {
            let pages = index.matched(keys);
            let ids: Box<[PageId]> = pages.into_iter().map(Page::id).collect();
            let last = ids.len().checked_sub(1).and_then(|last| keys.get(last));
            // A key that was just found can be pinned.
            let pinned = last.filter(|key| index.pin(key).is_ok());
            (ids, pinned.copied())
        });
        Self {
            allocator: index.allocator.clone(),
            index: index.index.clone(),
            ids,
            pinned,
        }
    }

    fn run(&self) -> Result<Run, PageError> {
        let Some(key) = &self.pinned else {
            return self.allocator.allocate(0);
        };
        let index = self.index.lock();
        // A pinned key is in the index until unpinned.
        let pages = index.values_up_to(key).unwrap_or_default();
        self.allocator.run_of(pages)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(key) = self.pinned {
            // A pinned key is in the index until unpinned.
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
        let ids = slf.get().held.lock().as_ref().map(|held| held.ids.clone());
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
    fn __exit__(&self, kind: Py<PyAny>, error: Py<PyAny>, trace: Py<PyAny>) {
        let _ = (kind, error, trace);
        self.release();
    }

    fn run(&self, py: Python<'_>) -> PyResult<PageRun> {
        let run = py.detach(|| self.held.lock().as_ref().map(Held::run));
        run.ok_or_else(|| errors::released("Match"))?
            .map(PageRun::from)
            .map_err(errors::pages)
    }

    fn release(&self) {
        drop(self.held.lock().take());
    }

    fn __repr__(&self) -> String {
        format!("Match(pages={})", self.pages)
    }
}

/// What an insertion did.
#[pyclass(module = "omniflow_core._native", frozen, get_all)]
pub struct Insertion {
    present: usize,
    added: usize,
}

impl From<Inserted> for Insertion {
    fn from(Inserted { present, added }: Inserted) -> Self {
        Self { present, added }
    }
}

#[pymethods]
impl Insertion {
    fn __repr__(&self) -> String {
        format!("Insertion(present={}, added={})", self.present, self.added)
    }
}
