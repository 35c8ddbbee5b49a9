//! The receiving side of a link.

use std::sync::Arc;

use bytes::BytesMut;
use tokio::time::timeout;

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
    /// None once the peer has said that nothing follows.
    ear: Option<Ear>,
}

/// What listens, on whichever connection there is.
#[derive(Debug)]
struct Ear {
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
        let ear = Ear {
            shared: Arc::clone(&shared),
            connection: None,
            buffer: BytesMut::new(),
            inbound: Inbound::new(shared.config.max_message_bytes),
            untold: 0,
            finished: false,
        };
        Self {
            shared,
            ear: Some(ear),
        }
    }

    /// Waits for at least one message and appends all that have arrived. `Ok(false)`: the peer closed in good order.
    ///
    /// A broken connection is waited out; `Lost` says that it was not resumed. Cancelling a call loses nothing.
    pub async fn read(&mut self, messages: &mut Vec<Received>) -> Result<bool, LinkError> {
        let before = messages.len();
        let Some(ear) = &mut self.ear else {
            return Ok(false);
        };
        while messages.len() == before && !ear.finished {
            ear.hear(messages).await?;
        }
        if ear.finished
            && let Some(ear) = self.ear.take()
        {
            tokio::spawn(ear.linger());
        }
        Ok(messages.len() > before)
    }
}

impl Ear {
    /// One read, or one new connection.
    async fn hear(&mut self, messages: &mut Vec<Received>) -> Result<(), LinkError> {
        let Some(connection) = self.connection.clone() else {
            return self.reconnect().await;
        };
        self.buffer.reserve(READ_BYTES);
        match connection.socket.read(&mut self.buffer).await {
            Ok(0) => self.broken(&connection, || "the peer closed the connection".to_owned()),
            Ok(_) => self.take(messages)?,
            Err(error) => self.broken(&connection, || format!("the connection broke: {error}")),
        }
        Ok(())
    }

    /// The peer sends no more. What it has of this side's last messages it still says, until the link is over.
    async fn linger(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut none = Vec::new();
        while !shared.is_over() {
            let heard = tokio::select! {
                heard = self.hear(&mut none) => heard,
                // Whatever has changed is looked at above.
                () = shared.connected.notified() => Ok(()),
            };
            if heard.is_err() {
                break;
            }
            none.clear();
        }
        self.drain().await;
    }

    /// A socket that is closed with something unread in it takes along what the peer has not read yet: this side's last
    /// word.
    async fn drain(mut self) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        let until_the_end = async {
            while let Ok(1..) = connection.socket.read(&mut self.buffer).await {
                self.buffer.clear();
            }
        };
        // Whoever does not close its end is not waited for.
        let _ = timeout(self.shared.config.resume_within, until_the_end).await;
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
        if self.ear.is_some() {
            self.shared.stop_listening();
        }
    }
}
