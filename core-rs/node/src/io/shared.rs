//! What the I/O thread and the engines' threads share: the core, the links, and how one wakes the other.

use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

use omniflow_link::{Endpoint, LinkError, LinkSender, Message};
use omniflow_wire::{LinkMessage, v1};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustc_hash::{FxHashMap, FxHasher};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use crate::core::{Core, Flush, Outputs, Target};
use crate::ids::PeerIx;
use crate::io::departures::Departures;
use crate::sharing::{ReaderId, Sharing};

/// Who this worker is.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) cluster: String,
    pub(crate) name: String,
    pub(crate) incarnation: String,
    pub(crate) host: String,
}

/// A link to a peer.
#[derive(Debug)]
struct Way {
    link: LinkSender,
    /// What it has connected to read what is lent.
    reader: Option<ReaderId>,
}

/// The links that messages can go out on.
#[derive(Debug, Default)]
struct Outlets {
    /// With a number that tells one link of a scheduler from the next.
    scheduler: Option<(u64, LinkSender)>,
    peers: FxHashMap<PeerIx, Way>,
    scheduler_links: u64,
    /// Those with messages that nobody has told their writers of.
    waiting: Vec<Target>,
}

impl Outlets {
    fn link(&self, target: Target) -> Option<&LinkSender> {
        match target {
            Target::Scheduler => self.scheduler.as_ref().map(|(_, link)| link),
            Target::Peer(peer) => self.peers.get(&peer).map(|way| &way.link),
        }
    }

    fn reader(&self, target: Target) -> Option<ReaderId> {
        match target {
            Target::Scheduler => None,
            Target::Peer(peer) => self.peers.get(&peer)?.reader,
        }
    }
}

/// See the module. Lock order: `core`, then `outlets`; neither is held while bytes move.
pub(crate) struct Shared {
    pub(crate) core: Mutex<Core>,
    pub(crate) identity: Identity,
    pub(crate) endpoint: Endpoint,
    pub(crate) sharing: Sharing,
    outlets: Mutex<Outlets>,
    dial: UnboundedSender<PeerIx>,
    pub(crate) departures: Departures,
    stop: Notify,
    drained: Condvar,
}

impl Shared {
    pub(crate) fn new(
        core: Core,
        identity: Identity,
        endpoint: Endpoint,
        sharing: Sharing,
        dial: UnboundedSender<PeerIx>,
    ) -> Self {
        Self {
            core: Mutex::new(core),
            identity,
            endpoint,
            sharing,
            outlets: Mutex::default(),
            dial,
            departures: Departures::default(),
            stop: Notify::new(),
            drained: Condvar::new(),
        }
    }

    // --- carrying out -----------------------------------------------------------------------------------------------

    /// One step of the core, and what follows from it.
    pub(crate) fn act<T>(&self, step: impl FnOnce(&mut Core, Instant, &mut Outputs) -> T) -> T {
        self.act_before(false, step)
    }

    /// The same. `more`: the caller does so again at once, so that what this one sends may wait a moment for the next.
    pub(crate) fn act_before<T>(
        &self,
        more: bool,
        step: impl FnOnce(&mut Core, Instant, &mut Outputs) -> T,
    ) -> T {
        self.act_on(self.core.lock(), more, step)
    }

    /// The same for a caller that holds the core.
    pub(crate) fn act_on<T>(
        &self,
        mut core: MutexGuard<'_, Core>,
        more: bool,
        step: impl FnOnce(&mut Core, Instant, &mut Outputs) -> T,
    ) -> T {
        let mut out = Outputs::default();
        let now = Instant::now();
        let result = step(&mut core, now, &mut out);
        // A result and the report of the activation that made it are one message, not two wake-ups of the scheduler.
        if out.gives_results() && core.has_reports() && !self.scheduler_is_cut_off() {
            out.report(core.take_reports(now));
        }
        drop(core);
        self.carry_out(more, out);
        result
    }

    fn carry_out(&self, more: bool, mut out: Outputs) {
        out.wake_all();
        for peer in out.dial {
            // It fails only when the I/O thread has ended, and then nobody needs the peer.
            let _ = self.dial.send(peer);
        }
        for batch in out.sends.chunk_by(|(one, _), (next, _)| one == next) {
            if let Some((target, _)) = batch.first() {
                self.transmit(*target, batch);
            }
        }
        let sends = !out.sends.is_empty();
        if sends || out.flush != Flush::No {
            let at_once = !more && (sends || out.flush == Flush::Now);
            self.departures.call(at_once, out.flush);
        }
        if out.drained {
            self.drained.notify_all();
        }
    }

    /// Queues messages on a link, for `wake_links`.
    fn transmit(&self, target: Target, batch: &[(Target, LinkMessage)]) {
        let mut outlets = self.outlets.lock();
        // Without a link, what matters is retained and goes when there is one.
        let Some(link) = outlets.link(target) else {
            return;
        };
        let reader = outlets.reader(target);
        let queued = link.queue_all(
            batch
                .iter()
                .map(|(_, message)| self.packed(message, reader)),
        );
        if let Err(LinkError::QueueFull { .. }) = queued {
            // The peer doesn't read. Its reader task notices the end, dials again and resends.
            link.abort();
        }
        if !outlets.waiting.contains(&target) {
            outlets.waiting.push(target);
        }
    }

