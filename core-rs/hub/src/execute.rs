//! Doing what the job table decides.

use omniflow_control::{Bind, Effect, Fault, JobId, Micros, NodeState, Outcome};
use omniflow_placement::WorkerId;
use omniflow_wire::{LinkMessage, v1};

use crate::clients::Urgency;
use crate::convert;
use crate::flows::link_frame;
use crate::frames::CONTROL;
use crate::job_data::JobData;
use crate::resolved::wire_left;
use crate::state::State;
use crate::stop_at::stop_at;

impl State {
    pub(crate) fn execute(&mut self, effect: Effect, now: Micros) {
        match effect {
            Effect::Accepted { job, existed, .. } => self.accepted(job, existed),
            Effect::Refused { fault, .. } => self.refused(&fault),
            Effect::Bind {
                job,
                workers,
                binds,
            } => self.bind(job, &workers, &binds, now),
            Effect::Recall { job, worker, binds } => self.recall(job, worker, &binds),
            Effect::AskDelivered {
                job,
                node,
                key,
                epoch,
                workers,
            } => self.ask_delivered(job, (node, key), epoch, &workers),
            Effect::BeginAnew { job, node, key } => self.begin_anew(job, node, key),
            Effect::StartOver { job } => self.start_over(job),
            Effect::Release {
                job,
                workers,
                fault,
            } => self.release(job, &workers, fault.as_deref()),
            Effect::Progress {
                job,
                attempt,
                state,
            } => self.progress(job, attempt, state),
            Effect::Ended { job } => self.ended(job),
            Effect::Forgotten { job } => self.forgotten(job),
        }
    }

