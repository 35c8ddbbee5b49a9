//! Payloads of frames across the boundary: small ones as `bytes`, big ones in place.

use std::ffi::{c_int, c_void};

use bytes::Bytes;
use omniflow_node::{BIG_BYTES, Draft as CoreDraft};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::errors::InvalidArgument;

/// Adds the classes of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Payload>()?;
    module.add_class::<Draft>()
}

/// A big payload where it lies: read-only bytes, held for as long as this or any view of it lives.
#[pyclass(frozen, module = "omniflow_core._native")]
pub struct Payload(Bytes);

#[pymethods]
impl Payload {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __repr__(&self) -> String {
        format!("Payload({} bytes)", self.0.len())
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = &slf.get().0;
        // SAFETY: Python passes a view to fill; `slf`, which it keeps, keeps the bytes where they are, to be read only.
        unsafe {
            fill(
                &slf,
                view,
                flags,
                (bytes.as_ptr().cast_mut(), bytes.len()),
                true,
            )
        }
    }
}

/// Room for the data of a payload, to be computed in place.
#[pyclass(frozen, module = "omniflow_core._native")]
pub struct Draft(pub CoreDraft);

#[pymethods]
impl Draft {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (start, bytes) = (slf.get().0.as_ptr(), slf.get().0.len());
        // SAFETY: Python passes a view to fill; `slf`, which it keeps, holds the room that is this worker's to write.
        unsafe { fill(&slf, view, flags, (start, bytes), false) }
    }
}

/// Fills `view` with bytes that `owner` keeps where they are.
///
/// # Safety
/// `view` must be null or point to a `Py_buffer` that may be overwritten; `owner` keeps `bytes` bytes from `start` on, and
/// they may be written unless `readonly`.
unsafe fn fill<T>(
    owner: &Bound<'_, T>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
    (start, bytes): (*mut u8, usize),
    readonly: bool,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("no view to fill"));
    }
    let (start, bytes) = (start.cast::<c_void>(), bytes as ffi::Py_ssize_t);
    // SAFETY: the contract of this function. FillInfo takes a reference to `owner`, and refuses a writable view of what is
    // read-only.
    let filled = unsafe {
        ffi::PyBuffer_FillInfo(
            view,
            owner.as_ptr(),
            start,
            bytes,
            c_int::from(readonly),
            flags,
        )
    };
    if filled < 0 {
        return Err(PyErr::fetch(owner.py()));
    }
    Ok(())
}

/// As Python sees a payload.
pub fn to_python<'py>(py: Python<'py>, payload: &Bytes) -> PyResult<Bound<'py, PyAny>> {
    if payload.len() <= BIG_BYTES {
        return Ok(PyBytes::new(py, payload).into_any());
    }
    Ok(Bound::new(py, Payload(payload.clone()))?.into_any())
}

/// A payload that Python gives: bytes, or parts of one that lie apart.
#[derive(FromPyObject)]
pub enum Given {
    Whole(PyBackedBytes),
    Parts(Vec<Part>),
}

/// One part.
#[derive(FromPyObject)]
pub enum Part {
    Bytes(PyBackedBytes),
    Buffer(PyBuffer<u8>),
}

impl Given {
    /// Where its parts lie. Whoever gave them does not write them before the call returns.
    pub fn parts(&self) -> PyResult<Vec<&[u8]>> {
        match self {
            Self::Whole(bytes) => Ok(vec![bytes]),
            Self::Parts(parts) => parts.iter().map(Part::bytes).collect(),
        }
    }
}

impl Part {
    fn bytes(&self) -> PyResult<&[u8]> {
        let buffer = match self {
            Self::Bytes(bytes) => return Ok(bytes),
            Self::Buffer(buffer) => buffer,
        };
        if !buffer.is_c_contiguous() {
            return Err(InvalidArgument::new_err(
                "a part of a frame does not lie in one piece: pass a contiguous copy of it",
            ));
        }
        if buffer.len_bytes() == 0 {
            return Ok(&[]);
        }
        // SAFETY: the buffer is contiguous and of that many bytes, and is held for as long as `self`. That nobody writes it
        // meanwhile is asked of the caller, as with every buffer that is read without the GIL; then only its own frame would
        // be a mixture.
        Ok(
            unsafe {
                std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes())
            },
        )
    }
}
