//! gRPC calls of opaque messages: what the edge of a cluster needs of gRPC, over tonic and hyper.
//!
//! A message through the event loops of gRPC's own Python library costs 300 CPU-µs at either end when messages come one by
//! one, for it passes three threads there; here it costs one wake-up. See docs/control-path.md.
//!
//! - `Call` is the client's side of a call with a stream each way, on a connection and a thread of its own.
//! - `Server` answers the calls of one method and passes every other call on to a server behind it.
//! - `Status` is how a call ended, with the binary entries of its trailers.
//!
//! Compression is neither offered nor taken.

mod call;
mod inbox;
mod outgoing;
mod raw;
mod serve;
mod signal;
mod status;
mod windows;

pub use call::{Call, CallConfig};
pub use serve::{Exchange, News, Server, ServerConfig};
pub use status::{binary_entries, with_binary};
pub use tonic::{Code, Status};
