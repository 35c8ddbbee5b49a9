//! Links between real endpoints. One binary: each would link the whole crate again.

#![allow(clippy::expect_used)] // A failed step of a test is its end.

mod links;
mod resume;
mod support;
mod tls;
