//! Small flows for the tests.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

// The resolver's tests write graphs with the same words.
#[path = "../../../../flow/tests/resolver/support/build.rs"]
pub mod build;
pub mod cluster;
mod flat;
pub mod flows;
mod observed;
pub mod place;
pub mod second_life;
pub mod table;
pub mod value;
pub mod world;

pub use flat::flow;
