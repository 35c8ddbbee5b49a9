//! A descriptor by which an event loop in another language learns that there is something to take.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd: readable from `set` to `reset`.
#[derive(Debug)]
pub(crate) struct Signal(OwnedFd);

impl Signal {
    pub(crate) fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(fd))
    }

    pub(crate) fn fileno(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(crate) fn set(&self) {
        // Fails only when it is set very often already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    pub(crate) fn reset(&self) {
        // Fails only when it was not set.
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}
