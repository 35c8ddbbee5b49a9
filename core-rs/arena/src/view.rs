//! A part of an arena, used in place.

use std::ptr::NonNull;

use crate::error::ArenaError;
use crate::host::HostArena;

/// Some bytes of an arena in this process, which stay mapped while the view lives.
///
/// A view holds memory, not content: who reads under a lease checks the page's generation after it has read.
#[derive(Clone, Debug)]
pub struct View {
    arena: HostArena,
    start: NonNull<u8>,
    offset: u64,
    bytes: usize,
}

// SAFETY: `start` points into the mapping that `arena` holds, which is itself Send and Sync; see there for races.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// `start` lies at `offset` of the arena's pages and has `bytes` bytes of them behind it.
    pub(crate) fn new(arena: HostArena, start: NonNull<u8>, offset: u64, bytes: usize) -> Self {
        Self {
            arena,
            start,
            offset,
            bytes,
        }
    }

    /// The arena.
    pub fn arena(&self) -> &HostArena {
        &self.arena
    }

    /// Where it begins, in bytes from the first page.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes in it.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no byte.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Where it lies in this process: valid while the view lives, for writing only if the arena is mapped so.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its bytes, in place.
    ///
    /// # Safety
    /// Nobody, in no process, may write them while the slice lives: they belong to held or leased pages that are written.
    pub unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: the bytes are mapped while `self` lives, and nobody writes them (contract of this function).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Copies its bytes out. If somebody writes them meanwhile, the copy is a mixture, which the generation tells.
    pub fn read(&self, into: &mut [u8]) -> Result<(), ArenaError> {
        self.fits(into.len())?;
        // SAFETY: both sides are that long (checked), and `into` is borrowed mutably, so that they don't overlap: a mapping
        // is never handed out as a mutable slice.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.as_ptr(), into.as_mut_ptr(), into.len())
        };
        Ok(())
    }

    /// Copies `from` to its start. The pages must be of this process's own extent, and not be shared yet.
    pub fn write(&self, from: &[u8]) -> Result<(), ArenaError> {
        self.fits(from.len())?;
        if !self.arena.writable() {
            return Err(ArenaError::ReadOnly);
        }
        // SAFETY: the mapping is writable and that long (checked). `copy` allows `from` to lie in the same mapping.
        unsafe { std::ptr::copy(from.as_ptr(), self.start.as_ptr(), from.len()) };
        Ok(())
    }

    fn fits(&self, bytes: usize) -> Result<(), ArenaError> {
        if bytes <= self.bytes {
            return Ok(());
        }
        Err(ArenaError::OutOfBounds {
            offset: self.offset,
            end: self.offset + bytes as u64,
            size: self.offset + self.bytes as u64,
        })
    }
}
