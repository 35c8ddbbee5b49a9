//! A standby's link in the hub: what it lacks is read from files, and from then on it gets what the journal's thread writes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use omniflow_link::{Endpoint, LinkConfig, LinkError, LinkReader, LinkSender, Listener, Tls};
use tokio::sync::{mpsc, watch};
use tokio::time::{interval, sleep, timeout};

use super::ReplicationConfig;
use super::messages::{self, ACK, Ack, BEGIN, Begin, FOLLOW, Follow, PROTOCOL, RECORDS, SNAPSHOT};
use crate::config::HubConfig;
use crate::error::HubError;
use crate::journal::catch_up::Snapshot;
use crate::journal::tap::{Feed, Tap};
use crate::journal::{Extent, Run, catch_up};
use crate::shared::Shared;

/// How long a greeting may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of files that may be under way to a standby.
const WINDOW: u64 = 16 << 20;
/// While etcd is asked to take a standby out of the set.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So few records are read from files with those that are made meanwhile kept in memory.
const FEW: u64 = 10_000;
/// Readings of what was made during the last one.
const ROUNDS: usize = 16;

/// What a session needs of the hub's journal.
#[derive(Clone)]
struct Source {
    folder: PathBuf,
    tap: Arc<Tap>,
}

/// Listens for the standby.
pub(crate) async fn listen(
    config: &HubConfig,
    replication: &ReplicationConfig,
) -> Result<Listener, HubError> {
    let of = config;
    let endpoint = endpoint(
        of.heartbeat,
        of.heartbeat_limit,
        replication.limit,
        of.tls.as_ref(),
    );
    let listener = endpoint.bind(&replication.listen).await;
    listener.map_err(HubError::Listen)
}

/// The link between the two schedulers, from either side.
pub(super) fn endpoint(
    heartbeat: Duration,
    heartbeat_limit: Duration,
    limit: Duration,
    tls: Option<&Tls>,
) -> Endpoint {
    let links = LinkConfig {
        heartbeat: heartbeat.min(heartbeat_limit),
        heartbeat_limit,
        resume_within: limit,
        ..LinkConfig::default()
    };
    match tls {
        Some(tls) => Endpoint::secured(links, tls.clone()),
        None => Endpoint::new(links),
    }
}

/// Lets standbys follow, for as long as the hub lives.
pub(crate) async fn serve(shared: Arc<Shared>, listener: Listener, limit: Duration) {
    let journal = {
        let state = shared.state.lock();
        let journal = state.journaling.journal();
        journal.map(|journal| Source {
            folder: journal.folder.clone(),
            tap: journal.tap(),
        })
    };
    let Some(source) = journal else { return };
    let mut ticks =
        interval((limit / 8).clamp(Duration::from_millis(10), Duration::from_millis(500)));
    loop {
        tokio::select! {
            _ = ticks.tick() => shared.turn(|state, now| state.standby_tick(now)),
            accepted = listener.accept() => {
                // One that cannot greet says nothing about the next.
                if let Ok((sender, reader)) = accepted {
                    tokio::spawn(session(shared.clone(), source.clone(), sender, reader));
                }
            }
        }
    }
}

/// Ends the link when whoever serves it stops, however that comes.
struct Guard(LinkSender);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn session(shared: Arc<Shared>, source: Source, sender: LinkSender, mut reader: LinkReader) {
    let guard = Guard(sender.clone());
    let Ok(Ok(follow)) = timeout(PATIENCE, greeting(&mut reader)).await else {
        return;
    };
    let plan = match plan(&shared, &source, &follow).await {
        Ok(plan) => plan,
        Err(refusal) => return refuse(&sender, refusal).await,
    };
    let opened = shared.turn(|state, now| {
        let has = if plan.snapshot.is_some() {
            0
        } else {
            plan.keep
        };
        state.standby_follows(&follow.name, &follow.journal, has, sender.clone(), now)
    });
    let Some(number) = opened else {
        let busy = "another scheduler follows already: a cluster has one standby";
        return refuse(&sender, busy.to_owned()).await;
    };
    let (told, acked) = watch::channel(0);
    let feeding = async {
        let fed = feed(&shared, &source, number, plan, &sender, acked).await;
        if fed.is_some() {
            // The journal's thread goes on with it.
            std::future::pending::<()>().await;
        }
    };
    let left = tokio::select! {
        left = acknowledgements(&shared, number, &mut reader, &told) => left,
        () = feeding => false,
    };
    source.tap.close(number);
    shared.turn(|state, now| state.standby_gone(number, left, now));
    drop(guard);
}

