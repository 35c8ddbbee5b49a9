//! Jobs over real links between real nodes. One binary: each would link the whole crate again.

#![allow(clippy::expect_used)] // A failed step of a test is its end.

mod chain;
mod credits;
mod faults;
mod keeping;
mod lending;
mod lending_checks;
mod lending_faults;
mod resuming;
mod support;
