//! `PageKeys`: page keys that stay in Rust, and whatever else may stand for them in an argument.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;

use omniflow_prefix::{KeyChain as Chain, PageKey};
use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PySlice;

use crate::buffers;
use crate::errors::InvalidArgument;
use crate::key_chain::KeyChain;

/// Page keys, in order. Slices share them.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct PageKeys {
    keys: Arc<[PageKey]>,
    range: Range<usize>,
}

impl From<&[PageKey]> for PageKeys {
    fn from(keys: &[PageKey]) -> Self {
        Self {
            range: 0..keys.len(),
            keys: keys.into(),
        }
    }
}

impl PageKeys {
    pub fn keys(&self) -> &[PageKey] {
        &self.keys[self.range.clone()]
    }
}

#[pymethods]
impl PageKeys {
    #[new]
    fn new(keys: &Bound<'_, PyAny>) -> PyResult<Self> {
        buffers::keys(keys).map(|keys| Self::from(keys.as_slice()))
    }

    fn __len__(&self) -> usize {
        self.range.len()
    }

    fn __getitem__(&self, pages: &Bound<'_, PySlice>) -> PyResult<Self> {
        let length = self.range.len() as isize;
        let part = pages.indices(length)?;
        if part.step != 1 {
            return Err(InvalidArgument::new_err(format!(
                "step is {}: page keys are cut into consecutive ones only",
                part.step
            )));
        }
        let start = self.range.start + part.start.clamp(0, length) as usize;
        Ok(Self {
            keys: self.keys.clone(),
            range: start..start + part.slicelength,
        })
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let other = other.cast::<Self>();
        other.is_ok_and(|other| self.keys() == other.get().keys())
    }

    fn __hash__(&self) -> u64 {
        // The last key stands for all before it.
        let last = self.keys().last().map_or([0; PageKey::SIZE], |key| key.0);
        let [a, b, c, d, e, f, g, h, ..] = last;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let keys = slf.get().keys();
        // SAFETY: Python passes a view to fill. A key is 32 plain bytes, and the keys never change and live as long as
        // this object, to which the view gets a reference.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                keys.as_ptr().cast_mut().cast::<c_void>(),
                size_of_val(keys) as ffi::Py_ssize_t,
                1,
                flags,
            )
        };
        if filled < 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }

    fn __repr__(&self) -> String {
        match self.keys().last() {
            Some(last) => format!("PageKeys(pages={}, last={last})", self.range.len()),
            None => "PageKeys(pages=0)".into(),
        }
    }
}

/// An argument that gives page keys: a `PageKeys`, or a `KeyChain` for those of its full pages.
#[derive(Clone, Copy)]
pub enum Keys<'a> {
    Chain(&'a KeyChain),
    Keys(&'a PageKeys),
}

impl<'a> Keys<'a> {
    pub fn of(object: &'a Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(chain) = object.cast::<KeyChain>() {
            return Ok(Self::Chain(chain.get()));
        }
        if let Ok(keys) = object.cast::<PageKeys>() {
            return Ok(Self::Keys(keys.get()));
        }
        let kind = object.get_type();
        Err(InvalidArgument::new_err(format!(
            "keys must be a KeyChain or PageKeys, not {kind}: make PageKeys of bytes"
        )))
    }

    /// The keys, and no change to them meanwhile. Locked after a run, before an index and an allocator.
    pub fn locked(&self) -> Locked<'a> {
        match *self {
            Self::Chain(chain) => Locked::Chain(chain.lock()),
            Self::Keys(keys) => Locked::Keys(keys.keys()),
        }
    }

    /// Works on the first `pages` keys and on an index, as [`crate::locks::briefly`] does.
    pub fn briefly<S: Send, T: Send>(
        &self,
        py: Python<'_>,
        pages: Option<usize>,
        index: &Mutex<S>,
        work: impl FnOnce(&mut S, &[PageKey]) -> T + Send,
    ) -> T {
        let keys = self.locked();
        if let Some(mut index) = index.try_lock() {
            return work(&mut index, keys.first(pages));
        }
        // No lock may be held while the GIL is taken again.
        drop(keys);
        py.detach(|| {
            let keys = self.locked();
            work(&mut index.lock(), keys.first(pages))
        })
    }
}

/// Keys that do not change.
pub enum Locked<'a> {
    Chain(MutexGuard<'a, Chain>),
    Keys(&'a [PageKey]),
}

impl Locked<'_> {
    /// The first `pages` of them, or all.
    pub fn first(&self, pages: Option<usize>) -> &[PageKey] {
        let keys = match self {
            Self::Chain(chain) => chain.keys(),
            Self::Keys(keys) => keys,
        };
        &keys[..pages.unwrap_or(usize::MAX).min(keys.len())]
    }
}
