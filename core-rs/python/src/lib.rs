//! The extension module `omniflow_core._native`: a table of contents. Conversions and GIL release live in the
//! modules beside this one; logic lives in the crates they wrap.

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
