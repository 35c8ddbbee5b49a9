//! `KeyChain`: the page keys of one sequence, from token buffers.

use std::borrow::Cow;
use std::num::{NonZeroU32, NonZeroUsize};

use omniflow_prefix::{KeyChain as Chain, KeyRoot, MediaItem};
use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors::{self, InvalidArgument};
use crate::locks::briefly;
use crate::page_keys::PageKeys;
use crate::tokens;

/// The page keys of one token sequence.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct KeyChain {
    chain: Mutex<Chain>,
}

impl KeyChain {
    pub fn lock(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock()
    }
}

/// One tenant, or none.
const NO_SALT: &[u8] = b"";

/// From here on (a hundred microseconds of hashing and more) other threads may run meanwhile.
const MANY_TOKENS: usize = 16_384;

/// A fingerprint as bytes or text. Not by trial and error, which would take longer than all else about a new chain.
fn fingerprint<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Cow::Owned(text.to_cow()?.into_owned().into_bytes()));
    }
    let kind = object.get_type();
    Err(InvalidArgument::new_err(format!(
        "model must be bytes or str, not {kind}: pass the fingerprint of the weights"
    )))
}

#[pymethods]
impl KeyChain {
    #[new]
    #[pyo3(signature = (model, layout, page_tokens, salt = NO_SALT), text_signature = "(model, layout, page_tokens, salt=b'')")]
    fn new(
        model: &Bound<'_, PyAny>,
        layout: &str,
        page_tokens: u32,
        salt: &[u8],
    ) -> PyResult<Self> {
        let page_tokens = NonZeroU32::new(page_tokens).ok_or_else(|| {
            InvalidArgument::new_err("page_tokens is 0: a page holds at least one token")
        })?;
        let root = KeyRoot::new(&fingerprint(model)?, layout, page_tokens, salt);
        Ok(Self {
            chain: Mutex::new(Chain::new(root)),
        })
    }

    fn __len__(&self) -> usize {
        self.lock().len()
    }

    #[getter]
    fn page_tokens(&self) -> usize {
        self.lock().page_tokens()
    }

    #[getter]
    fn pages(&self) -> usize {
        self.lock().keys().len()
    }

    #[getter]
    fn keys(&self) -> PageKeys {
        PageKeys::from(self.lock().keys())
    }

    fn append(&self, token: u32) -> usize {
        self.lock().extend(&[token])
    }

    fn extend(&self, py: Python<'_>, tokens: &Bound<'_, PyAny>) -> PyResult<usize> {
        let tokens = tokens::read(tokens)?;
        if tokens.len() < MANY_TOKENS {
            return Ok(briefly(py, &self.chain, |chain| chain.extend(&tokens)));
        }
        Ok(py.detach(|| self.lock().extend(&tokens)))
    }

    #[pyo3(signature = (digest, length, placeholder = 0, basis = 0))]
    fn add_media(
        &self,
        py: Python<'_>,
        digest: &[u8],
        length: usize,
        placeholder: u32,
        basis: u64,
    ) -> PyResult<usize> {
        let digest = digest.try_into().map_err(|_| {
            let length = digest.len();
            InvalidArgument::new_err(format!(
                "digest has {length} bytes: pass the full 32 of a 256-bit hash"
            ))
        })?;
        let length = NonZeroUsize::new(length).ok_or_else(|| {
            InvalidArgument::new_err("length is 0: a media item fills at least one position")
        })?;
        let item = MediaItem {
            digest,
            length,
            placeholder,
            basis,
        };
        Ok(py.detach(|| self.lock().add_media(item)))
    }

    fn truncate(&self, tokens: usize) -> PyResult<()> {
        self.lock().truncate(tokens).map_err(errors::chain)
    }

    fn fork(&self) -> Self {
        Self {
            chain: Mutex::new(self.lock().clone()),
        }
    }

    fn __repr__(&self) -> String {
        let chain = self.lock();
        format!(
            "KeyChain(tokens={}, pages={})",
            chain.len(),
            chain.keys().len()
        )
    }
}
