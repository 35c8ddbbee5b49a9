//! `ClusterIndex` and its results: which worker holds which pages.

use omniflow_prefix::{ClusterIndex as Index, ClusterMatch as Matched, Holder, PageKey};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::errors::{self, InvalidArgument};
use crate::page_keys::Keys;
use crate::prefix::Insertion;

/// Adds the classes of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ClusterIndex>()?;
    module.add_class::<ClusterMatch>()
}

/// From page keys to the workers that hold the pages.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct ClusterIndex {
    index: Mutex<Index>,
}

#[pymethods]
impl ClusterIndex {
    #[new]
    fn new() -> Self {
        Self {
            index: Mutex::default(),
        }
    }

    fn __len__(&self) -> usize {
        self.index.lock().len()
    }

    #[getter]
    fn held(&self) -> usize {
        self.index.lock().held()
    }

    fn held_by(&self, worker: u32) -> usize {
        self.index.lock().held_by(Holder(worker))
    }

    #[pyo3(name = "match", signature = (keys, max_pages = None))]
    fn matched(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        max_pages: Option<usize>,
    ) -> PyResult<ClusterMatch> {
        let keys = Keys::of(keys)?;
        let matched = keys.briefly(py, max_pages, &self.index, |index, keys| {
            index.matched(keys)
        });
        Ok(ClusterMatch { matched })
    }

    #[pyo3(signature = (worker, keys, after = None))]
    fn insert(
        &self,
        py: Python<'_>,
        worker: u32,
        keys: &Bound<'_, PyAny>,
        after: Option<&[u8]>,
    ) -> PyResult<Insertion> {
        let after = after.map(one_key).transpose()?;
        let keys = Keys::of(keys)?;
        let inserted = py.detach(|| {
            let keys = keys.locked();
            let mut index = self.index.lock();
            index.insert(Holder(worker), after.as_ref(), keys.first(None))
        });
        inserted.map(Insertion::from).map_err(errors::index)
    }

    fn remove(&self, py: Python<'_>, worker: u32, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        let keys = Keys::of(keys)?;
        Ok(py.detach(|| {
            let keys = keys.locked();
            self.index.lock().remove(Holder(worker), keys.first(None))
        }))
    }

    fn remove_worker(&self, py: Python<'_>, worker: u32) -> usize {
        py.detach(|| self.index.lock().remove_holder(Holder(worker)))
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.index.lock().check())
            .map_err(errors::corrupt)
    }

    fn __repr__(&self) -> String {
        format!("ClusterIndex(pages={})", self.index.lock().len())
    }
}

fn one_key(bytes: &[u8]) -> PyResult<PageKey> {
    bytes.try_into().map(PageKey).map_err(|_| {
        let length = bytes.len();
        InvalidArgument::new_err(format!(
            "after has {length} bytes: pass the 32 of the key of the page before"
        ))
    })
}

/// What `ClusterIndex.match` found.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct ClusterMatch {
    matched: Matched,
}

#[pymethods]
impl ClusterMatch {
    #[getter]
    fn pages(&self) -> usize {
        self.matched.longest()
    }

    #[getter]
    fn workers(&self) -> usize {
        self.matched.holders()
    }

    fn pages_of(&self, worker: u32) -> usize {
        self.matched.pages_of(Holder(worker))
    }

    #[pyo3(signature = (count = None))]
    fn longest(&self, count: Option<usize>) -> Vec<(u32, usize)> {
        self.matched
            .by_length()
            .take(count.unwrap_or(usize::MAX))
            .map(|(holder, pages)| (holder.0, pages))
            .collect()
    }

    fn __repr__(&self) -> String {
        format!(
            "ClusterMatch(pages={}, workers={})",
            self.matched.longest(),
            self.matched.holders()
        )
    }
}
