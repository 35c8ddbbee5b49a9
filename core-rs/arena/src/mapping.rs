//! Mapped memory: the one place that maps and unmaps.

use std::fmt;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// A mapping begins at a multiple of this: large pages of memory then fit into it.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// A file, mapped whole and shared until it is dropped.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    writable: bool,
}

// SAFETY: the mapping is plain memory that stays where it is; nothing about it belongs to a thread. Who reads or writes it
// through a pointer of `at` answers for races, as with any shared memory.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` bytes of a file, from a multiple of [`LARGE_PAGE`] on. The file must not be cut short while
    /// the mapping lives (arenas are sealed).
    pub(crate) fn new(file: impl AsFd, bytes: usize, writable: bool) -> Result<Self, Errno> {
        let mut protection = ProtFlags::READ;
        protection.set(ProtFlags::WRITE, writable);
        let room = Reservation::new(bytes.checked_add(LARGE_PAGE).ok_or(Errno::NOMEM)?)?;
        let start = room.aligned();
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: what is replaced is a part of the reservation, which nobody uses.
        unsafe { mmap(start.as_ptr().cast(), bytes, protection, flags, file, 0) }?;
        room.keep(start, bytes);
        Ok(Self {
            start,
            bytes,
            writable,
        })
    }

    pub(crate) fn writable(&self) -> bool {
        self.writable
    }

    /// Where a byte of the mapping lies. Valid while the mapping lives; for writing only if it is writable.
    pub(crate) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= self.bytes, "{offset} is behind the mapping");
        // SAFETY: the result is inside the mapping, or one past its end (checked above).
        unsafe { self.start.add(offset) }
    }

    /// Asks for large pages. Whether the system can give any here.
    pub(crate) fn advise_huge(&self) -> bool {
        self.advise(0..self.bytes, Advice::LinuxHugepage).is_ok()
    }

    /// Has the system find memory for `range` now, so that first use is quick and cannot fail.
    pub(crate) fn populate(&self, range: Range<usize>) -> Result<(), Errno> {
        let advice = if self.writable {
            Advice::LinuxPopulateWrite
        } else {
            Advice::LinuxPopulateRead
        };
        self.advise(range, advice)
    }

    fn advise(&self, range: Range<usize>, advice: Advice) -> Result<(), Errno> {
        let range = range.start..range.end.min(self.bytes);
        let start = self.at(range.start);
        // SAFETY: the range is inside the mapping, and none of the advice given here changes what lies in it.
        unsafe { madvise(start.as_ptr().cast(), range.len(), advice) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly this, and whoever uses it holds this object.
        unsafe { unmap(self.start, self.bytes) };
    }
}

/// Addresses without memory, to map something at an aligned one.
struct Reservation {
    start: NonNull<u8>,
    bytes: usize,
}

impl Reservation {
    fn new(bytes: usize) -> Result<Self, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let anywhere = std::ptr::null_mut();
        // SAFETY: no address is asked for, so that nothing that is mapped already is replaced.
        let start = unsafe { mmap_anonymous(anywhere, bytes, ProtFlags::empty(), flags) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::FAULT)?;
        Ok(Self { start, bytes })
    }

    /// The first aligned address; all but [`LARGE_PAGE`] bytes of the reservation lie behind it.
    fn aligned(&self) -> NonNull<u8> {
        let skipped = self.start.as_ptr().align_offset(LARGE_PAGE);
        // SAFETY: less than `LARGE_PAGE` bytes are skipped, and the reservation has more.
        unsafe { self.start.add(skipped) }
    }

    /// Gives back all but `bytes` bytes from `start` on, which are something else's by now.
    fn keep(self, start: NonNull<u8>, bytes: usize) {
        let head = start.addr().get() - self.start.addr().get();
        let tail = self.bytes - head - bytes;
        // SAFETY: both parts belong to the reservation, nothing was mapped there, and `self` gives back no more.
        unsafe {
            unmap(self.start, head);
            unmap(start.add(bytes), tail);
        }
        std::mem::forget(self);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: `new` reserved exactly this, and nobody uses it.
        unsafe { unmap(self.start, self.bytes) };
    }
}

/// # Safety
/// Nobody uses these bytes, and they are this module's own.
unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: contract of this function.
        let unmapped = unsafe { munmap(start.as_ptr().cast(), bytes) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            bytes, writable, ..
        } = self;
        write!(formatter, "Mapping({bytes} bytes, writable: {writable})")
    }
}
