//! Pages from outside, step by step and at random. One binary: each would link the whole crate again.

#![allow(clippy::unwrap_used)] // A failed step of a test is its end.

mod extents;
mod leases;
mod model;
mod tiers;
