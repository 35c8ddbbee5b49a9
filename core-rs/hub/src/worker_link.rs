//! One worker's link, for as long as its incarnation is wanted: dialling, the handshake, heartbeats, and when it is dead.

use std::sync::Arc;
use std::time::Duration;

use omniflow_link::{Address, LinkConfig, LinkReader, LinkSender, Received, dial, open};
use omniflow_placement::WorkerId;
use omniflow_wire::{LinkMessage, PROTOCOL, v1};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::flows::link_frame;
use crate::hub::Shared;
use crate::unreachable::FIRST_QUESTION;

/// How long one address may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Whom to reach.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) incarnation: String,
    pub(crate) addresses: Vec<Address>,
}

/// Ends the link when whoever serves it stops, however that comes.
struct Guard(LinkSender);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A link whose handshake is done, and what came right behind it.
struct Established {
    guard: Guard,
    reader: LinkReader,
    received: Vec<Received>,
    /// Jobs that the worker still holds something of.
    held: Vec<u64>,
}

/// Why there is no link.
enum Unreached {
    /// Nobody answered in time: it may be back soon.
    Silent(String),
    /// Nobody listens there, or whoever does is somebody else.
    Refused(String),
}

/// Keeps the link up until the incarnation is dead and no longer registered, or replaced.
pub(crate) async fn keep_up(shared: Arc<Shared>, target: Target) {
    let (mut established, mut pause) = (None, FIRST_PAUSE);
    loop {
        let mut link = match established.take() {
            Some(link) => link,
            None => match reach(&shared, &target).await {
                Ok(link) => link,
                Err(_)
                    if shared
                        .turn(|state, _| state.is_wanted(&target.name, &target.incarnation)) =>
                {
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
                Err(_) => return,
            },
        };
        pause = FIRST_PAUSE;
        let (sender, held) = (link.guard.0.clone(), std::mem::take(&mut link.held));
        let up = shared
            .turn(|state, now| state.link_up(&target.name, &target.incarnation, sender, held, now));
        let Some(worker) = up else { return };
        let cause = serve(&shared, worker, link).await;
        let verdict = reach_again(&shared, &target, &cause).await;
        let cause = verdict.as_ref().err().unwrap_or(&cause);
        let lost = |state: &mut crate::state::State, now| {
            state.link_lost(&target.name, &target.incarnation, worker, cause, now)
        };
        if !shared.turn(lost) {
            return;
        }
        established = verdict.ok();
    }
}

/// After a break: the link again, or why the worker is dead.
async fn reach_again(shared: &Shared, target: &Target, cause: &str) -> Result<Established, String> {
    let until = Instant::now() + shared.config.reconnect;
    let leaves = shared.turn(|state, _| {
        state
            .seat(&target.name, &target.incarnation)
            .is_none_or(|seat| seat.draining)
    });
    if leaves {
        return Err("it has left".to_owned());
    }
    loop {
        match timeout_at(until, reach(shared, target)).await {
            Ok(Ok(link)) => return Ok(link),
            Ok(Err(Unreached::Refused(refusal))) => return Err(format!("{cause}; {refusal}")),
            Ok(Err(Unreached::Silent(_))) if Instant::now() < until => sleep(FIRST_PAUSE).await,
            Ok(Err(Unreached::Silent(silence))) => return Err(format!("{cause}; {silence}")),
            Err(_) => {
                return Err(format!(
                    "{cause}; it did not come back in {:?}",
                    shared.config.reconnect
                ));
            }
        }
    }
}

/// Inputs are bounded where jobs are admitted: a worker that is slow to take them is not a dead one.
fn unbounded() -> LinkConfig {
    LinkConfig {
        max_queued_bytes: usize::MAX,
        ..LinkConfig::default()
    }
}

async fn reach(shared: &Shared, target: &Target) -> Result<Established, Unreached> {
    let started = Instant::now();
    let socket = dial(&target.addresses, PATIENCE).await.map_err(|error| {
        if started.elapsed() < PATIENCE {
            Unreached::Refused(error.to_string())
        } else {
            Unreached::Silent(error.to_string())
        }
    })?;
    let (sender, mut reader) = open(socket, unbounded());
    let guard = Guard(sender);
    let hello = v1::Hello {
        protocol: PROTOCOL,
        cluster: shared.config.cluster.clone(),
        from: "scheduler".to_owned(),
        from_incarnation: shared.config.term.to_string(),
        to: target.name.clone(),
        to_incarnation: target.incarnation.clone(),
        term: shared.config.term,
    };
    let greeting = link_frame(&hello.into(), 0);
    let greeted = guard.0.send(greeting);
    greeted.map_err(|error| Unreached::Silent(error.to_string()))?;
    let patience = shared.config.heartbeat_limit.min(PATIENCE);
    let (received, held) = welcome(&mut reader, target, patience).await?;
    Ok(Established {
        guard,
        reader,
        received,
        held,
    })
}

/// The worker's answer to Hello; returns what came right behind it, and the jobs that the worker holds.
async fn welcome(
    reader: &mut LinkReader,
    target: &Target,
    patience: Duration,
) -> Result<(Vec<Received>, Vec<u64>), Unreached> {
    let mut received = Vec::new();
    match timeout(patience, reader.read(&mut received)).await {
        Err(_) => {
            return Err(Unreached::Silent(format!(
                "it did not answer a greeting in {patience:?}"
            )));
        }
        Ok(Err(error)) => return Err(Unreached::Silent(error.to_string())),
        Ok(Ok(false)) => {
            return Err(Unreached::Silent(
                "it closed the link without a word".to_owned(),
            ));
        }
        Ok(Ok(true)) => {}
    }
    let first = received.remove(0);
    let refused = |why: String| Err(Unreached::Refused(why));
    match LinkMessage::decode(first.kind, first.body) {
        Ok(LinkMessage::Welcome(v1::Welcome {
            error: Some(error), ..
        })) => refused(error.message),
        Ok(LinkMessage::Welcome(welcome)) if welcome.incarnation != target.incarnation => refused(
            format!("another incarnation answers there: {}", welcome.incarnation),
        ),
        Ok(LinkMessage::Welcome(welcome)) if welcome.protocol != PROTOCOL => refused(format!(
            "it speaks protocol {}, this scheduler {PROTOCOL}",
            welcome.protocol
        )),
        Ok(LinkMessage::Welcome(welcome)) => Ok((received, welcome.jobs)),
        Ok(other) => refused(format!("it answered a greeting with {}", other.name())),
        Err(error) => refused(error.to_string()),
    }
}

/// Takes in what the worker says until the link breaks; returns how that was seen.
async fn serve(shared: &Shared, worker: WorkerId, link: Established) -> String {
    let Established {
        guard,
        mut reader,
        mut received,
        ..
    } = link;
    let (beat, limit) = (shared.config.heartbeat, shared.config.heartbeat_limit);
    let (mut heard, mut next_ping, mut nonce) = (Instant::now(), Instant::now() + beat, 0);
    loop {
        if !received.is_empty() {
            heard = Instant::now();
            if let Err(error) = hand_over(shared, worker, &guard.0, &mut received) {
                return error;
            }
        }
        match timeout_at(next_ping, reader.read(&mut received)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return "it closed the link".to_owned(),
            Ok(Err(error)) => return error.to_string(),
            Err(_) if heard.elapsed() >= limit => {
                return format!("it was silent for {:?}", heard.elapsed());
            }
            Err(_) => {
                nonce += 1;
                // A closed link is noticed by the next read.
                let _ = guard.0.send(link_frame(&v1::Ping { nonce }.into(), 0));
                next_ping = Instant::now() + beat.min(limit);
            }
        }
    }
}

/// Decodes outside the lock, then takes one turn for all of it.
fn hand_over(
    shared: &Shared,
    worker: WorkerId,
    sender: &LinkSender,
    received: &mut Vec<Received>,
) -> Result<(), String> {
    let mut messages = Vec::with_capacity(received.len());
    for message in received.drain(..) {
        match LinkMessage::decode(message.kind, message.body).map_err(|error| error.to_string())? {
            LinkMessage::Ping(ping) => {
                let _ = sender.send(link_frame(&v1::Pong { nonce: ping.nonce }.into(), 0));
            }
            LinkMessage::Pong(pong) if pong.nonce < FIRST_QUESTION => {}
            other => messages.push(other),
        }
    }
    if !messages.is_empty() {
        shared.turn(|state, now| state.receive(worker, messages, now));
    }
    Ok(())
}
