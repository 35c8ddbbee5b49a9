//! What the server promises its callers, over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test file: clippy exempts only the test functions themselves.

mod calls;
mod hostile;
mod raw_client;
mod support;
