//! An eventfd: how an event loop in another language learns that there is something to take.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::HubError;

/// Readable from `set` to `reset`.
#[derive(Debug)]
pub(crate) struct Wake(OwnedFd);

impl Wake {
    pub(crate) fn new() -> Result<Self, HubError> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        fd.map(Self)
            .map_err(|error| HubError::io("making an eventfd")(error.into()))
    }

    pub(crate) fn fileno(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(crate) fn set(&self) {
        // Fails only when the counter is full, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    pub(crate) fn reset(&self) {
        // Fails only when it was not set.
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}
