//! Whether a reader has renewed in time. One that stood still for longer than a lease may have lost what it holds.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// So many times in a lease.
const RENEWALS: u32 = 4;

/// When leases were renewed, on this process's clock.
pub(crate) struct Renewals {
    lease: Duration,
    state: Mutex<State>,
}

struct State {
    last: Instant,
    /// A renewal came too late, and what is held has not been found good since.
    late: bool,
}

impl Renewals {
    pub(crate) fn new(lease: Duration, now: Instant) -> Self {
        let state = State {
            last: now,
            late: false,
        };
        Self {
            lease,
            state: Mutex::new(state),
        }
    }

    pub(crate) fn every(&self) -> Duration {
        self.lease / RENEWALS
    }

    pub(crate) fn renewed(&self, now: Instant) {
        let mut state = self.state.lock();
        state.late |= self.is_long_after(state.last, now);
        state.last = now;
    }

    /// Whether what is held has to be looked at before it counts.
    pub(crate) fn are_late(&self, now: Instant) -> bool {
        let state = self.state.lock();
        state.late || self.is_long_after(state.last, now)
    }

    /// All that is held is as it was.
    pub(crate) fn found_good(&self) {
        self.state.lock().late = false;
    }

    /// Half a lease: what was said then may take a while to be heard.
    fn is_long_after(&self, last: Instant, now: Instant) -> bool {
        now.saturating_duration_since(last) > self.lease / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_19_a_reader_that_stood_still_looks_at_what_it_holds() {
        let lease = Duration::from_secs(20);
        let start = Instant::now();
        let renewals = Renewals::new(lease, start);
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!renewals.are_late(at(10)));
        renewals.renewed(at(10));
        assert!(!renewals.are_late(at(20)));
        assert!(renewals.are_late(at(21)), "it is overdue");
        renewals.renewed(at(21));
        assert!(renewals.are_late(at(22)), "that it came does not undo it");
        renewals.found_good();
        assert!(!renewals.are_late(at(22)));
    }
}
