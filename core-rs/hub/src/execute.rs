//! Doing what the job table decides.

use omniflow_control::{Bind, Effect, Fault, JobId, Micros, NodeState};
use omniflow_flow::{Key, NodeId};
use omniflow_placement::WorkerId;
use omniflow_wire::{LinkMessage, v1};

use crate::convert;
use crate::flows::link_frame;
use crate::job_data::JobData;
use crate::state::State;
use crate::stop_at::stop_at;

/// The link stream of everything but frames: small messages, in order.
const CONTROL: u32 = 0;

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
            Effect::SendInputs { job, worker, node } => self.send_inputs(job, worker, node),
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
                prepared.inputs,
                prepared.parameters,
                pending.fingerprint,
            );
            self.budgets.held_inputs += data.input_bytes();
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
            pending.progress,
        );
    }

    fn refused(&mut self, fault: &Fault) {
        if let Some(pending) = self.pending.take() {
            self.refuse(pending.client, pending.tag, fault);
        }
    }

    fn bind(&mut self, id: JobId, workers: &[WorkerId], binds: &[Bind], now: Micros) {
        let (Some(job), Some(data)) = (self.control.job(id), self.jobs.get_mut(&id)) else {
            return;
        };
        let Some(running) = &mut data.running else {
            return;
        };
        for bind in binds.iter().filter(|bind| bind.epoch > 1) {
            running
                .resolver
                .producer_restarted(NodeId(bind.node), &Key::ROOT, bind.epoch);
        }
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
        };
        stop_at("bound");
        let flow = job.flow;
        let frame = link_frame(&LinkMessage::BindJob(message), CONTROL);
        for worker in workers {
            self.introduce(*worker, binds);
            self.define(*worker, flow);
            self.workers.send(*worker, frame.clone());
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

    fn send_inputs(&mut self, job: JobId, worker: WorkerId, node: u32) {
        let Some(data) = self.jobs.get(&job) else {
            return;
        };
        for frame in data.frames_into(job.0, node, self.config.term) {
            let stream = stream_of(job, frame.header.edge);
            self.workers
                .send(worker, link_frame(&LinkMessage::Frame(frame), stream));
        }
    }

    fn release(&mut self, job: JobId, workers: &[WorkerId], fault: Option<&Fault>) {
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
                self.clients.news(*id, data.written_at);
            }
        }
    }

    fn ended(&mut self, job: JobId) {
        self.journal_end(job);
        let Some(data) = self.jobs.get_mut(&job) else {
            return;
        };
        self.budgets.held_inputs -= data.input_bytes();
        data.running = None;
        for id in &data.subscribers {
            self.clients.news(*id, data.written_at);
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
            self.clients.news(id, 0);
        }
    }
}

fn wire_bind(bind: &Bind) -> v1::Bind {
    v1::Bind {
        node: bind.node,
        key: Vec::new(),
        worker: bind.worker.0,
        epoch: bind.epoch,
    }
}

/// Frames of one edge keep their order; those of different edges need not wait for each other's bulk.
fn stream_of(job: JobId, edge: u32) -> u32 {
    let mixed = (job.0 as u32).wrapping_mul(0x9E37_79B9).wrapping_add(edge);
    mixed.max(CONTROL + 1)
}
