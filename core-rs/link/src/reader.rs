//! The receiving side of a link.

use std::sync::Arc;

use bytes::BytesMut;

use crate::error::LinkError;
use crate::inbound::Inbound;
use crate::message::Received;
use crate::shared::{Connection, Shared};

/// Room for one read.
const READ_BYTES: usize = 128 * 1024;
/// A peer that hears nothing else is told after so many bytes that they have arrived.
const TELL_EVERY: usize = 256 * 1024;

/// The receiving side. It has to be read: heartbeats and acknowledgements of the peer come this way too.
#[derive(Debug)]
pub struct LinkReader {
    shared: Arc<Shared>,
    /// None while the link waits for one.
    connection: Option<Connection>,
    buffer: BytesMut,
    inbound: Inbound,
    /// Bytes that came since the peer was last told so here.
    untold: usize,
    finished: bool,
}

impl LinkReader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let inbound = Inbound::new(shared.config.max_message_bytes);
        Self {
            shared,
            connection: None,
            buffer: BytesMut::new(),
            inbound,
            untold: 0,
            finished: false,
        }
    }

    /// Waits for at least one message and appends all that have arrived. `Ok(false)`: the peer closed in good order.
    ///
    /// A broken connection is waited out; `Lost` says that it was not resumed. Cancelling a call loses nothing.
    pub async fn read(&mut self, messages: &mut Vec<Received>) -> Result<bool, LinkError> {
        let before = messages.len();
        while messages.len() == before && !self.finished {
            let Some(connection) = self.connection.clone() else {
                self.reconnect().await?;
                continue;
            };
            self.buffer.reserve(READ_BYTES);
            match connection.socket.read(&mut self.buffer).await {
                Ok(0) => self.broken(&connection, || "the peer closed the connection".to_owned()),
                Ok(_) => self.take(messages)?,
                Err(error) => self.broken(&connection, || format!("the connection broke: {error}")),
            }
        }
        Ok(messages.len() > before)
    }

    fn take(&mut self, messages: &mut Vec<Received>) -> Result<(), LinkError> {
        let taken = self.inbound.take(&mut self.buffer, messages);
        let heard = taken.inspect_err(|_| self.shared.abort())?;
        self.untold += heard.bytes;
        let owed = self.untold >= TELL_EVERY;
        if owed {
            self.untold = 0;
        }
        self.finished |= heard.finished;
        let noted = self.shared.note(&heard, self.inbound.expected(), owed);
        noted.inspect_err(|_| self.shared.abort())
    }

    fn broken(&mut self, connection: &Connection, cause: impl FnOnce() -> String) {
        let midway = !self.buffer.is_empty() || self.inbound.is_midway();
        self.shared.broken(connection, || {
            let place = if midway {
                " in the middle of a message"
            } else {
                ""
            };
            cause() + place
        });
        self.connection = None;
        // The peer sends an unfinished piece again, from its beginning.
        self.buffer.clear();
    }

    async fn reconnect(&mut self) -> Result<(), LinkError> {
        loop {
            if let Some(connection) = self.shared.connection()? {
                self.connection = Some(connection);
                return Ok(());
            }
            self.shared.connected.notified().await;
        }
    }
}

impl Drop for LinkReader {
    fn drop(&mut self) {
        self.shared.stop_listening();
    }
}
