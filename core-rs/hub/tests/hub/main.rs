//! Hubs, real nodes and clients, over real sockets. One binary: each would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod adoption;
mod broken_links;
mod budgets;
mod clients;
mod common;
mod control_nodes;
mod faults;
mod jobs;
mod journal;
mod replication;
mod resuming;
mod rooms;
mod slow_clients;
mod unreachable;
