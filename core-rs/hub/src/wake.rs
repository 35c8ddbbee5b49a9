//! How an event loop in another language learns that there is something to take: a descriptor that becomes readable, at once
//! or within a moment. The kernel keeps that moment, so that no thread has to.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::error::HubError;

/// A timerfd: readable from when it is due to `reset`.
#[derive(Debug)]
pub(crate) struct Wake(OwnedFd);

impl Wake {
    pub(crate) fn new() -> Result<Self, HubError> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags);
        fd.map(Self)
            .map_err(|error| HubError::io("making a timerfd")(error.into()))
    }

    pub(crate) fn fileno(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Readable after so long, in place of what was set before.
    pub(crate) fn set(&self, after: Duration) {
        // Zero would disarm it.
        let after = after.max(Duration::from_nanos(1));
        let value = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: after.as_secs() as i64,
                tv_nsec: i64::from(after.subsec_nanos()),
            },
        };
        // Fails only for times that are none.
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &value);
    }

    pub(crate) fn reset(&self) {
        // Fails only when it was not due.
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}
