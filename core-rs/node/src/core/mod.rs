//! The worker's data path as a state machine: messages and what roles do come in, [`Outputs`] go out. No clock, no I/O.

mod asking;
mod binds;
pub(crate) mod credits;
mod cut_short;
mod delivery;
mod ending;
mod events;
pub(crate) mod flow_counts;
mod gone;
mod holding;
mod job;
mod lanes;
mod outputs;
mod parking;
mod peers;
mod places;
mod producing;
#[cfg(test)]
mod random_tests;
mod recalling;
mod received;
mod renewing;
mod results;
mod resuming;
mod retention;
mod room;
mod scheduler;
#[cfg(test)]
mod scope_tests;
mod scopes;
mod site;
mod spent;
mod stored;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use omniflow_flow::{EdgeId, Effect, Item, Key, NodeId, PortIx, ScopeId};
use omniflow_link::Address;
use omniflow_wire::{Frame, LinkMessage, v1};
use rustc_hash::FxHashMap;

use crate::activation::Activation;
use crate::core::credits::Grant;
use crate::error::NodeError;
use crate::flow_entry::FlowEntry;
use crate::ids::{JobId, PeerIx};
use crate::ready::ReadyQueue;
use job::{Context, Job};
pub use outputs::{Flush, Outputs, Target};
use parking::Parking;
use peers::LinkState;
pub(crate) use room::Keeping;
use site::Site;

/// A job that no scheduler has released by then, counted from its deadline, is given up.
const GIVE_UP: Duration = Duration::from_secs(60);

