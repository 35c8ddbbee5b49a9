//! The header of a piece: what stands in front of every at most 64 KiB on the wire. All numbers are little-endian.
//!
//! | bytes  | field                                                                    |
//! |--------|--------------------------------------------------------------------------|
//! | 0..4   | length of the body                                                       |
//! | 4      | kind of the message                                                      |
//! | 5      | flags: 1 first piece, 2 last piece; the others are zero                  |
//! | 6..8   | zero, kept for later use                                                 |
//! | 8..12  | stream                                                                   |
//! | 12..20 | sequence number of the piece on this link: what acknowledgement, resume and credits will name |

use crate::error::Malformation;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 20;
/// The most bytes of a piece, header included.
pub const MAX_PIECE_BYTES: usize = 64 * 1024;
/// The most bytes of a piece's body.
pub const MAX_BODY_BYTES: usize = MAX_PIECE_BYTES - HEADER_BYTES;

const FIRST: u8 = 1;
const LAST: u8 = 2;

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

    /// The header in `bytes`, checked.
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
        if length > MAX_BODY_BYTES {
            return Err(Malformation::PieceTooLong(length));
        }
        if flags & !(FIRST | LAST) != 0 || (r0, r1) != (0, 0) {
            return Err(Malformation::ReservedBits);
        }
        Ok(Self {
            length,
            kind,
            first: flags & FIRST != 0,
            last: flags & LAST != 0,
            stream: u32::from_le_bytes([s0, s1, s2, s3]),
            sequence: u64::from_le_bytes(rest),
        })
    }
}
