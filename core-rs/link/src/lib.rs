//! Framed peer links over Unix sockets and TCP: lengths, fragments, interleaving; no meaning.
//!
//! A [`Message`] is a kind byte, a stream number and bytes. Messages of one stream arrive in the order in which they
//! were sent; those of different streams may overtake each other, so that nothing waits behind another's bulk. On the
//! wire a message is one or more [pieces](header) of at most 64 KiB. What the first messages of a link have to be
//! (a handshake) is the user's affair.

mod address;
mod batch;
mod connection;
mod dial;
mod error;
pub mod header;
mod listener;
mod message;
mod outbox;
mod reassembly;
mod socket;

#[cfg(test)]
mod fragment_tests;

pub use address::Address;
pub use connection::{LinkConfig, LinkReader, LinkSender, open};
pub use dial::dial;
pub use error::{LinkError, Malformation};
pub use listener::Listener;
pub use message::{Message, Received};
pub use socket::Socket;
