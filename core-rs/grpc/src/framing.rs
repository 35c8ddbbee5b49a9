//! Messages within a stream of bytes: each behind a flag and its length. Pure.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;

/// A flag, which says whether the message is compressed, and four bytes of length.
const HEAD: usize = 5;

/// What cannot be read.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    #[error("a message is compressed, which was not asked for")]
    Compressed,
    #[error("a message of {0} bytes is larger than max ({1})")]
    TooLarge(usize, usize),
}

/// Writes a message behind others.
pub(crate) fn write(message: &[u8], out: &mut BytesMut) {
    out.reserve(HEAD + message.len());
    out.put_u8(0);
    out.put_u32(message.len() as u32);
    out.put_slice(message);
}

/// Finds messages in what arrives, in pieces of any length.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// The beginning of a message of which the rest is missing.
    begun: BytesMut,
    limit: usize,
}

impl Decoder {
    /// Messages over `limit` bytes are not taken.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            begun: BytesMut::new(),
            limit,
        }
    }

    /// Appends the messages that are complete with this piece.
    pub(crate) fn take(
        &mut self,
        mut piece: Bytes,
        messages: &mut Vec<Bytes>,
    ) -> Result<(), Malformed> {
        if self.begun.is_empty() {
            // The usual case: whole messages, which are not copied.
            while let Some(length) = self.length_of(&piece)? {
                piece.advance(HEAD);
                messages.push(piece.split_to(length));
            }
        }
        self.begun.extend_from_slice(&piece);
        while let Some(length) = self.length_of(&self.begun)? {
            self.begun.advance(HEAD);
            messages.push(self.begun.split_to(length).freeze());
        }
        Ok(())
    }

    /// The length of the message at the beginning, if all of it is there.
    fn length_of(&self, mut bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        if bytes.len() < HEAD {
            return Ok(None);
        }
        if bytes.get_u8() != 0 {
            return Err(Malformed::Compressed);
        }
        let length = bytes.get_u32() as usize;
        if length > self.limit {
            return Err(Malformed::TooLarge(length, self.limit));
        }
        Ok((bytes.len() >= length).then_some(length))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_come_as_they_were_written_however_they_are_cut(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            cuts in prop::collection::vec(1..30usize, 1..40),
        ) {
            let mut written = BytesMut::new();
            messages.iter().for_each(|message| write(message, &mut written));
            let (mut rest, mut found, mut decoder) = (written.freeze(), Vec::new(), Decoder::new(64));
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let piece = rest.split_to(rest.len().min(*cut));
                decoder.take(piece, &mut found).expect("well formed");
            }
            prop_assert!(decoder.begun.is_empty());
            let found: Vec<Vec<u8>> = found.iter().map(|message| message.to_vec()).collect();
            prop_assert_eq!(found, messages);
        }
    }

    #[test]
    fn what_is_compressed_or_too_large_is_not_taken() {
        let mut decoder = Decoder::new(3);
        let compressed = decoder.take(Bytes::from_static(&[1, 0, 0, 0, 0]), &mut Vec::new());
        assert_eq!(compressed, Err(Malformed::Compressed));
        let mut decoder = Decoder::new(3);
        let large = decoder.take(Bytes::from_static(&[0, 0, 0, 0, 4]), &mut Vec::new());
        assert_eq!(large, Err(Malformed::TooLarge(4, 3)));
    }
}