async fn refuse(sender: &LinkSender, refusal: String) {
    let begin = Begin {
        refusal,
        ..Begin::default()
    };
    if sender.send(messages::message(BEGIN, &begin)).is_ok() {
        sender.close();
        let _ = timeout(PATIENCE, sender.ended()).await;
    }
}

async fn greeting(reader: &mut LinkReader) -> Result<Follow, String> {
    let mut received = Vec::new();
    match reader.read(&mut received).await {
        Ok(true) => {}
        Ok(false) => return Err("it closed the link without a word".to_owned()),
        Err(error) => return Err(error.to_string()),
    }
    let first = received.remove(0);
    if first.kind != FOLLOW {
        return Err(format!("it greeted with a message of kind {}", first.kind));
    }
    messages::parse("Follow", first.body)
}

/// How a standby goes on from what it has.
struct Plan {
    /// The last record that it may keep, where no snapshot comes.
    keep: u64,
    snapshot: Option<Snapshot>,
    /// It drops something.
    loses: bool,
}

async fn plan(shared: &Shared, source: &Source, follow: &Follow) -> Result<Plan, String> {
    let config = &shared.config;
    if follow.protocol != PROTOCOL {
        return Err(format!(
            "it speaks protocol {}, the leader {PROTOCOL}: run the same version on both machines",
            follow.protocol
        ));
    }
    if follow.cluster != config.cluster {
        return Err(format!(
            "this is cluster {:?}, not {:?}",
            config.cluster, follow.cluster
        ));
    }
    if follow.term != config.term {
        return Err(format!(
            "term {} is led here, not {}",
            config.term, follow.term
        ));
    }
    let theirs = Extent {
        base: follow.base,
        last: follow.last,
        runs: follow.runs.iter().cloned().map(Run::from).collect(),
    };
    let keep = {
        let state = shared.state.lock();
        let replication = state.replication.as_ref();
        let common = replication.map(|known| known.common(source.tap.taken(), &theirs));
        common.unwrap_or_default()
    };
    let folder = source.folder.clone();
    let snapshot = tokio::task::spawn_blocking(move || catch_up::snapshot(&folder, keep));
    let snapshot = snapshot.await.map_err(|error| error.to_string())?;
    let snapshot = snapshot.map_err(|error| error.to_string())?;
    Ok(Plan {
        keep,
        loses: snapshot.is_some() || keep < follow.last,
        snapshot,
    })
}

/// What the standby has written, until its link ends: whether it left in good order.
async fn acknowledgements(
    shared: &Shared,
    session: u64,
    reader: &mut LinkReader,
    told: &watch::Sender<u64>,
) -> bool {
    let mut received = Vec::new();
    loop {
        match reader.read(&mut received).await {
            Ok(true) => {}
            Ok(false) => return true,
            Err(_) => return false,
        }
        let mut newest = None;
        for message in received.drain(..).filter(|message| message.kind == ACK) {
            match messages::parse::<Ack>("Ack", message.body) {
                Ok(ack) => newest = Some(ack),
                Err(_) => return false,
            }
        }
        if let Some(ack) = newest {
            told.send_replace(ack.bytes);
            shared.turn(|state, now| state.standby_acked(session, ack.last, now));
        }
    }
}

