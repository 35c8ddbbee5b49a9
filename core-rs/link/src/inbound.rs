//! One direction of a link as its receiver sees it: from bytes to messages and words. Pure, and suspicious of every byte.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::Malformation;
use crate::header::{HEADER_BYTES, Header, Heading, Word};
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

/// What the peer said about the link itself, and how much came.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heard {
    /// It has every piece below this.
    pub(crate) received: Option<u64>,
    /// It wants to hear something.
    pub(crate) asked: bool,
    /// Nothing follows.
    pub(crate) finished: bool,
    /// Bytes of pieces that were new.
    pub(crate) bytes: usize,
}

impl Heard {
    /// A peer that asks and does not answer is not known to read: that it asks is no sign of life.
    pub(crate) fn is_mere_question(&self) -> bool {
        let question = Self {
            asked: true,
            ..Self::default()
        };
        *self == question
    }
}

/// Puts the messages of one link together, over all its sockets.
#[derive(Debug)]
pub(crate) struct Inbound {
    open: Vec<Open>,
    expected: u64,
    max_message_bytes: usize,
}

impl Inbound {
    pub(crate) fn new(max_message_bytes: usize) -> Self {
        Self {
            open: Vec::new(),
            expected: 0,
            max_message_bytes,
        }
    }

    /// The number of the next piece: all before it have been taken.
    pub(crate) fn expected(&self) -> u64 {
        self.expected
    }

    /// Whether a message has begun and not ended.
    pub(crate) fn is_midway(&self) -> bool {
        !self.open.is_empty()
    }

    /// Moves every message that `buffer` completes to `messages`; an unfinished piece stays in `buffer`. A piece that came
    /// before is dropped: a peer sends again what it cannot know to have arrived.
    pub(crate) fn take(
        &mut self,
        buffer: &mut BytesMut,
        messages: &mut Vec<Received>,
    ) -> Result<Heard, Malformation> {
        let mut heard = Heard::default();
        while let Some(bytes) = buffer.first_chunk::<HEADER_BYTES>() {
            let header = match Heading::decode(bytes)? {
                Heading::Piece(header) => header,
                Heading::Word(word) => {
                    buffer.advance(HEADER_BYTES);
                    self.word(word, &mut heard)?;
                    continue;
                }
            };
            if buffer.len() < HEADER_BYTES + header.length {
                break;
            }
            buffer.advance(HEADER_BYTES);
            if header.sequence < self.expected {
                buffer.advance(header.length);
                continue;
            }
            self.check_turn(header.sequence)?;
            self.expected += 1;
            heard.bytes += HEADER_BYTES + header.length;
            self.piece(header, buffer, messages)?;
        }
        Ok(heard)
    }

    fn word(&self, word: Word, heard: &mut Heard) -> Result<(), Malformation> {
        match word {
            Word::Received(next) => heard.received = heard.received.max(Some(next)),
            Word::Ask => heard.asked = true,
            Word::Finish(next) => {
                self.check_turn(next)?;
                heard.finished = true;
            }
        }
        Ok(())
    }

    fn check_turn(&self, found: u64) -> Result<(), Malformation> {
        if found == self.expected {
            return Ok(());
        }
        Err(Malformation::OutOfSequence {
            expected: self.expected,
            found,
        })
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
