//! The two tasks of a link: one writes and, when the connection breaks, gets another one; one watches for silence.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout, timeout_at};

use crate::batch::Batch;
use crate::error::{LinkError, LossReason};
use crate::greeting::{Greeting, Purpose};
use crate::route::Route;
use crate::shared::{Connection, Shared, Step};
use crate::silence::{Silence, Verdict};

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Ends a link that nobody serves any more, because its runtime ends: its socket would stay open for as long as somebody
/// holds a sender.
struct Served(Arc<Shared>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Serves a link for as long as it lasts. With a route, this side dials again; without one, the peer has to.
pub(crate) async fn run(shared: Arc<Shared>, route: Option<Route>) {
    let _served = Served(Arc::clone(&shared));
    loop {
        match (shared.connection(), &route) {
            (Err(_), _) => return,
            (Ok(Some(connection)), _) => write(&shared, &connection).await,
            (Ok(None), Some(route)) => dial_again(&shared, route).await,
            (Ok(None), None) => wait_for_peer(&shared).await,
        }
    }
}

/// One write per wake-up takes everything that was queued in the meantime; there is no lingering.
async fn write(shared: &Shared, connection: &Connection) {
    let mut batch = Batch::default();
    loop {
        match shared.step(connection, &mut batch) {
            Step::Leave => return,
            Step::Wait => shared.work.notified().await,
            Step::Write => match connection.socket.write(&batch.slices()).await {
                Ok(written) => batch.advance(written),
                Err(error) => {
                    return shared.broken(connection, || format!("the connection broke: {error}"));
                }
            },
        }
    }
}

/// Ends with a connection, or the link is over.
async fn dial_again(shared: &Shared, route: &Route) {
    let patience = shared.config.resume_within;
    let until = Instant::now() + patience;
    let mut pause = FIRST_PAUSE;
    loop {
        let greeting = Greeting {
            purpose: Purpose::Resume,
            link: shared.id,
            received: shared.received(),
        };
        let reached = tokio::select! {
            reached = timeout_at(until, route.reach(&greeting)) => reached,
            () = shared.stop.notified() => return,
        };
        match reached {
            Ok(Ok((socket, answer))) if answer.purpose == Purpose::Welcome => {
                shared.resume(socket, answer.received);
                return;
            }
            Ok(Ok(_)) => return shared.lose(LossReason::Forgotten),
            Ok(Err(LinkError::NoAnswer(_))) if Instant::now() + pause < until => {}
            Ok(Err(LinkError::NoAnswer(_))) | Err(_) => {
                return shared.lose(LossReason::NotBack(patience));
            }
            Ok(Err(error)) => return shared.lose(LossReason::Refused(error.to_string())),
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = shared.stop.notified() => return,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Ends with a connection, or the link is over.
async fn wait_for_peer(shared: &Shared) {
    let patience = shared.config.resume_within;
    let wait = async {
        while let Ok(None) = shared.connection() {
            shared.work.notified().await;
        }
    };
    if timeout(patience, wait).await.is_err() {
        shared.lose(LossReason::NotBack(patience));
    }
}

/// Asks a silent peer whether it is there, gives a dead one up, and tells a peer that sends little what has arrived.
pub(crate) async fn watch(shared: Arc<Shared>) {
    let (beat, limit) = (shared.config.heartbeat, shared.config.heartbeat_limit);
    let mut silence = Silence::new(beat, limit);
    let mut ticks = interval(beat.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match shared.connection() {
            Err(_) => return,
            // How long it may stay broken is another limit's affair.
            Ok(None) => silence.restart(shared.reads()),
            Ok(Some(_)) => match silence.tick(shared.reads()) {
                Verdict::Heard => shared.say(false),
                Verdict::Silent => shared.say(true),
                Verdict::Dead => return shared.lose(LossReason::Silent(limit)),
            },
        }
    }
}
