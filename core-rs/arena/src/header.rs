//! The first bytes of an arena, in memory and on disk.

use std::fmt;

use crate::error::ArenaError;
use crate::layout::{Content, DeviceName, Fingerprint, Layout};

/// Room for the header: a page of memory, and a block of a disk.
pub(crate) const HEADER_ROOM: u64 = 4096;

/// What a header says before its checksum.
const SAID: usize = 128;

/// Raised when anything about an arena's format changes.
const VERSION: u32 = 1;

/// Names one arena for as long as it exists; never used for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArenaId(pub [u8; 16]);

impl ArenaId {
    /// Drawn by the system.
    pub(crate) fn new() -> Result<Self, ArenaError> {
        let mut id = [0; 16];
        let flags = rustix::rand::GetRandomFlags::empty();
        rustix::rand::getrandom(&mut id[..], flags)
            .map_err(ArenaError::system("drawing a random number"))?;
        Ok(Self(id))
    }
}

impl fmt::Display for ArenaId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.0.iter();
        bytes.try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// What holds the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    Memory,
    Disk,
}

impl Medium {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Memory => b"omniaren",
            Self::Disk => b"omnidisk",
        }
    }
}

/// Where things lie in an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Where the pages begin.
    pub(crate) data_at: u64,
    /// Bytes of the whole.
    pub(crate) file_bytes: u64,
}

/// A header that has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) layout: Layout,
    pub(crate) id: ArenaId,
    pub(crate) geometry: Geometry,
}

impl Header {
    pub(crate) const SIZE: usize = SAID + blake3::OUT_LEN;

    pub(crate) fn encode(&self, medium: Medium) -> [u8; Self::SIZE] {
        let layout = &self.layout;
        let mut device = [0; DeviceName::MAX];
        let name = layout.device().as_str().as_bytes();
        device[..name.len()].copy_from_slice(name);
        let parts: [&[u8]; 11] = [
            medium.magic(),
            &VERSION.to_le_bytes(),
            &layout.content().code().to_le_bytes(),
            &layout.page_bytes().to_le_bytes(),
            &layout.pages().to_le_bytes(),
            &[0; 4],
            &device,
            &layout.fingerprint().0,
            &self.id.0,
            &self.geometry.data_at.to_le_bytes(),
            &self.geometry.file_bytes.to_le_bytes(),
        ];
        let mut bytes = [0; Self::SIZE];
        let mut end = 0;
        for part in parts {
            bytes[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        debug_assert_eq!(end, SAID);
        let checksum = blake3::hash(&bytes[..SAID]);
        bytes[SAID..].copy_from_slice(checksum.as_bytes());
        bytes
    }

    /// What `bytes` say, if they are a header of this medium, and one that this version can have written.
    pub(crate) fn decode(
        medium: Medium,
        bytes: &[u8],
        geometry_of: impl Fn(&Layout) -> Geometry,
    ) -> Result<Self, ArenaError> {
        let mut fields = Fields(bytes);
        let bytes = bytes
            .get(..Self::SIZE)
            .ok_or_else(|| ArenaError::damaged("it is shorter than a header"))?;
        if fields.take::<8>() != *medium.magic() {
            return Err(ArenaError::damaged("it does not begin as one"));
        }
        let version = u32::from_le_bytes(fields.take());
        if version != VERSION {
            return Err(ArenaError::Mismatch {
                field: "version",
                expected: VERSION.to_string(),
                found: version.to_string(),
            });
        }
        if bytes[SAID..] != *blake3::hash(&bytes[..SAID]).as_bytes() {
            return Err(ArenaError::damaged("the checksum of its header is wrong"));
        }
        let content = Content::from_code(u32::from_le_bytes(fields.take()))
            .ok_or_else(|| ArenaError::damaged("it holds nothing that is known"))?;
        let page_bytes = u64::from_le_bytes(fields.take());
        let pages = u32::from_le_bytes(fields.take());
        fields.take::<4>();
        let device: [u8; DeviceName::MAX] = fields.take();
        let device = std::str::from_utf8(&device)
            .map_err(|_| ArenaError::damaged("its device has no name"))?
            .trim_end_matches('\0');
        let fingerprint = Fingerprint(fields.take());
        let id = ArenaId(fields.take());
        let geometry = Geometry {
            data_at: u64::from_le_bytes(fields.take()),
            file_bytes: u64::from_le_bytes(fields.take()),
        };
        let device = DeviceName::new(device)?;
        let layout = Layout::new(content, page_bytes, pages, fingerprint, device)?;
        if geometry != geometry_of(&layout) {
            return Err(ArenaError::damaged("its parts do not lie where they must"));
        }
        Ok(Self {
            layout,
            id,
            geometry,
        })
    }
}

/// Reads fields of fixed sizes; behind the end there are zeros.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const SIZE: usize>(&mut self) -> [u8; SIZE] {
        let mut field = [0; SIZE];
        let found = self.0.len().min(SIZE);
        field[..found].copy_from_slice(&self.0[..found]);
        self.0 = &self.0[found..];
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry_of(layout: &Layout) -> Geometry {
        Geometry {
            data_at: HEADER_ROOM,
            file_bytes: HEADER_ROOM + layout.data_bytes(),
        }
    }

    fn header() -> Header {
        let device = DeviceName::new("cuda:3").unwrap();
        let layout = Layout::new(Content::Blobs, 4096, 77, Fingerprint([5; 32]), device).unwrap();
        Header {
            geometry: geometry_of(&layout),
            layout,
            id: ArenaId::new().unwrap(),
        }
    }

    #[test]
    fn a_header_says_what_was_put_into_it() {
        let header = header();
        let bytes = header.encode(Medium::Disk);
        assert_eq!(
            Header::decode(Medium::Disk, &bytes, geometry_of),
            Ok(header)
        );
    }

    #[test]
    fn a_header_of_another_medium_or_version_or_geometry_is_refused() {
        let header = header();
        let bytes = header.encode(Medium::Disk);
        assert!(Header::decode(Medium::Memory, &bytes, geometry_of).is_err());
        assert!(Header::decode(Medium::Disk, &bytes[..159], geometry_of).is_err());
        let elsewhere = |layout: &Layout| Geometry {
            data_at: 2 * HEADER_ROOM,
            ..geometry_of(layout)
        };
        assert!(Header::decode(Medium::Disk, &bytes, elsewhere).is_err());
        let mut newer = bytes;
        newer[8] += 1;
        let refused = Header::decode(Medium::Disk, &newer, geometry_of);
        assert!(matches!(
            refused,
            Err(ArenaError::Mismatch {
                field: "version",
                ..
            })
        ));
    }

    #[test]
    fn a_header_with_any_bit_flipped_is_refused() {
        let bytes = header().encode(Medium::Memory);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(
                Header::decode(Medium::Memory, &flipped, geometry_of).is_err(),
                "bit {bit}"
            );
        }
    }
}
