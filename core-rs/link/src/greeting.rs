//! The first bytes of a connection, each way: which link it belongs to, and how much of it has arrived so far.
//!
//! | bytes  | field                                                        |
//! |--------|--------------------------------------------------------------|
//! | 0..4   | `OFLK`                                                       |
//! | 4      | version of the link protocol, now 1                          |
//! | 5      | 1 open, 2 resume; answers: 3 welcome, 4 unknown, 5 refused   |
//! | 6..8   | zero                                                         |
//! | 8..24  | the link, a random number of the side that opened it         |
//! | 24..32 | the number of the next piece that this side expects          |

use std::fmt;

use bytes::BufMut;

use crate::error::{GreetingProblem, LinkError};
use crate::socket::Socket;

/// Bytes of a greeting.
pub const GREETING_BYTES: usize = 32;
const MAGIC: &[u8; 4] = b"OFLK";
const VERSION: u8 = 1;
/// How a TLS record begins: a handshake or an alert, of version 3.x.
const TLS_RECORDS: [[u8; 2]; 2] = [[0x16, 3], [0x15, 3]];

/// Names a link, over all its sockets. Whoever knows it can take the link over: it goes to the peer alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkId([u8; 16]);

impl fmt::Debug for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinkId({:032x})", u128::from_be_bytes(self.0))
    }
}

impl LinkId {
    /// A new one.
    pub fn random() -> Result<Self, LinkError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| LinkError::Io {
            doing: "asking for random bytes",
            source: std::io::Error::other(error),
        })?;
        Ok(Self(bytes))
    }
}

/// What a greeting wants, or answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A new link.
    Open,
    /// A link whose connection broke.
    Resume,
    /// So be it.
    Welcome,
    /// No such link here.
    Unknown,
    /// The greeting was not understood.
    Refused,
}

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    /// What it wants, or answers.
    pub purpose: Purpose,
    /// The link.
    pub link: LinkId,
    /// The number of the next piece that this side expects.
    pub received: u64,
}

impl Greeting {
    /// The greeting's bytes.
    pub fn encode(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = VERSION;
        bytes[5] = match self.purpose {
            Purpose::Open => 1,
            Purpose::Resume => 2,
            Purpose::Welcome => 3,
            Purpose::Unknown => 4,
            Purpose::Refused => 5,
        };
        bytes[8..24].copy_from_slice(&self.link.0);
        bytes[24..].copy_from_slice(&self.received.to_le_bytes());
        bytes
    }

    /// The greeting in `bytes`, which may be fewer when the peer hung up.
    pub fn decode(bytes: &[u8]) -> Result<Self, GreetingProblem> {
        if TLS_RECORDS.iter().any(|record| bytes.starts_with(record)) {
            return Err(GreetingProblem::SpeaksTls);
        }
        let Some(&[m0, m1, m2, m3, version, purpose, r0, r1, ref rest @ ..]) =
            bytes.first_chunk::<GREETING_BYTES>()
        else {
            return Err(GreetingProblem::HungUp);
        };
        if [m0, m1, m2, m3] != *MAGIC {
            return Err(GreetingProblem::NotAPeer);
        }
        if version != VERSION {
            return Err(GreetingProblem::Version(version));
        }
        let purpose = match (purpose, r0, r1) {
            (1, 0, 0) => Purpose::Open,
            (2, 0, 0) => Purpose::Resume,
            (3, 0, 0) => Purpose::Welcome,
            (4, 0, 0) => Purpose::Unknown,
            (5, 0, 0) => Purpose::Refused,
            _ => return Err(GreetingProblem::OutOfTurn),
        };
        let (mut link, mut received) = ([0; 16], [0; 8]);
        link.copy_from_slice(&rest[..16]);
        received.copy_from_slice(&rest[16..]);
        Ok(Self {
            purpose,
            link: LinkId(link),
            received: u64::from_le_bytes(received),
        })
    }

    /// What to say to a greeting that was not understood, so that its sender learns why.
    pub(crate) fn refusal() -> Self {
        Self {
            purpose: Purpose::Refused,
            link: LinkId([0; 16]),
            received: 0,
        }
    }

    pub(crate) async fn write(&self, socket: &Socket) -> std::io::Result<()> {
        let bytes = self.encode();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let written = socket.write(&[std::io::IoSlice::new(rest)]).await?;
            rest = &rest[written.min(rest.len())..];
        }
        Ok(())
    }

    /// Reads exactly a greeting: what follows it stays in the socket.
    pub(crate) async fn read(socket: &Socket) -> std::io::Result<Result<Self, GreetingProblem>> {
        let mut bytes = Vec::with_capacity(GREETING_BYTES);
        while bytes.len() < GREETING_BYTES {
            let room = GREETING_BYTES - bytes.len();
            if socket.read(&mut (&mut bytes).limit(room)).await? == 0 {
                break;
            }
        }
        Ok(Self::decode(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_survive_the_wire_and_strangers_are_told_apart() {
        let link = LinkId([7; 16]);
        for purpose in [
            Purpose::Open,
            Purpose::Resume,
            Purpose::Welcome,
            Purpose::Unknown,
        ] {
            let greeting = Greeting {
                purpose,
                link,
                received: 9,
            };
            assert_eq!(Greeting::decode(&greeting.encode()), Ok(greeting));
        }
        let mut newer = Greeting::refusal().encode();
        newer[4] = 2;
        assert_eq!(Greeting::decode(&newer), Err(GreetingProblem::Version(2)));
        assert_eq!(
            Greeting::decode(b"GET / HTTP/1.1\r\nHost: example.org\r\n"),
            Err(GreetingProblem::NotAPeer)
        );
        assert_eq!(
            Greeting::decode(&[0x15, 3, 3, 0, 2]),
            Err(GreetingProblem::SpeaksTls)
        );
        assert_eq!(Greeting::decode(b"OFLK"), Err(GreetingProblem::HungUp));
    }
}
