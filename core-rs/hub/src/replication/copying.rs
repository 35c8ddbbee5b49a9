//! What a standby does with what the leader sends: its journal becomes the leader's, and each batch is written at once.

use omniflow_link::Received;

use super::messages::{self, Ack, BEGIN, Begin, RECORDS, SNAPSHOT};
use crate::journal::copy::{Incoming, JournalCopy, whole_records};

/// One link's worth of it. What is wrong is an error in words; the journal is then as it was after the last whole record.
pub(crate) struct Copying<'a> {
    copy: &'a mut JournalCopy,
    begun: bool,
    /// A snapshot, and how many bytes of it are missing.
    incoming: Option<(Incoming, u64)>,
    /// A record that has not come as a whole.
    rest: Vec<u8>,
    /// Bytes of pieces that have come.
    bytes: u64,
}

impl<'a> Copying<'a> {
    pub(crate) fn new(copy: &'a mut JournalCopy) -> Self {
        Self {
            copy,
            begun: false,
            incoming: None,
            rest: Vec::new(),
            bytes: 0,
        }
    }

    /// Takes in everything that has arrived. Returns what the leader is to be told.
    pub(crate) fn take(&mut self, received: impl Iterator<Item = Received>) -> Result<Ack, String> {
        for message in received {
            match message.kind {
                BEGIN if !self.begun => self.begin(&messages::parse("Begin", message.body)?)?,
                SNAPSHOT if self.incoming.is_some() => self.snapshot(&message.body)?,
                RECORDS if self.begun && self.incoming.is_none() => {
                    self.bytes += message.body.len() as u64;
                    self.rest.extend_from_slice(&message.body);
                }
                kind => {
                    return Err(format!(
                        "the leader sent a message of kind {kind} out of turn"
                    ));
                }
            }
        }
        let whole = whole_records(&self.rest);
        if whole > 0 {
            let appended = self.copy.append(&self.rest[..whole]);
            appended.map_err(|error| error.to_string())?;
            self.rest.drain(..whole);
        }
        Ok(Ack {
            last: self.copy.extent().last,
            bytes: self.bytes,
        })
    }

    fn begin(&mut self, begin: &Begin) -> Result<(), String> {
        if !begin.refusal.is_empty() {
            return Err(format!("the leader refuses: {}", begin.refusal));
        }
        let last = self.copy.extent().last;
        if begin.keep > last {
            return Err(format!(
                "the leader goes on after record {}, and this journal ends at {last}",
                begin.keep
            ));
        }
        self.begun = true;
        if begin.snapshot > 0 {
            let incoming = self.copy.begin_snapshot(begin.snapshot);
            let incoming = incoming.map_err(|error| error.to_string())?;
            self.incoming = Some((incoming, begin.snapshot_bytes));
            return Ok(());
        }
        let truncated = self.copy.truncate(begin.keep);
        truncated.map_err(|error| error.to_string())
    }

    fn snapshot(&mut self, piece: &[u8]) -> Result<(), String> {
        self.bytes += piece.len() as u64;
        let Some((mut incoming, left)) = self.incoming.take() else {
            return Ok(());
        };
        let written = incoming.write(piece);
        written.map_err(|error| error.to_string())?;
        let left = left
            .checked_sub(piece.len() as u64)
            .ok_or("the leader sent more of a snapshot than it had said")?;
        if left == 0 {
            let ended = self.copy.end_snapshot(incoming);
            return ended.map_err(|error| error.to_string());
        }
        self.incoming = Some((incoming, left));
        Ok(())
    }
}
