//! What the scheduler says, and to which scheduler to listen (rule 14).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bytes::Bytes;
use omniflow_flow::{Key, NodeId};
use omniflow_wire::{LinkMessage, v1};
use parking_lot::Mutex;
use prost::Message;

use crate::activation::JobInfo;
use crate::core::binds::NewPlace;
use crate::core::job::{Context, Job};
use crate::core::outputs::{Outputs, Target};
use crate::core::peers::SELF;
use crate::core::site::Subject;
use crate::core::{Core, Unexpected, arrive};
use crate::flow_entry::FlowEntry;
use crate::ids::JobId;

impl Core {
    /// A scheduler has dialled. `Err`: a higher term was seen, which is returned.
    pub fn scheduler_connected(
        &mut self,
        term: u64,
        now: Instant,
        out: &mut Outputs,
    ) -> Result<(), u64> {
        let is_new = term > self.term;
        if !self.obey(term) {
            return Err(self.term);
        }
        self.site.scheduler_up = true;
        if is_new {
            self.begin_results_again(now, out);
        }
        if !self.jobs.is_empty() {
            let jobs = self.jobs.values().map(Job::holding).collect();
            out.send(Target::Scheduler, v1::Holding { jobs });
        }
        self.site.tell_held(out);
        if self.draining {
            out.send(Target::Scheduler, v1::Drain { term: self.term });
        }
        self.resend_to(Target::Scheduler, now, out);
        if self.drained {
            out.send(Target::Scheduler, v1::Drained {});
        }
        Ok(())
    }

    fn begin_results_again(&mut self, now: Instant, out: &mut Outputs) {
        let cx = &mut Context {
            site: &mut self.site,
            out,
            now,
        };
        for job in self.jobs.values_mut() {
            job.begin_results_again(cx);
        }
    }

    /// Its link broke: jobs go on, events and results wait.
    pub fn scheduler_lost(&mut self) {
        self.site.scheduler_up = false;
    }

    /// The highest term seen.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Jobs that were bound here and have not been released.
    pub(crate) fn held_jobs(&self) -> Vec<u64> {
        self.jobs.keys().map(|job| job.0).collect()
    }

    /// Something that the scheduler sent. A message of an earlier term has no effect.
    pub fn from_scheduler(
        &mut self,
        message: LinkMessage,
        now: Instant,
        out: &mut Outputs,
    ) -> Result<(), Unexpected> {
        let term = match &message {
            LinkMessage::Peers(message) => message.term,
            LinkMessage::FlowDefinition(message) => message.term,
            LinkMessage::BindJob(message) => message.term,
            LinkMessage::Recall(message) => message.term,
            LinkMessage::DeliveredWanted(message) => message.term,
            LinkMessage::ReleaseJobs(message) => message.term,
            LinkMessage::Drain(message) => message.term,
            LinkMessage::ScopeLeft(message) => message.term,
            LinkMessage::Unwanted(message) => message.term,
            LinkMessage::Credit(message) => message.term,
            LinkMessage::Frame(frame) => frame.header.term,
            other => return Err(Unexpected(other.name())),
        };
        if !self.obey(term) {
            return Ok(());
        }
        match message {
            LinkMessage::Peers(peers) => {
                for peer in peers.peers {
                    self.site.peers.learn(peer);
                }
            }
            LinkMessage::FlowDefinition(definition) => self.define(definition),
            LinkMessage::BindJob(bind) => self.bind(bind, now, out),
            LinkMessage::Recall(recall) => self.recall(&recall, now, out),
            LinkMessage::DeliveredWanted(wanted) => self.tell_delivered(wanted, out),
            LinkMessage::ReleaseJobs(release) => {
                for job in release.jobs {
                    self.release(JobId(job));
                }
                self.check_drained(out);
            }
            LinkMessage::Drain(_) => self.drain(false, out),
            LinkMessage::ScopeLeft(left) => self.scope_left(&left, now, out),
            LinkMessage::Unwanted(unwanted) => self.unwanted(&unwanted, now, out),
            LinkMessage::Credit(credit) => self.credited(&credit, now, out),
            LinkMessage::Frame(frame) => self.frame(frame, now, out),
            other => return Err(Unexpected(other.name())),
        }
        Ok(())
    }

    /// Whether a message of this term counts. Numbers of flows and peers belong to a term.
    fn obey(&mut self, term: u64) -> bool {
        if term < self.term {
            self.site.counters.stale_messages += 1;
            return false;
        }
        if term > self.term {
            self.term = term;
            self.flows.clear();
            self.site.peers.new_term();
        }
        true
    }

    fn define(&mut self, definition: v1::FlowDefinition) {
        let flow = definition.flow.unwrap_or_default();
        let entry = FlowEntry::new(&flow).map(Arc::new);
        self.flows.insert(definition.id, entry);
    }

