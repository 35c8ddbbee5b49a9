//! The clients that the edge serves without an event loop of another language in between: calls of `Connect`.

use std::time::Duration;

use bytes::Bytes;
use omniflow_grpc::{Code, Exchange, News, Status, with_binary};
use omniflow_wire::v1;
use prost::Message;

use crate::clients::{ACCEPTED_WITHIN, Urgency};
use crate::error::HubError;
use crate::hub::Hub;

/// About the most that one message to a client holds; a single larger frame travels whole.
const BATCH_BYTES: usize = 256 << 10;
/// Refusals and the like that wait for a client before it is listened to again.
const MOST_UNSENT: usize = 1_000;
/// Where clients look for the whole error.
const ERROR_TRAILER: &str = "omniflow-error-bin";

/// The news of a turn, for whoever serves their client.
pub(crate) type Told = Vec<(News, Duration)>;

impl Urgency {
    /// How long it may wait for something else to travel with.
    pub(crate) fn within(self) -> Duration {
        match self {
            Self::Now => Duration::ZERO,
            Self::Soon | Self::None => ACCEPTED_WITHIN,
        }
    }
}

impl Exchange for Hub {
    fn open(&self, news: News) -> u64 {
        self.open_told_client(news)
    }

    fn take(&self, caller: u64, message: Bytes) -> Result<bool, Status> {
        let unsent = self.send(caller, &message);
        unsent
            .map(|unsent| unsent <= MOST_UNSENT)
            .map_err(|error| unreadable(&error))
    }

    fn next(&self, caller: u64) -> Option<Vec<u8>> {
        Some(self.take(caller, BATCH_BYTES)).filter(|batch| !batch.is_empty())
    }

    fn close(&self, caller: u64) {
        self.close_client(caller);
    }
}

fn unreadable(error: &HubError) -> Status {
    let error = v1::Error {
        code: v1::ErrorCode::InvalidArgument.into(),
        message: "the request is not what omniflow.v1 declares".to_owned(),
        cause: error.to_string(),
        cure: "use a client of the same version".to_owned(),
        ..Default::default()
    };
    let message = format!("{}; {}", error.message, error.cure);
    let code = Code::InvalidArgument;
    with_binary(code, message, ERROR_TRAILER, &error.encode_to_vec())
}