/// Everything from files, and then what comes. None: the link, or the files, gave out.
async fn feed(
    shared: &Shared,
    source: &Source,
    session: u64,
    plan: Plan,
    sender: &LinkSender,
    acked: watch::Receiver<u64>,
) -> Option<()> {
    let Plan {
        keep,
        snapshot,
        loses,
    } = plan;
    // As long as etcd may say that it has everything, it must not drop anything: the leader could die meanwhile.
    while loses && !shared.state.lock().standby_may_begin_anew() {
        sleep(LOOK_EVERY).await;
    }
    let (last, bytes) = snapshot
        .as_ref()
        .map_or((0, 0), |snapshot| (snapshot.last, snapshot.bytes));
    let begin = Begin {
        refusal: String::new(),
        keep: if last > 0 { 0 } else { keep },
        snapshot: last,
        snapshot_bytes: bytes,
    };
    sender.send(messages::message(BEGIN, &begin)).ok()?;
    let mut pieces = Pieces {
        sender,
        acked,
        sent: 0,
    };
    let mut sent = keep;
    if let Some(snapshot) = snapshot {
        let reading = |give: &mut dyn FnMut(Bytes) -> bool| snapshot.read(give);
        pieces.send_all(SNAPSHOT, reading).await?;
        sent = last;
    }
    let mut written = source.tap.written();
    for _ in 0..ROUNDS {
        let upto = *written.borrow();
        if upto.saturating_sub(sent) <= FEW {
            break;
        }
        pieces.send_range(source, sent, upto).await?;
        sent = upto;
    }
    let taken = source.tap.open(session, live_feed(sender.clone()));
    written.wait_for(|written| *written >= taken).await.ok()?;
    if taken > sent {
        pieces.send_range(source, sent, taken).await?;
    }
    if !source.tap.release(session) {
        return None;
    }
    shared.turn(|state, now| state.standby_lives(session, taken.max(keep), now));
    Some(())
}

/// Called by the journal's thread with each batch before it writes it.
fn live_feed(sender: LinkSender) -> Feed {
    Box::new(move |batch| {
        let whole = catch_up::give_pieces(&batch, |piece| {
            sender.send(messages::piece(RECORDS, piece)).is_ok()
        });
        if !whole {
            // It is too slow, or gone: it begins anew.
            sender.abort();
        }
    })
}

/// Pieces of files on their way, no more of them than the standby keeps up with.
struct Pieces<'a> {
    sender: &'a LinkSender,
    acked: watch::Receiver<u64>,
    sent: u64,
}

impl Pieces<'_> {
    async fn send_range(&mut self, source: &Source, after: u64, upto: u64) -> Option<()> {
        let folder = source.folder.clone();
        let reading =
            move |give: &mut dyn FnMut(Bytes) -> bool| catch_up::read(&folder, after, upto, give);
        self.send_all(RECORDS, reading).await
    }

    /// Files are read by another thread, so that no link of the hub waits for a disk.
    async fn send_all(
        &mut self,
        kind: u8,
        read: impl FnOnce(&mut dyn FnMut(Bytes) -> bool) -> Result<(), crate::journal::JournalError>
        + Send
        + 'static,
    ) -> Option<()> {
        let (give, mut pieces) = mpsc::channel::<Bytes>(2);
        let reading = tokio::task::spawn_blocking(move || {
            read(&mut |piece| give.blocking_send(piece).is_ok())
        });
        while let Some(piece) = pieces.recv().await {
            let sent = self.sent;
            let room = |acked: &u64| sent.saturating_sub(*acked) < WINDOW;
            self.acked.wait_for(room).await.ok()?;
            self.sent += piece.len() as u64;
            let outcome: Result<(), LinkError> = self.sender.send(messages::piece(kind, piece));
            outcome.ok()?;
        }
        // A file that a compaction removed: the standby begins anew, with the snapshot.
        reading.await.ok()?.ok()
    }
}
