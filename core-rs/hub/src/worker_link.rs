//! One worker's link, for as long as its incarnation is wanted: dialling, the handshake, and when it is dead. A connection
//! that breaks and is back in time is the link's own affair.

use std::sync::Arc;
use std::time::Duration;

use omniflow_link::{Address, Endpoint, LinkConfig, LinkError, LinkReader, LinkSender, Received};
use omniflow_placement::WorkerId;
use omniflow_wire::{LinkMessage, PROTOCOL, v1};
use tokio::time::{sleep, timeout};

use crate::config::HubConfig;
use crate::flows::link_frame;
use crate::shared::Shared;
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

impl Unreached {
    fn why(self) -> String {
        match self {
            Self::Silent(why) | Self::Refused(why) => why,
        }
    }
}

/// Keeps the link up until the incarnation is dead and no longer registered, or replaced.
pub(crate) async fn keep_up(shared: Arc<Shared>, target: Target) {
    let endpoint = endpoint(&shared.config);
    let (mut established, mut pause) = (None, FIRST_PAUSE);
    loop {
        let mut link = match established.take() {
            Some(link) => link,
            None => match reach(&shared, &endpoint, &target).await {
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
        let verdict = reach_anew(&shared, &endpoint, &target, &cause).await;
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

/// After a loss: a new link, or more on why the worker is dead. The old link has waited for as long as it may.
async fn reach_anew(
    shared: &Shared,
    endpoint: &Endpoint,
    target: &Target,
    cause: &str,
) -> Result<Established, String> {
    let leaves = shared.turn(|state, _| {
        state
            .seat(&target.name, &target.incarnation)
            .is_none_or(|seat| seat.draining)
    });
    if leaves {
        return Err("it has left".to_owned());
    }
    let reached = timeout(shared.config.reconnect, reach(shared, endpoint, target)).await;
    match reached {
        Ok(Ok(link)) => Ok(link),
        Ok(Err(unreached)) => Err(format!("{cause}; {}", unreached.why())),
        Err(_) => Err(cause.to_owned()),
    }
}

fn endpoint(config: &HubConfig) -> Endpoint {
    let links = LinkConfig {
        // Inputs are bounded where jobs are admitted: a worker that is slow to take them is not a dead one.
        max_queued_bytes: usize::MAX,
        heartbeat: config.heartbeat.min(config.heartbeat_limit),
        heartbeat_limit: config.heartbeat_limit,
        resume_within: config.reconnect,
        ..LinkConfig::default()
    };
    match &config.tls {
        Some(tls) => Endpoint::secured(links, tls.clone()),
        None => Endpoint::new(links),
    }
}

async fn reach(
    shared: &Shared,
    endpoint: &Endpoint,
    target: &Target,
) -> Result<Established, Unreached> {
    let patience = shared.config.heartbeat_limit.min(PATIENCE);
    let dialled = endpoint.dial(&target.addresses, patience).await;
    let (sender, mut reader) = dialled.map_err(|error| match error {
        LinkError::NoAnswer(_) => Unreached::Silent(error.to_string()),
        error => Unreached::Refused(error.to_string()),
    })?;
    let guard = Guard(sender);
    let hello = v1::Hello {
        protocol: PROTOCOL,
        cluster: shared.config.cluster.clone(),
        from: "scheduler".to_owned(),
        from_incarnation: shared.config.term.to_string(),
        to: target.name.clone(),
        to_incarnation: target.incarnation.clone(),
        term: shared.config.term,
        ..Default::default()
    };
    let greeting = link_frame(&hello.into(), 0);
    let greeted = guard.0.send(greeting);
    greeted.map_err(|error| Unreached::Silent(error.to_string()))?;
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

/// Takes in what the worker says until the link is lost; returns how that was seen.
async fn serve(shared: &Shared, worker: WorkerId, link: Established) -> String {
    let Established {
        guard,
        mut reader,
        mut received,
        ..
    } = link;
    loop {
        if !received.is_empty()
            && let Err(error) = hand_over(shared, worker, &guard.0, &mut received)
        {
            return error;
        }
        match reader.read(&mut received).await {
            Ok(true) => {}
            Ok(false) => return "it closed the link".to_owned(),
            Err(error) => return error.to_string(),
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