    fn accepted(&mut self, job: JobId, existed: bool) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        if !existed {
            let Some(flow) = self.flows.get(pending.prepared.flow) else {
                return;
            };
            let prepared = pending.prepared;
            let data = JobData::new(
                flow.graph.clone(),
                flow.feeds.clone(),
                prepared.inputs,
                prepared.parameters,
                pending.fingerprint,
            );
            self.budgets.held_inputs += data.held_bytes();
            if data.feeds.at_the_start().next().is_some() {
                self.starting.push(job);
            }
            self.jobs.insert(job, data);
            self.journal_job(job);
        }
        let results = self.jobs.get(&job).map_or(0, |data| data.results.len());
        self.subscribe(
            pending.client,
            pending.tag,
            job,
            existed,
            vec![0; results],
            &pending.wanted,
        );
    }

    fn refused(&mut self, fault: &Fault) {
        if let Some(pending) = self.pending.take() {
            self.refuse(pending.client, pending.tag, fault);
        }
    }

    fn bind(&mut self, id: JobId, workers: &[WorkerId], binds: &[Bind], now: Micros) {
        self.note_binds(id, binds);
        let (Some(job), Some(data)) = (self.control.job(id), self.jobs.get_mut(&id)) else {
            return;
        };
        let Some(running) = &mut data.running else {
            return;
        };
        let living = binds
            .iter()
            .filter(|bind| self.workers.line(bind.worker).is_some());
        let message = v1::BindJob {
            term: self.config.term,
            job: id.0,
            flow: job.flow.0,
            order: job.order,
            remaining_ms: job.remaining_ms(now),
            seed: job.seed(),
            tenant: job.tenant.to_string(),
            binds: living.map(wire_bind).collect(),
            parameters: running.parameters.clone(),
            delivered: Vec::new(),
            priority: job.priority,
        };
        stop_at("bound");
        let flow = job.flow;
        let mut resumed = Vec::new();
        for worker in workers {
            let delivered = running.resuming.take(*worker, binds);
            if !delivered.is_empty() {
                let message = v1::BindJob {
                    delivered,
                    ..message.clone()
                };
                resumed.push((*worker, link_frame(&message.into(), CONTROL)));
            }
        }
        let frame = link_frame(&LinkMessage::BindJob(message), CONTROL);
        let new = |worker: &&WorkerId| running.outgoing.join(**worker);
        let new: Vec<WorkerId> = workers.iter().filter(new).copied().collect();
        for worker in workers {
            self.introduce(*worker, binds);
            self.define(*worker, flow);
            let own = resumed.iter().find(|(of, _)| of == worker);
            let frame = own.map_or(&frame, |(_, frame)| frame);
            self.workers.send(*worker, frame.clone());
        }
        for worker in new {
            self.tell_left(id, worker);
        }
    }

    /// A worker that is new to the job hears which scopes are left already.
    fn tell_left(&mut self, id: JobId, worker: WorkerId) {
        let running = self.jobs.get(&id).and_then(|data| data.running.as_ref());
        for left in running.iter().flat_map(|running| running.outgoing.left()) {
            let message = wire_left(id, left, self.config.term);
            self.workers
                .send(worker, link_frame(&message.into(), CONTROL));
        }
    }

    /// Peers that the worker has not heard of yet.
    fn introduce(&mut self, worker: WorkerId, binds: &[Bind]) {
        let mut peers = Vec::new();
        for bind in binds {
            let known = self
                .workers
                .line_mut(worker)
                .is_none_or(|line| !line.must_introduce(bind.worker));
            if !known && let Some(line) = self.workers.line(bind.worker) {
                peers.push(line.peer.clone());
            }
        }
        if !peers.is_empty() {
            let message = v1::Peers {
                term: self.config.term,
                peers,
            };
            self.workers
                .send(worker, link_frame(&message.into(), CONTROL));
        }
    }

    fn define(&mut self, worker: WorkerId, flow: omniflow_control::FlowId) {
        let new = self
            .workers
            .line_mut(worker)
            .is_some_and(|line| line.must_define(flow));
        if let Some(entry) = self.flows.get(flow).filter(|_| new) {
            self.workers.send(worker, entry.definition.clone());
        }
    }

    fn release(&mut self, job: JobId, workers: &[WorkerId], fault: Option<&Fault>) {
        let outcome = self.control.job(job).map(|job| &job.outcome);
        if matches!(outcome, Some(Outcome::Succeeded)) {
            for worker in workers {
                self.workers.job_ended(*worker, job.0);
            }
            return;
        }
        let message = v1::ReleaseJobs {
            term: self.config.term,
            jobs: vec![job.0],
            reason: fault.map(convert::error),
        };
        let frame = link_frame(&message.into(), CONTROL);
        for worker in workers {
            self.workers.send(*worker, frame.clone());
        }
    }

    fn progress(&mut self, job: JobId, attempt: usize, state: NodeState) {
        let Some(data) = self.jobs.get_mut(&job).filter(|data| data.wants_progress) else {
            return;
        };
        data.progress.push((attempt as u32, state));
        for id in &data.subscribers {
            let asked = self
                .clients
                .subscription(*id)
                .is_some_and(|subscription| subscription.progress.is_some());
            if asked {
                self.clients.news(*id, data.written_at, Urgency::Now);
            }
        }
    }

    fn ended(&mut self, job: JobId) {
        self.journal_end(job);
        let Some(data) = self.jobs.get_mut(&job) else {
            return;
        };
        self.budgets.held_inputs -= data.held_bytes();
        self.budgets.kept_results -= data.gathered_bytes();
        data.running = None;
        for id in &data.subscribers {
            self.clients.news(*id, data.written_at, Urgency::Now);
        }
        stop_at("ended");
    }

    fn forgotten(&mut self, job: JobId) {
        let Some(data) = self.jobs.remove(&job) else {
            return;
        };
        self.journal_forgotten(job);
        self.forget_bytes(&data);
        for id in data.subscribers {
            self.clients.news(id, 0, Urgency::Now);
        }
    }
}

pub(crate) fn wire_bind(bind: &Bind) -> v1::Bind {
    v1::Bind {
        node: bind.node,
        key: bind.key.path().to_vec(),
        worker: bind.worker.0,
        epoch: bind.epoch,
    }
}
