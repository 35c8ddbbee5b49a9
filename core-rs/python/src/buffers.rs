//! Buffers across the boundary: page ids out, keys in.

use std::ffi::{c_int, c_void};
use std::ptr;

use omniflow_pages::PageId;
use omniflow_prefix::PageKey;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::errors::InvalidArgument;

/// What an exported view of page ids points into; owned by the view, so that its object may change or go.
struct Export {
    ids: Box<[PageId]>,
    shape: ffi::Py_ssize_t,
    stride: ffi::Py_ssize_t,
}

/// Fills `view` with a read-only, one-dimensional uint32 snapshot of `ids`.
///
/// # Safety
/// `view` must be null or point to a `Py_buffer` that may be overwritten; who releases it must call [`release_ids`].
pub unsafe fn export_ids(
    owner: Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
    ids: Box<[PageId]>,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("no view to fill"));
    }
    if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
        return Err(PyBufferError::new_err("page ids are read-only"));
    }
    let has = |flag: c_int| flags & flag == flag;
    let stride = size_of::<PageId>() as ffi::Py_ssize_t;
    let shape = ids.len() as ffi::Py_ssize_t;
    let export = Box::into_raw(Box::new(Export { ids, shape, stride }));
    // SAFETY: `view` is not null and may be overwritten (contract of this function); `export` was just made from a box
    // and stays alive until `release_ids`; `PageId` is a transparent u32, which is what the format says.
    unsafe {
        (*view).buf = (*export).ids.as_ptr().cast_mut().cast::<c_void>();
        (*view).obj = owner.into_ptr();
        (*view).len = shape * stride;
        (*view).itemsize = stride;
        (*view).readonly = 1;
        (*view).ndim = 1;
        (*view).format = if has(ffi::PyBUF_FORMAT) {
            c"I".as_ptr().cast_mut()
        } else {
            ptr::null_mut()
        };
        (*view).shape = if has(ffi::PyBUF_ND) {
            &raw mut (*export).shape
        } else {
            ptr::null_mut()
        };
        (*view).strides = if has(ffi::PyBUF_STRIDES) {
            &raw mut (*export).stride
        } else {
            ptr::null_mut()
        };
        (*view).suboffsets = ptr::null_mut();
        (*view).internal = export.cast::<c_void>();
    }
    Ok(())
}

/// Frees what [`export_ids`] made.
///
/// # Safety
/// `view` must have been filled by [`export_ids`] and not been released before.
pub unsafe fn release_ids(view: *mut ffi::Py_buffer) {
    // SAFETY: `internal` came from `Box::into_raw` in `export_ids`, and a view is released once.
    drop(unsafe { Box::from_raw((*view).internal.cast::<Export>()) });
}

/// Numbers of a buffer of one dimension, copied; `what` and `kind` name them to the caller.
pub fn numbers<T: pyo3::buffer::Element>(
    object: &Bound<'_, PyAny>,
    what: &str,
    kind: &str,
) -> PyResult<Vec<T>> {
    let buffer = open(object, what)?;
    let typed = buffer.as_typed::<T>().ok();
    let typed = typed.filter(|_| buffer.dimensions() == 1);
    let numbers = typed.map(|typed| typed.to_vec(object.py())).transpose()?;
    numbers.ok_or_else(|| {
        let (format, dimensions) = (buffer.format().to_string_lossy(), buffer.dimensions());
        InvalidArgument::new_err(format!(
            "{what} are of format '{format}' in {dimensions} dimensions: pass {kind} in one"
        ))
    })
}

/// Page ids and their generations, one each.
pub fn stamps(
    pages: &Bound<'_, PyAny>,
    generations: &Bound<'_, PyAny>,
) -> PyResult<(Vec<u32>, Vec<u64>)> {
    let pages = numbers::<u32>(pages, "pages", "uint32")?;
    let generations = numbers::<u64>(generations, "generations", "uint64")?;
    if pages.len() != generations.len() {
        return Err(InvalidArgument::new_err(format!(
            "{} pages with {} generations: pass those of the same run",
            pages.len(),
            generations.len()
        )));
    }
    Ok((pages, generations))
}

/// Page keys laid end to end.
pub fn keys(object: &Bound<'_, PyAny>) -> PyResult<Vec<PageKey>> {
    let buffer = open(object, "keys")?;
    let bytes = buffer
        .as_typed::<u8>()
        .ok()
        .map(|typed| typed.to_vec(object.py()))
        .transpose()?;
    bytes.as_deref().and_then(PageKey::parse_all).ok_or_else(|| {
        InvalidArgument::new_err("keys are bytes, 32 for each page: pass those of PageKeys, cut at multiples of 32 if at all")
    })
}

/// The buffer of an argument, which `what` names.
pub fn open(object: &Bound<'_, PyAny>, what: &str) -> PyResult<PyUntypedBuffer> {
    PyUntypedBuffer::get(object).map_err(|error| {
        let kind = object.get_type();
        InvalidArgument::new_err(format!(
            "{what} must be a buffer, not {kind}: pass an array or bytes ({error})"
        ))
    })
}
