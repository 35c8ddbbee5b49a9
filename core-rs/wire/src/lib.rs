//! Messages and codecs of the wire contract (prost code, checked in).

mod link_message;
/// Generated from `proto/omniflow/v1`; the .proto files are where to read about it.
#[rustfmt::skip]
#[allow(missing_docs, clippy::all, rustdoc::all)]
pub mod v1;

pub use link_message::{Frame, LinkMessage, WireError};
/// The version of the link protocol that `Hello` and `Welcome` carry.
pub const PROTOCOL: u32 = 1;
