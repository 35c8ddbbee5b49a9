//! Page keys and the indexes over them. One binary: each would link the whole crate again.

#![allow(clippy::unwrap_used)] // A failed step of a test is its end.

mod chain;
mod cluster;
mod common;
mod memory;
mod oracle;
