//! `KeyChain`: the page keys of one sequence, from buffers to bytes.

use std::num::{NonZeroU32, NonZeroUsize};

use omniflow_prefix::{KeyChain as Chain, KeyRoot, MediaItem, PageKey};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffers;
use crate::errors::{self, InvalidArgument};

/// The page keys of one token sequence.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct KeyChain {
    /// Never locked while waiting for the GIL.
    chain: Mutex<Chain>,
}

/// One tenant, or none.
const NO_SALT: &[u8] = b"";

/// A fingerprint as bytes or text.
#[derive(FromPyObject)]
enum Fingerprint {
    Bytes(Vec<u8>),
    Text(String),
}

impl Fingerprint {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
        }
    }
}

#[pymethods]
impl KeyChain {
    #[new]
    #[pyo3(signature = (model, layout, page_tokens, salt = NO_SALT), text_signature = "(model, layout, page_tokens, salt=b'')")]
    fn new(model: Fingerprint, layout: &str, page_tokens: u32, salt: &[u8]) -> PyResult<Self> {
        let page_tokens = NonZeroU32::new(page_tokens).ok_or_else(|| {
            InvalidArgument::new_err("page_tokens is 0: a page holds at least one token")
        })?;
        let root = KeyRoot::new(model.bytes(), layout, page_tokens, salt);
        Ok(Self {
            chain: Mutex::new(Chain::new(root)),
        })
    }

    fn __len__(&self) -> usize {
        self.chain.lock().len()
    }

    #[getter]
    fn page_tokens(&self) -> usize {
        self.chain.lock().page_tokens()
    }

    #[getter]
    fn pages(&self) -> usize {
        self.chain.lock().keys().len()
    }

    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let keys = self.chain.lock().keys().to_vec();
        PyBytes::new_with(py, keys.len() * PageKey::SIZE, |bytes| {
            for (target, key) in bytes.chunks_exact_mut(PageKey::SIZE).zip(&keys) {
                target.copy_from_slice(&key.0);
            }
            Ok(())
        })
    }

    fn append(&self, token: u32) -> usize {
        self.chain.lock().extend(&[token])
    }

    fn extend(&self, py: Python<'_>, tokens: &Bound<'_, PyAny>) -> PyResult<usize> {
        let tokens = buffers::tokens(tokens)?;
        Ok(py.detach(|| self.chain.lock().extend(&tokens)))
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
        Ok(py.detach(|| self.chain.lock().add_media(item)))
    }

    fn truncate(&self, tokens: usize) -> PyResult<()> {
        self.chain.lock().truncate(tokens).map_err(errors::chain)
    }

    fn fork(&self) -> Self {
        Self {
            chain: Mutex::new(self.chain.lock().clone()),
        }
    }

    fn __repr__(&self) -> String {
        let chain = self.chain.lock();
        format!(
            "KeyChain(tokens={}, pages={})",
            chain.len(),
            chain.keys().len()
        )
    }
}
