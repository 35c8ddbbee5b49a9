//! Arenas that travel over a channel: what is said of each, and its descriptors.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::channel::{Channel, MAX_DESCRIPTORS};
use crate::error::ArenaError;
use crate::header::{ArenaId, Header, Medium};
use crate::host::{Access, HostArena, geometry_of};
use crate::layout::Layout;

/// The longest name of an arena, in bytes.
const MAX_NAME: usize = 64;

/// An arena to pass on.
#[derive(Clone, Debug)]
pub struct Offer<'a> {
    /// What both sides call it: `kv`, `blobs`.
    pub name: &'a str,
    /// The arena.
    pub arena: &'a HostArena,
    /// Where its pages lie, for an arena of another device: what that device's driver exports.
    pub elsewhere: Option<BorrowedFd<'a>>,
}

/// An arena that was passed on; not mapped yet. Its descriptors are closed when it is dropped.
#[derive(Debug)]
pub struct Offered {
    /// What both sides call it.
    pub name: String,
    header: Header,
    descriptor: OwnedFd,
    elsewhere: Option<OwnedFd>,
}

impl Offered {
    /// What it is made of, as its owner says.
    pub fn layout(&self) -> &Layout {
        &self.header.layout
    }

    /// Which arena it is, as its owner says.
    pub fn id(&self) -> ArenaId {
        self.header.id
    }

    /// Maps it, if it is as its owner says, and gives the descriptor of pages that lie elsewhere.
    pub fn open(self, access: Access) -> Result<(HostArena, Option<OwnedFd>), ArenaError> {
        let arena = HostArena::open(self.descriptor, &self.header.layout, access)?;
        if arena.id() != self.header.id {
            return Err(ArenaError::Mismatch {
                field: "id",
                expected: self.header.id.to_string(),
                found: arena.id().to_string(),
            });
        }
        Ok((arena, self.elsewhere))
    }

    /// The same, if it is what this process wants.
    pub fn open_as(
        self,
        wanted: &Layout,
        access: Access,
    ) -> Result<(HostArena, Option<OwnedFd>), ArenaError> {
        self.layout().require(wanted)?;
        self.open(access)
    }
}

/// Sends arenas in one message, as many as its descriptors allow, within `patience`.
pub fn offer(
    channel: &Channel,
    offers: &[Offer<'_>],
    patience: Option<Duration>,
) -> Result<(), ArenaError> {
    let mut payload = vec![offers.len().min(MAX_DESCRIPTORS + 1) as u8];
    let mut descriptors = Vec::new();
    for offer in offers {
        let name = offer.name.as_bytes();
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(bad(format!(
                "an arena is called {:?}: give it a name of 1 to {MAX_NAME} bytes",
                offer.name
            )));
        }
        payload.extend([name.len() as u8, u8::from(offer.elsewhere.is_some())]);
        payload.extend(name);
        payload.extend(offer.arena.header().encode(Medium::Memory));
        descriptors.push(offer.arena.descriptor());
        descriptors.extend(offer.elsewhere);
    }
    channel.send(&payload, &descriptors, patience)
}

/// The arenas of the next message.
pub fn take_offers(
    channel: &Channel,
    patience: Option<Duration>,
) -> Result<Vec<Offered>, ArenaError> {
    let message = channel.receive(patience)?;
    let mut bytes = Bytes(&message.payload);
    let mut descriptors = message.descriptors.into_iter();
    let mut next = || {
        let missing = || bad("a descriptor is missing".into());
        descriptors.next().ok_or_else(missing)
    };
    let mut offered = Vec::new();
    for _ in 0..bytes.byte()? {
        let (name_bytes, has_elsewhere) = (bytes.byte()?, bytes.byte()?);
        let name = std::str::from_utf8(bytes.take(name_bytes.into())?)
            .map_err(|_| bad("an arena's name is no text".into()))?;
        let header = bytes.take(Header::SIZE)?;
        offered.push(Offered {
            name: name.into(),
            header: Header::decode(Medium::Memory, header, geometry_of)?,
            descriptor: next()?,
            elsewhere: (has_elsewhere != 0).then(&mut next).transpose()?,
        });
    }
    if !bytes.0.is_empty() || next().is_ok() {
        return Err(bad("there is more than it says".into()));
    }
    Ok(offered)
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], ArenaError> {
        let cut = self.0.split_at_checked(count);
        let (taken, rest) = cut.ok_or_else(|| bad("it is cut short".into()))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, ArenaError> {
        Ok(self.take(1)?[0])
    }
}

fn bad(why: String) -> ArenaError {
    ArenaError::BadMessage { why }
}
