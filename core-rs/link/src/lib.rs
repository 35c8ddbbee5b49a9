//! Framed peer links over Unix sockets and TCP: lengths, fragments, interleaving, resumption; no meaning.
//!
//! A [`Message`] is a kind byte, a stream number and bytes. Messages of one stream arrive in the order in which they
//! were sent; those of different streams may overtake each other, so that nothing waits behind another's bulk. On the
//! wire a message is one or more [pieces](header) of at most 64 KiB.
//!
//! A link outlives its connection. Pieces are numbered and kept until the peer says that it has them; when a connection
//! breaks, the side that dialled dials again, both [say](greeting) how much has arrived, and the rest goes again:
//! nothing is lost and nothing comes twice. What cannot be resumed (the peer was started anew, did not come back in time
//! or is silent) is [`Lost`](LinkError::Lost), and then the user of the link has to know what to do.
//!
//! The state is apart from the I/O: `outbound` (with `outbox` and `sent`) and `inbound` are the two directions as pure
//! state machines, `silence` decides who is dead, `shared` joins them to sockets, `tasks` and `reader` move bytes. What
//! the first messages of a link have to be (a handshake) is the user's affair.

mod address;
mod batch;
mod config;
mod endpoint;
mod error;
pub mod greeting;
pub mod header;
mod inbound;
mod listener;
mod message;
mod outbound;
mod outbox;
mod reader;
mod route;
mod sender;
mod sent;
mod shared;
mod silence;
mod socket;
mod tasks;
mod tls;

#[cfg(test)]
mod fragment_tests;
#[cfg(test)]
mod resume_tests;

pub use address::Address;
pub use config::LinkConfig;
pub use endpoint::Endpoint;
pub use error::{GreetingProblem, LinkError, Loss, LossReason, Malformation};
pub use listener::Listener;
pub use message::{Message, Received};
pub use reader::LinkReader;
pub use sender::LinkSender;
pub use tls::{Tls, TlsFiles};
