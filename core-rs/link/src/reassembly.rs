//! From bytes to messages: pure, and suspicious of every byte.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::Malformation;
use crate::header::{HEADER_BYTES, Header};
use crate::message::Received;
use crate::outbox::MAX_OPEN;

/// Smaller bodies are copied out, so that a kept message does not keep a whole read buffer alive.
const COPY_UP_TO: usize = 4 * 1024;

#[derive(Debug)]
struct Open {
    kind: u8,
    stream: u32,
    body: BytesMut,
}

/// Puts the messages of one link together.
#[derive(Debug)]
pub(crate) struct Reassembly {
    open: Vec<Open>,
    expected: u64,
    max_message_bytes: usize,
}

impl Reassembly {
    pub(crate) fn new(max_message_bytes: usize) -> Self {
        Self {
            open: Vec::new(),
            expected: 0,
            max_message_bytes,
        }
    }

    /// Whether a message has begun and not ended.
    pub(crate) fn is_midway(&self) -> bool {
        !self.open.is_empty()
    }

    /// Moves every message that `buffer` completes to `messages`; an unfinished piece stays in `buffer`.
    pub(crate) fn take(
        &mut self,
        buffer: &mut BytesMut,
        messages: &mut Vec<Received>,
    ) -> Result<(), Malformation> {
        while let Some(bytes) = buffer.first_chunk::<HEADER_BYTES>() {
            let header = Header::decode(bytes)?;
            if buffer.len() < HEADER_BYTES + header.length {
                return Ok(());
            }
            if header.sequence != self.expected {
                return Err(Malformation::OutOfSequence {
                    expected: self.expected,
                    found: header.sequence,
                });
            }
            self.expected += 1;
            buffer.advance(HEADER_BYTES);
            self.piece(header, buffer, messages)?;
        }
        Ok(())
    }

    fn piece(
        &mut self,
        header: Header,
        buffer: &mut BytesMut,
        messages: &mut Vec<Received>,
    ) -> Result<(), Malformation> {
        let stream = header.stream;
        let place = self.open.iter().position(|open| open.stream == stream);
        let place = match (header.first, place) {
            (true, Some(_)) => return Err(Malformation::Nested(stream)),
            (false, None) => return Err(Malformation::NotBegun(stream)),
            (true, None) if header.last => {
                self.check_length(header.length)?;
                messages.push(Received {
                    kind: header.kind,
                    stream,
                    body: take_body(buffer, header.length),
                });
                return Ok(());
            }
            (true, None) => self.begin(&header)?,
            (false, Some(place)) => place,
        };
        let open = &mut self.open[place];
        if open.kind != header.kind {
            return Err(Malformation::KindChanged(stream));
        }
        let length = open.body.len() + header.length;
        if length > self.max_message_bytes {
            return Err(Malformation::MessageTooLong(self.max_message_bytes));
        }
        open.body.extend_from_slice(&buffer[..header.length]);
        buffer.advance(header.length);
        if header.last {
            let open = self.open.swap_remove(place);
            messages.push(Received {
                kind: open.kind,
                stream,
                body: open.body.freeze(),
            });
        }
        Ok(())
    }

    fn begin(&mut self, header: &Header) -> Result<usize, Malformation> {
        if self.open.len() == MAX_OPEN {
            return Err(Malformation::TooManyOpen(MAX_OPEN));
        }
        self.open.push(Open {
            kind: header.kind,
            stream: header.stream,
            body: BytesMut::new(),
        });
        Ok(self.open.len() - 1)
    }

    fn check_length(&self, length: usize) -> Result<(), Malformation> {
        if length > self.max_message_bytes {
            return Err(Malformation::MessageTooLong(self.max_message_bytes));
        }
        Ok(())
    }
}

fn take_body(buffer: &mut BytesMut, length: usize) -> Bytes {
    if length <= COPY_UP_TO {
        let body = Bytes::copy_from_slice(&buffer[..length]);
        buffer.advance(length);
        body
    } else {
        buffer.split_to(length).freeze()
    }
}