    fn bind(&mut self, message: v1::BindJob, now: Instant, out: &mut Outputs) {
        let id = JobId(message.job);
        let Some(binds) = self.places(&message) else {
            let problem = "a bind names a worker that no Peers message of this term has named";
            return self.refuse_bind(
                &message,
                v1::ErrorCode::Internal,
                problem.to_owned(),
                now,
                out,
            );
        };
        let deadline =
            (message.remaining_ms > 0).then(|| now + Duration::from_millis(message.remaining_ms));
        if let Some(job) = self.jobs.get_mut(&id) {
            *job.info.deadline.lock() = deadline;
            job.order = message.order;
        } else {
            let flow = match self.flows.get(&message.flow) {
                Some(Ok(flow)) => Arc::clone(flow),
                Some(Err(problem)) => {
                    let problem = problem.clone();
                    return self.refuse_bind(&message, v1::ErrorCode::BadFlow, problem, now, out);
                }
                None => {
                    let problem = "no FlowDefinition of this term came before the bind".to_owned();
                    return self.refuse_bind(&message, v1::ErrorCode::Internal, problem, now, out);
                }
            };
            self.drained = false;
            let order = message.order;
            self.jobs
                .insert(id, Job::new(job_info(id, &message, deadline), flow, order));
        }
        let parked = self.parking.bound(id);
        if parked.as_ref().is_some_and(|parked| parked.overflowed) {
            let problem = "frames came so far ahead of the bind that there was no room for them";
            let code = v1::ErrorCode::ResourceExhausted;
            self.refuse_bind(&message, code, problem.to_owned(), now, out);
        }
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let cx = &mut Context {
            site: &mut self.site,
            out,
            now,
        };
        job.resuming.expect(message.delivered, &binds);
        let strangers = job.forget_strangers(message.term, &binds);
        job.bind(binds, cx);
        job.ask_for(&strangers, cx);
        for frame in parked.into_iter().flat_map(|parked| parked.frames) {
            arrive(job, frame, cx);
        }
    }

    fn places(&self, message: &v1::BindJob) -> Option<Vec<NewPlace>> {
        let place = |bind: &v1::Bind| {
            Some(NewPlace {
                node: NodeId(bind.node),
                key: Key::new(&bind.key),
                peer: self.site.peers.by_id(bind.worker)?,
                epoch: bind.epoch,
            })
        };
        message.binds.iter().map(place).collect()
    }

    /// Says for every node that was to run here why it cannot.
    fn refuse_bind(
        &mut self,
        message: &v1::BindJob,
        code: v1::ErrorCode,
        problem: String,
        now: Instant,
        out: &mut Outputs,
    ) {
        for bind in &message.binds {
            let peer = self.site.peers.by_id(bind.worker);
            if peer.is_some_and(|peer| peer != SELF) {
                continue;
            }
            let subject = Subject {
                job: JobId(message.job),
                node: NodeId(bind.node),
                key: &Key::new(&bind.key),
                epoch: bind.epoch,
            };
            let error = v1::Error {
                code: code.into(),
                message: problem.clone(),
                ..Default::default()
            };
            self.site.failed(&subject, None, error, now, out);
        }
    }

    pub(super) fn release(&mut self, job: JobId) {
        if let Some(mut gone) = self.jobs.remove(&job) {
            gone.stop_all(&mut self.site);
            self.site.take_back(gone.sent.take_all());
        }
        self.parking.released(job);
    }

    /// Take nothing new, finish what is bound. `announce`: the worker wants to leave by itself, so the scheduler is told.
    pub(crate) fn drain(&mut self, announce: bool, out: &mut Outputs) {
        if self.draining {
            return;
        }
        self.draining = true;
        if announce && self.site.scheduler_up {
            out.send(Target::Scheduler, v1::Drain { term: self.term });
        }
        self.check_drained(out);
    }

    /// Rule 11: a drain ends when what was sent has been released, which is when no job is left.
    pub(super) fn check_drained(&mut self, out: &mut Outputs) {
        if self.draining && !self.drained && self.jobs.is_empty() {
            self.drained = true;
            out.drained = true;
            if self.site.scheduler_up {
                out.send(Target::Scheduler, v1::Drained {});
            }
        }
    }
}

fn job_info(id: JobId, message: &v1::BindJob, deadline: Option<Instant>) -> JobInfo {
    let overrides = message.parameters.iter();
    JobInfo {
        id,
        seed: message.seed,
        tenant: message.tenant.clone(),
        priority: message.priority,
        overrides: overrides
            .map(|(name, value)| (name.clone(), Bytes::from(value.encode_to_vec())))
            .collect(),
        deadline: Mutex::new(deadline),
        over: AtomicBool::new(false),
    }
}