    /// A message for a reader of what is lent: without a payload that it can have in place.
    fn packed(&self, message: &LinkMessage, reader: Option<ReaderId>) -> Message {
        let lent = match message {
            LinkMessage::Frame(frame) => self.sharing.outgoing(frame, reader),
            _ => None,
        };
        packed(lent.as_ref().unwrap_or(message))
    }

    /// What is queued on links leaves.
    pub(crate) fn wake_links(&self) {
        let mut outlets = self.outlets.lock();
        for target in std::mem::take(&mut outlets.waiting) {
            if let Some(link) = outlets.link(target) {
                link.wake();
            }
        }
    }

    /// Queues what gathered for the scheduler, each kind as one message.
    pub(crate) fn report(&self) {
        let reports = self.core.lock().take_reports(Instant::now());
        let to_scheduler = |message| (Target::Scheduler, message);
        let batch: Vec<_> = reports.into_iter().map(to_scheduler).collect();
        if !batch.is_empty() {
            self.transmit(Target::Scheduler, &batch);
        }
    }

    // --- links ------------------------------------------------------------------------------------------------------

    /// Makes this the scheduler's link, unless a higher term was seen: then that one is returned.
    ///
    /// Welcome, outlet and core change together, so that no message of another thread gets before the Welcome or lost.
    pub(crate) fn scheduler_up(&self, term: u64, link: &LinkSender) -> Result<u64, u64> {
        self.act(|core, now, out| {
            core.scheduler_connected(term, now, out)?;
            let welcome = LinkMessage::from(v1::Welcome {
                jobs: core.held_jobs(),
                ..self.welcome(term, None)
            });
            // A link that broke already is noticed by its reader.
            let _ = link.send(packed(&welcome));
            let mut outlets = self.outlets.lock();
            outlets.scheduler_links += 1;
            let number = outlets.scheduler_links;
            if let Some((_, old)) = outlets.scheduler.replace((number, link.clone())) {
                old.abort();
            }
            Ok(number)
        })
    }

    /// The scheduler's link ended; nothing happens when another one has replaced it.
    pub(crate) fn scheduler_down(&self, number: u64) {
        let mut core = self.core.lock();
        let mut outlets = self.outlets.lock();
        if matches!(outlets.scheduler, Some((current, _)) if current == number) {
            outlets.scheduler = None;
            core.scheduler_lost();
        }
    }

    /// `reader`: its connection to what is lent here, if it has one.
    pub(crate) fn peer_up(&self, peer: PeerIx, link: &LinkSender, reader: Option<ReaderId>) {
        let link = link.clone();
        self.act(|core, now, out| {
            self.outlets.lock().peers.insert(peer, Way { link, reader });
            core.peer_connected(peer, now, out);
        });
    }

    /// Whether to dial it again.
    pub(crate) fn peer_down(&self, peer: PeerIx) -> bool {
        let mut core = self.core.lock();
        self.outlets.lock().peers.remove(&peer);
        core.peer_lost(peer)
    }

    /// Whether the scheduler's link waits for a connection. Its peer may be dead, and with it what is sent now.
    pub(crate) fn scheduler_is_cut_off(&self) -> bool {
        let outlets = self.outlets.lock();
        let link = outlets.scheduler.as_ref();
        link.is_some_and(|(_, link)| !link.is_connected() && !link.is_closed())
    }

    pub(crate) fn all_links(&self) -> Vec<LinkSender> {
        let outlets = self.outlets.lock();
        let scheduler = outlets.scheduler.iter().map(|(_, link)| link);
        let peers = outlets.peers.values().map(|way| &way.link);
        scheduler.chain(peers).cloned().collect()
    }

    pub(crate) fn welcome(&self, term: u64, error: Option<v1::Error>) -> v1::Welcome {
        v1::Welcome {
            protocol: omniflow_wire::PROTOCOL,
            name: self.identity.name.clone(),
            incarnation: self.identity.incarnation.clone(),
            term,
            error,
            jobs: Vec::new(),
            ..Default::default()
        }
    }

    // --- waiting ----------------------------------------------------------------------------------------------------

    pub(crate) async fn stopped(&self) {
        self.stop.notified().await;
    }

    pub(crate) fn stop(&self) {
        self.stop.notify_one();
    }

    /// Whether everything was finished within `timeout`.
    pub(crate) fn wait_drained(&self, timeout: Duration) -> bool {
        let until = Instant::now().checked_add(timeout);
        let mut core = self.core.lock();
        while !core.drained() {
            match until {
                Some(until) if Instant::now() >= until => return false,
                Some(until) => drop(self.drained.wait_until(&mut core, until)),
                None => self.drained.wait(&mut core),
            }
        }
        true
    }
}

/// A message as the link wants it. Control messages keep their order; frames keep it per job and edge, so that they get
/// past each other's bulk.
pub(crate) fn packed(message: &LinkMessage) -> Message {
    let stream = match message {
        LinkMessage::Frame(frame) => frame_stream(&frame.header),
        LinkMessage::LentFrame(lent) => lent.header.as_ref().map_or(0, frame_stream),
        _ => 0,
    };
    let (kind, head, body) = message.encode();
    Message {
        kind,
        stream,
        head,
        body,
    }
}

fn frame_stream(header: &v1::FrameHeader) -> u32 {
    let mut hasher = FxHasher::default();
    (header.job, header.edge, &header.key).hash(&mut hasher);
    (hasher.finish() >> 32) as u32 | 1
}
