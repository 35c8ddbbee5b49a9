//! The rules of the resolver, each with a test that bears its number, and random flows against oracles. One program, so that
//! it is linked once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod contract;
mod control_oracle;
mod oracle;
mod rules_attempts;
mod rules_firing;
mod rules_gather;
mod rules_loops;
mod rules_losses;
mod rules_resuming;
mod rules_scopes;
mod rules_streams;
mod support;
mod validation;
