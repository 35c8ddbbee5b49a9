//! A worker's data path: link to resolver to ready queue.
//!
//! - [`Node`] listens, dials and owns the one thread that does I/O.
//! - `core` is the state machine: messages and what activations do come in, [`core::Outputs`] go out. No sockets.
//! - `sharing` keeps big payloads in memory that workers of the host share, and lends them over links.
//! - [`Ready`] is where engines pull [`ActivationHandle`]s from.
//!
//! A frame's way: `io::incoming` reads it, `core::Core::from_peer` finds its job, the job's resolver makes an
//! activation of it, `ready::ReadyQueue` hands it out.

mod activation;
pub mod core;
mod error;
mod flow_entry;
mod handle;
mod ids;
mod io;
mod node;
mod passages;
mod ready;
mod sharing;
mod spill;
mod wires;

pub use activation::{Activation, InputKind};
pub use error::NodeError;
pub use handle::{ActivationHandle, Ready};
pub use ids::JobId;
pub use node::{Node, NodeConfig};
pub use sharing::{BIG_BYTES, Draft};
