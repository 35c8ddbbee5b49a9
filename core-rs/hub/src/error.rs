//! What the hub's caller did wrong, or what the system refused it. Errors of jobs are events, not these.

use omniflow_flow::Problem;
use omniflow_link::LinkError;
use omniflow_placement::UnknownPolicy;

use crate::journal::JournalError;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// Bytes that are not the message they should be.
    #[error("malformed {what}: {cause}")]
    Wire {
        /// The message that it should have been.
        what: &'static str,
        /// What the parser said.
        cause: String,
    },
    /// A graph that can never work.
    #[error("the flow {name:?} can never work: {}", list(.problems))]
    FlowInvalid {
        /// The flow's name.
        name: String,
        /// Every reason.
        problems: Vec<Problem>,
    },
    /// No worker of that name is known.
    #[error("no worker is called {name:?}; known are: {}", .known.join(", "))]
    UnknownWorker {
        /// What was asked for.
        name: String,
        /// The names that are known.
        known: Vec<String>,
    },
    /// No client of that number is open.
    #[error("client {0} is not open; `open_client` gives the number to use")]
    UnknownClient(u64),
    /// The policy does not exist.
    #[error(transparent)]
    UnknownPolicy(#[from] UnknownPolicy),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Nobody can follow the journal.
    #[error("the standby cannot be let in: {0}")]
    Listen(LinkError),
    /// The operating system said no.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// Its words.
        source: std::io::Error,
    },
}

impl HubError {
    pub(crate) fn wire(what: &'static str) -> impl FnOnce(prost::DecodeError) -> Self {
        move |error| Self::Wire {
            what,
            cause: error.to_string(),
        }
    }

    pub(crate) fn io(doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}

fn list(problems: &[Problem]) -> String {
    let messages: Vec<&str> = problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    messages.join("; ")
}
