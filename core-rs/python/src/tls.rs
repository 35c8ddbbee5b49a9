//! Certificates of a process, as Python names them: paths.

use std::path::PathBuf;

use omniflow_link::{Tls, TlsFiles};
use pyo3::prelude::*;

use crate::errors;

/// Certificate, key and authority, all PEM files.
pub type Files = (PathBuf, PathBuf, PathBuf);

/// Reads and checks them. Raises `CertificateUnusable`, naming the file.
pub fn load(files: Option<Files>) -> PyResult<Option<Tls>> {
    let Some((certificate, key, authority)) = files else {
        return Ok(None);
    };
    let files = TlsFiles {
        certificate,
        key,
        authority,
    };
    Tls::load(&files).map(Some).map_err(errors::link)
}
