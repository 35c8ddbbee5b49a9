//! gRPC calls of opaque messages over HTTP/2: what the edge of a cluster needs of gRPC, and no more.
//!
//! A message through the event loops of gRPC's own Python library costs 300 CPU-µs at either end when messages come one by
//! one, for it passes three threads there; here it costs one wake-up. See docs/control-path.md.
//!
//! - `Call` is the client's side of a call with a stream each way, on a connection and a thread of its own.
//! - `Status` is how a call ended, with the binary entries of its trailers.
//!
//! Compression is neither offered nor taken.

mod call;
mod framing;
mod inbox;
mod outgoing;
mod signal;
mod status;

pub use call::{Call, CallConfig};
pub use status::{Code, Status};
