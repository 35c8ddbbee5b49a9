//! The job table, step by step and at random. One binary: each would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod adopting;
mod clients;
mod common;
mod fan_out;
mod late_reports;
mod lives;
mod model;
mod moving;
mod recovery;
mod replay;
mod resuming;
mod scoped_recovery;
mod under_control;
