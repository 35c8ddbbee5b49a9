//! What callers of the data path can get wrong, or be told.

use omniflow_link::LinkError;
use thiserror::Error;

/// Why a call failed.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The node was closed.
    #[error("the node is closed: no activation will come any more")]
    Closed,
    /// The activation must stop.
    #[error("the activation of {node} in job {job} is cancelled: {why}; stop within one step")]
    Cancelled {
        /// 16 hex digits.
        job: String,
        /// The node's name.
        node: String,
        /// What happened.
        why: &'static str,
    },
    /// A port or parameter that the node does not have.
    #[error("{node} has no {what} {name:?}; it has: {known}")]
    UnknownPort {
        /// The node's name.
        node: String,
        /// What was looked for, e.g. "output port".
        what: &'static str,
        /// As it was written.
        name: String,
        /// What there is.
        known: String,
    },
    /// The role yields what its method does not declare.
    #[error("{node}, output {port:?}: {problem}")]
    BadOutput {
        /// The node's name.
        node: String,
        /// The output port.
        port: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Something that the activation reads in place has been taken back: its lender did not hear of this worker in time.
    #[error(
        "what {node} reads in place may have changed under it: {cause}; its output does not count"
    )]
    Stale {
        /// The node's name.
        node: String,
        /// What was found.
        cause: String,
    },
    /// A message of the caller does not parse.
    #[error("the {what} does not parse: {cause}")]
    Malformed {
        /// Which message.
        what: &'static str,
        /// What the parser said.
        cause: String,
    },
    /// An argument that can never be right.
    #[error("{0}")]
    InvalidArgument(String),
    /// Listening failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The thread that does I/O could not start.
    #[error("the I/O thread could not start: {0}")]
    Thread(#[from] std::io::Error),
}
