//! The extension module `omniflow_core._native`: a table of contents. Conversions and GIL release live in the
//! modules beside this one; logic lives in the crates they wrap.

mod arena;
mod arena_blobs;
mod arena_channel;
mod arena_disk;
mod buffers;
mod call;
mod cluster_index;
mod edge;
mod errors;
mod flow;
mod hub;
mod key_chain;
mod locks;
mod node;
mod page_keys;
mod pages;
mod pages_extents;
mod pages_run;
mod pages_tiers;
mod payloads;
mod prefix;
mod standby;
mod tls;
mod tokens;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    call::register(module)?;
    arena::register(module)?;
    arena_blobs::register(module)?;
    arena_channel::register(module)?;
    arena_disk::register(module)?;
    cluster_index::register(module)?;
    edge::register(module)?;
    errors::register(module)?;
    flow::register(module)?;
    hub::register(module)?;
    node::register(module)?;
    pages::register(module)?;
    payloads::register(module)?;
    prefix::register(module)?;
    standby::register(module)?;
    Ok(())
}
