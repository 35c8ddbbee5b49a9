//! What the core's steps cost: `cargo bench -p omniflow-benches --bench NAME`, one of `benches/`.
//!
//! They lie apart from the crates that they measure, because a crate's tests build all that its benches need. `make test`
//! lints them, and leaves them out of what it builds.
