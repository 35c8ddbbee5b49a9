//! What stands in front of every at most 64 KiB on the wire: the header of a piece, or a word of the link itself.
//! All numbers are little-endian.
//!
//! | bytes  | a piece                                                 | a word                            |
//! |--------|---------------------------------------------------------|-----------------------------------|
//! | 0..4   | length of the body                                      | zero                              |
//! | 4      | kind of the message                                     | 1 received, 2 ask, 3 finish       |
//! | 5      | flags: 1 first piece of its message, 2 last piece       | flag 4, alone                     |
//! | 6..8   | zero, kept for later use                                | zero                              |
//! | 8..12  | stream                                                  | zero                              |
//! | 12..20 | number of the piece on this link, over all its sockets  | number of a piece, see [`Word`]   |

use crate::error::Malformation;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 20;
/// The most bytes of a piece, header included.
pub const MAX_PIECE_BYTES: usize = 64 * 1024;
/// The most bytes of a piece's body.
pub const MAX_BODY_BYTES: usize = MAX_PIECE_BYTES - HEADER_BYTES;

const FIRST: u8 = 1;
const LAST: u8 = 2;
const WORD: u8 = 4;

const RECEIVED: u8 = 1;
const ASK: u8 = 2;
const FINISH: u8 = 3;

/// A piece's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the body.
    pub length: usize,
    /// Kind of the message.
    pub kind: u8,
    /// Whether a message begins here.
    pub first: bool,
    /// Whether it ends here.
    pub last: bool,
    /// The stream.
    pub stream: u32,
    /// Counts the pieces of a link, from 0.
    pub sequence: u64,
}

/// What the two ends of a link tell each other about the link. Words are not numbered and never sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Every piece below this number has been taken.
    Received(u64),
    /// The other side is silent: is it there? Answered with `Received`.
    Ask,
    /// Nothing follows; the pieces before this number were all.
    Finish(u64),
}

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heading {
    /// A body follows.
    Piece(Header),
    /// Nothing follows.
    Word(Word),
}

impl Header {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&(self.length as u32).to_le_bytes());
        bytes[4] = self.kind;
        bytes[5] = u8::from(self.first) * FIRST + u8::from(self.last) * LAST;
        bytes[8..12].copy_from_slice(&self.stream.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }
}

impl Word {
    /// The word's bytes.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let (kind, number) = match self {
            Self::Received(number) => (RECEIVED, number),
            Self::Ask => (ASK, 0),
            Self::Finish(number) => (FINISH, number),
        };
        let mut bytes = [0; HEADER_BYTES];
        bytes[4] = kind;
        bytes[5] = WORD;
        bytes[12..20].copy_from_slice(&number.to_le_bytes());
        bytes
    }
}

impl Heading {
    /// What `bytes` say, checked.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Malformation> {
        let [
            l0,
            l1,
            l2,
            l3,
            kind,
            flags,
            r0,
            r1,
            s0,
            s1,
            s2,
            s3,
            rest @ ..,
        ] = *bytes;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let stream = u32::from_le_bytes([s0, s1, s2, s3]);
        let sequence = u64::from_le_bytes(rest);
        if (r0, r1) != (0, 0) {
            return Err(Malformation::ReservedBits);
        }
        if flags == WORD {
            return word(kind, length, stream, sequence).map(Self::Word);
        }
        if flags & !(FIRST | LAST) != 0 {
            return Err(Malformation::ReservedBits);
        }
        if length > MAX_BODY_BYTES {
            return Err(Malformation::PieceTooLong(length));
        }
        Ok(Self::Piece(Header {
            length,
            kind,
            first: flags & FIRST != 0,
            last: flags & LAST != 0,
            stream,
            sequence,
        }))
    }
}

fn word(kind: u8, length: usize, stream: u32, number: u64) -> Result<Word, Malformation> {
    match (kind, length, stream, number) {
        (RECEIVED, 0, 0, number) => Ok(Word::Received(number)),
        (ASK, 0, 0, 0) => Ok(Word::Ask),
        (FINISH, 0, 0, number) => Ok(Word::Finish(number)),
        _ => Err(Malformation::UnknownWord(kind)),
    }
}