/// A message that this side of a link never sends: the link has to be closed.
#[derive(Debug, thiserror::Error)]
#[error("a {0} is not for this side of a link")]
pub struct Unexpected(&'static str);

/// See the module.
pub struct Core {
    site: Site,
    term: u64,
    flows: FxHashMap<u32, Result<Arc<FlowEntry>, String>>,
    jobs: FxHashMap<JobId, Job>,
    parking: Parking,
    draining: bool,
    drained: bool,
}

impl Core {
    /// For the worker `name`, which serves the roles that have a queue.
    pub(crate) fn new(
        name: &str,
        incarnation: &str,
        queues: FxHashMap<String, Arc<ReadyQueue>>,
        keeping: impl Into<Keeping>,
    ) -> Self {
        Self {
            site: Site::new(name, incarnation, queues, keeping.into()),
            term: 0,
            flows: FxHashMap::default(),
            jobs: FxHashMap::default(),
            parking: Parking::default(),
            draining: false,
            drained: false,
        }
    }

    /// Something that another worker sent.
    pub fn from_peer(
        &mut self,
        message: LinkMessage,
        now: Instant,
        out: &mut Outputs,
    ) -> Result<(), Unexpected> {
        match message {
            LinkMessage::Frame(frame) => self.frame(frame, now, out),
            LinkMessage::Unwanted(unwanted) => self.unwanted(&unwanted, now, out),
            LinkMessage::Credit(credit) => self.credited(&credit, now, out),
            other => return Err(Unexpected(other.name())),
        }
        Ok(())
    }

    /// A reader says how far something that is sent from here may come.
    fn credited(&mut self, credit: &v1::Credit, now: Instant, out: &mut Outputs) {
        self.step(JobId(credit.job), now, out, |job, cx, _| {
            job.credited(credit, cx);
        });
    }

    /// The reader of something that is sent from here wants no more of it.
    fn unwanted(&mut self, unwanted: &v1::Unwanted, now: Instant, out: &mut Outputs) {
        let (edge, key) = (EdgeId(unwanted.edge), Key::new(&unwanted.key));
        self.step(JobId(unwanted.job), now, out, |job, cx, effects| {
            // Of an attempt that is lost: the next one may read on.
            let over = unwanted.epoch > 0 && unwanted.epoch < job.reader_epoch(edge, &key);
            if !over {
                job.unwanted(edge, &key, effects, cx);
            }
        });
    }

    /// A node by which values leave a scope is over, elsewhere.
    fn scope_left(&mut self, left: &v1::ScopeLeft, now: Instant, out: &mut Outputs) {
        let (scope, key, by) = (ScopeId(left.scope), Key::new(&left.key), NodeId(left.by));
        self.step(JobId(left.job), now, out, |job, cx, effects| {
            job.scope_left(scope, &key, by, effects, cx);
        });
    }

    /// Something happens to a job, if it is here, and all that follows.
    fn step(
        &mut self,
        job: JobId,
        now: Instant,
        out: &mut Outputs,
        act: impl FnOnce(&mut Job, &mut Context<'_>, &mut Vec<Effect<Bytes>>),
    ) {
        let Some(job) = self.jobs.get_mut(&job) else {
            return;
        };
        let cx = &mut Context {
            site: &mut self.site,
            out,
            now,
        };
        let mut effects = Vec::new();
        act(job, cx, &mut effects);
        job.settle(effects, cx);
    }

    fn frame(&mut self, frame: Frame, now: Instant, out: &mut Outputs) {
        self.site.counters.frames_in += 1;
        self.site.counters.bytes_in += frame.payload.len() as u64;
        let Some(job) = self.jobs.get_mut(&JobId(frame.header.job)) else {
            return self.parking.park(frame, now);
        };
        let cx = &mut Context {
            site: &mut self.site,
            out,
            now,
        };
        arrive(job, frame, cx);
    }

    // --- links to other workers -------------------------------------------------------------------------------------

    /// Name, incarnation and addresses of a peer to dial.
    pub(crate) fn peer(&self, peer: PeerIx) -> (String, String, Vec<Address>) {
        let known = self.site.peers.get(peer);
        let (name, incarnation) = (known.name.clone(), known.incarnation.clone());
        (name, incarnation, known.addresses.clone())
    }

    /// The link to a peer is up: everything that was sent to it goes (again); it drops what it has.
    pub fn peer_connected(&mut self, peer: PeerIx, now: Instant, out: &mut Outputs) {
        self.site.peers.set_link(peer, LinkState::Up);
        self.resend_to(Target::Peer(peer), now, out);
    }

    /// The link broke, or could not be made. True: dial again. False: nobody needs it now.
    pub fn peer_lost(&mut self, peer: PeerIx) -> bool {
        let needed = self.jobs.values().any(|job| job.needs(peer));
        let state = if needed {
            LinkState::Dialling
        } else {
            LinkState::Idle
        };
        self.site.peers.set_link(peer, state);
        needed
    }

    /// Reports a peer that does not answer.
    pub fn peer_unreachable(&mut self, peer: PeerIx, cause: String, out: &mut Outputs) {
        let worker = self.site.peers.get(peer).id;
        // The number of one that only an earlier scheduler knew means somebody else now.
        if self.site.peers.by_id(worker) == Some(peer) {
            self.site
                .tell_scheduler(v1::PeerUnreachable { worker, cause }, out);
        }
    }

    fn resend_to(&mut self, target: Target, now: Instant, out: &mut Outputs) {
        let cx = &mut Context {
            site: &mut self.site,
            out,
            now,
        };
        for job in self.jobs.values_mut() {
            job.resend_to(target, cx);
            if let Target::Peer(peer) = target {
                job.tell_again(peer, cx);
            }
        }
    }

    // --- what roles do ----------------------------------------------------------------------------------------------

    /// An activation reads, and says what its producers may send.
    pub(crate) fn grant(
        &mut self,
        activation: &Arc<Activation>,
        grants: Vec<(PortIx, Grant)>,
        now: Instant,
        out: &mut Outputs,
    ) {
        // Of an activation that was withdrawn meanwhile, producers hear from its successor.
        let _ = self.with_job(activation, now, out, |job, cx| {
            if job.runs(activation) {
                job.grant(activation, grants, cx);
            }
            Ok(())
        });
    }

    /// Engines have taken these.
    pub(crate) fn started(&mut self, taken: &[Arc<Activation>], now: Instant, out: &mut Outputs) {
        for activation in taken {
            // An activation that was withdrawn meanwhile says so by itself, when it is looked at.
            let _ = self.with_job(activation, now, out, |job, cx| {
                job.started(activation, cx);
                Ok(())
            });
        }
    }

    pub(crate) fn emit(
        &mut self,
        activation: &Arc<Activation>,
        port: &str,
        frames: Vec<Bytes>,
        now: Instant,
        out: &mut Outputs,
    ) -> Result<usize, NodeError> {
        self.with_job(activation, now, out, |job, cx| {
            job.emit(activation, port, frames, cx)
        })
    }

    /// Whether `emit` would take a frame now. False: the activation is told when it would.
    pub(crate) fn may_emit(
        &self,
        activation: &Arc<Activation>,
        port: &str,
    ) -> Result<bool, NodeError> {
        let job = self.jobs.get(&activation.job());
        let job = job.ok_or_else(|| activation.cancelled_error("the job has ended"))?;
        job.may_emit(activation, port)
    }

    pub(crate) fn end(
        &mut self,
        activation: &Arc<Activation>,
        port: &str,
        now: Instant,
        out: &mut Outputs,
    ) -> Result<(), NodeError> {
        self.with_job(activation, now, out, |job, cx| {
            job.end(activation, port, cx)
        })
    }

    pub(crate) fn finish(
        &mut self,
        activation: &Arc<Activation>,
        last: Vec<(String, Bytes)>,
        features: Vec<v1::Feature>,
        now: Instant,
        out: &mut Outputs,
    ) -> Result<(), NodeError> {
        self.with_job(activation, now, out, |job, cx| {
            job.finish(activation, last, features, cx)
        })
    }

    pub(crate) fn fail(
        &mut self,
        activation: &Arc<Activation>,
        error: v1::Error,
        now: Instant,
        out: &mut Outputs,
    ) -> Result<(), NodeError> {
        self.with_job(activation, now, out, |job, cx| {
            job.fail(activation, error, cx)
        })
    }

    fn with_job<T>(
        &mut self,
        activation: &Arc<Activation>,
        now: Instant,
        out: &mut Outputs,
        act: impl FnOnce(&mut Job, &mut Context<'_>) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        let Some(job) = self.jobs.get_mut(&activation.job()) else {
            return Err(activation.cancelled_error("the job has ended"));
        };
        let cx = &mut Context {
            site: &mut self.site,
            out,
            now,
        };
        act(job, cx)
    }

    // --- the whole worker -------------------------------------------------------------------------------------------

    /// The queue of a role, if this worker serves it.
    pub(crate) fn queue(&self, role: &str) -> Option<Arc<ReadyQueue>> {
        self.site.queues.get(role).map(Arc::clone)
    }

    /// The roles that this worker serves.
    pub(crate) fn roles(&self) -> Vec<&str> {
        let mut roles: Vec<&str> = self.site.queues.keys().map(String::as_str).collect();
        roles.sort_unstable();
        roles
    }

    /// Whether anything has gathered for the scheduler.
    pub(crate) fn has_reports(&self) -> bool {
        self.site.has_reports()
    }

    /// What gathered for the scheduler, while there is one: binds that are wanted, then events.
    pub fn take_reports(&mut self, now: Instant) -> Vec<LinkMessage> {
        if self.site.scheduler_up {
            self.site.take_reports(now)
        } else {
            Vec::new()
        }
    }

    /// Whether it was asked to leave.
    pub fn draining(&self) -> bool {
        self.draining
    }

    /// Whether it was asked to leave and nothing is left to finish.
    pub fn drained(&self) -> bool {
        self.drained
    }

    /// Now and then: forgets what nobody will ask for again.
    pub fn housekeeping(&mut self, now: Instant, out: &mut Outputs) {
        self.parking.expire(now);
        let overdue = |job: &Job| {
            let deadline = *job.info.deadline.lock();
            deadline.is_some_and(|deadline| now > deadline + GIVE_UP)
        };
        let jobs = self.jobs.iter().filter(|(_, job)| overdue(job));
        let jobs: Vec<JobId> = jobs.map(|(id, _)| *id).collect();
        for job in jobs {
            self.release(job);
        }
        self.check_drained(out);
    }

    /// The worker stops: nothing runs any more.
    pub(crate) fn close(&mut self) {
        let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
        for job in jobs {
            self.release(job);
        }
        for queue in self.site.queues.values() {
            queue.close();
        }
    }

    /// Counters and gauges, by name.
    pub fn stats(&self) -> Vec<(&'static str, u64)> {
        let counters = self.site.counters;
        let queued: usize = self.site.queues.values().map(|queue| queue.len()).sum();
        vec![
            ("jobs", self.jobs.len() as u64),
            ("activations", counters.activations),
            ("activations_queued", queued as u64),
            ("activations_running", counters.running.max(0) as u64),
            ("frames_in", counters.frames_in),
            ("frames_out", counters.frames_out),
            ("bytes_in", counters.bytes_in),
            ("bytes_out", counters.bytes_out),
            ("retained_bytes", self.site.retained_bytes as u64),
            ("spilled_bytes", self.site.keeping.spill.bytes()),
            ("kept_items", self.jobs.values().map(Job::kept_items).sum()),
            ("parked_bytes", self.parking.bytes() as u64),
            ("frames_dropped", self.parking.dropped()),
            ("events_dropped", self.site.events.dropped()),
            ("stale_messages", counters.stale_messages),
            ("scheduler_connected", u64::from(self.site.scheduler_up)),
        ]
    }
}

fn arrive(job: &mut Job, frame: Frame, cx: &mut Context<'_>) {
    let header = frame.header;
    let item = match v1::Mark::try_from(header.mark) {
        Ok(v1::Mark::End) => Item::End {
            count: header.count,
        },
        Ok(v1::Mark::Closed) => Item::Closed,
        // `LinkMessage::decode` lets no unknown mark pass.
        Ok(v1::Mark::None) | Err(_) => Item::Frame {
            seq: header.seq,
            payload: frame.payload,
        },
    };
    let key = Key::new(&header.key);
    job.arrive(EdgeId(header.edge), &key, header.epoch, item, cx);
}
