//! What the hub's thread and its callers share: the state behind one lock, and the clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use omniflow_control::{Event, Micros};
use parking_lot::{Condvar, Mutex};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::config::HubConfig;
use crate::error::HubError;
use crate::state::State;
use crate::wake::Wake;

/// How long a closing hub lets its links say goodbye.
const FAREWELL: Duration = Duration::from_millis(300);

/// When workers that hear nothing else are told of jobs that have ended.
const TELL_WITHIN: Duration = Duration::from_millis(5);

/// See the module.
pub(crate) struct Shared {
    pub(crate) config: HubConfig,
    pub(crate) state: Mutex<State>,
    started: Instant,
    /// What the clock said then.
    epoch: Micros,
    pub(crate) wake: Wake,
    pub(crate) idle: Condvar,
    timer: Notify,
    /// Workers are to be told of jobs that have ended.
    ended: Notify,
    pub(crate) stop: Notify,
    /// etcd is to be asked something.
    pub(crate) ask_etcd: Condvar,
}

impl Shared {
    /// The state is made of what the clock says.
    pub(crate) fn new(
        config: HubConfig,
        state: impl FnOnce(Micros) -> Result<State, HubError>,
    ) -> Result<Self, HubError> {
        let (started, epoch) = (Instant::now(), wall_clock());
        Ok(Self {
            state: Mutex::new(state(epoch)?),
            config,
            started,
            epoch,
            wake: Wake::new()?,
            idle: Condvar::new(),
            timer: Notify::new(),
            ended: Notify::new(),
            stop: Notify::new(),
            ask_etcd: Condvar::new(),
        })
    }

    fn now(&self) -> Micros {
        Micros(self.epoch.0 + self.started.elapsed().as_micros() as u64)
    }

    /// One turn: `work` under the lock, then one write for each link and one wake-up for whoever waits for clients.
    pub(crate) fn turn<R>(&self, work: impl FnOnce(&mut State, Micros) -> R) -> R {
        let mut state = self.state.lock();
        let now = self.now();
        let result = work(&mut state, now);
        let afterwards = state.settle(now);
        drop(state);
        if let Some(after) = afterwards.wake_clients {
            self.wake.set(after);
        }
        for (news, within) in afterwards.told {
            news.tell(within);
        }
        if afterwards.rearm_timer {
            self.timer.notify_one();
        }
        if afterwards.tell_workers {
            self.ended.notify_one();
        }
        if afterwards.idle {
            self.idle.notify_all();
        }
        if afterwards.ask_etcd {
            self.ask_etcd.notify_one();
        }
        result
    }

    /// Tells the job table of the time whenever something is due, and sleeps in between.
    async fn keep_time(&self) {
        loop {
            let due = self.state.lock().arm();
            let rearmed = self.timer.notified();
            match due {
                None => rearmed.await,
                Some(due) => {
                    let after = Duration::from_micros(due.since(self.epoch));
                    let at = tokio::time::Instant::from_std(self.started + after);
                    if tokio::time::timeout_at(at, rearmed).await.is_err() {
                        self.turn(|state, now| state.step(Event::Tick, now));
                    }
                }
            }
        }
    }

    /// Tells workers of jobs that have ended, unless they hear of it with something else before.
    async fn tell_of_ended(&self) {
        loop {
            self.ended.notified().await;
            tokio::time::sleep(TELL_WITHIN).await;
            self.turn(|state, _| state.workers.tell_of_ended());
        }
    }

    /// Workers of an earlier life that have not reported by then are dead.
    async fn wait_for_workers(&self) {
        let patience = self.state.lock().patience();
        if let Some(patience) = patience {
            tokio::time::sleep(patience).await;
            self.turn(|state, now| state.stop_waiting_for_workers(now));
        }
        std::future::pending().await
    }

    async fn say_goodbye(&self) {
        self.turn(|state, _| {
            state.leaving = true;
            state.workers.tell_of_ended();
            state.workers.flush();
            state.workers.lines().for_each(|line| line.close());
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        let _ = tokio::time::timeout(FAREWELL, async {
            while self.state.lock().workers.lines().any(|line| line.is_busy()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

/// Microseconds since 1970: what the journal says holds for the next life.
fn wall_clock() -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Micros(since.map_or(1, |since| since.as_micros() as u64))
}

/// The hub's thread, until it is told to stop.
pub(crate) fn run(runtime: &Runtime, shared: &Shared) {
    runtime.block_on(async {
        tokio::select! {
            () = shared.keep_time() => {}
            () = shared.wait_for_workers() => {}
            () = shared.tell_of_ended() => {}
            () = shared.stop.notified() => {}
        }
        shared.say_goodbye().await;
    });
}
