//! When what waits leaves: one task sees to the links' messages and to the reports, so that whatever happened in a turn
//! of the loop, or in a call of an engine's thread, costs one wake-up and one write for each link.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::core::Flush;
use crate::io::shared::Shared;

/// How long reports wait that are not urgent, and messages behind which others are about to come.
const LINGER: Duration = Duration::from_millis(2);
/// How often it is seen whether a broken connection to the scheduler is back.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    turn: Notify,
    /// Something is to leave at this turn.
    due: AtomicBool,
    /// Reports are.
    reports_due: AtomicBool,
    /// The task looks again in a moment, without being told to.
    timed: AtomicBool,
}

impl Departures {
    /// Something waits. `at_once`: what is queued on links leaves at this turn, with reports that cannot wait; if not, in a
    /// moment.
    pub(crate) fn call(&self, at_once: bool, reports: Flush) {
        if at_once {
            self.reports_due
                .fetch_or(reports == Flush::Now, Ordering::AcqRel);
            self.due.store(true, Ordering::Release);
        }
        let later = !at_once || reports == Flush::Soon;
        let untimed = later && !self.timed.swap(true, Ordering::AcqRel);
        if at_once || untimed {
            self.turn.notify_one();
        }
    }
}

/// Runs as long as the I/O thread.
pub(crate) async fn run(shared: Arc<Shared>) {
    let departures = &shared.departures;
    let timer = sleep_until(Instant::now());
    tokio::pin!(timer);
    let mut is_set = false;
    loop {
        let rings = tokio::select! {
            biased;
            () = departures.turn.notified() => false,
            () = &mut timer, if is_set => true,
        };
        if rings {
            is_set = false;
            // Before looking: what comes from now on sets it anew.
            departures.timed.store(false, Ordering::Release);
        }
        let due = departures.due.swap(false, Ordering::AcqRel);
        let reports = departures.reports_due.swap(false, Ordering::AcqRel);
        if reports || rings {
            // They are kept for the next scheduler if this one does not come back.
            if shared.scheduler_is_cut_off() {
                departures.reports_due.store(true, Ordering::Release);
                departures.timed.store(true, Ordering::Release);
                timer.as_mut().reset(Instant::now() + LOOK_AGAIN);
                is_set = true;
            } else {
                shared.report();
            }
        }
        if due || rings {
            shared.wake_links();
        }
        if !is_set && departures.timed.load(Ordering::Acquire) {
            timer.as_mut().reset(Instant::now() + LINGER);
            is_set = true;
        }
    }
}
