//! Restored jobs wait until every worker that the last life of the scheduler knew has said what it holds of them, or is dead
//! (rule 14). Then they go on there: nothing is run twice that lives.
//!
//! What workers say of those jobs meanwhile (results that come again, binds that are wanted, what has ended) is kept until
//! it is known where their nodes are.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use omniflow_control::{Event, HeldBind, JobId, Micros, NodeState};
use omniflow_flow::Key;
use omniflow_placement::WorkerId;
use omniflow_wire::{LinkMessage, v1};

use crate::convert;
use crate::incoming;
use crate::state::State;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    /// Name and incarnation of those that have not reported.
    workers: BTreeMap<String, String>,
    /// Links that were told to let go of jobs, and have not confirmed it, by the question's number.
    confirming: Vec<(u64, WorkerId)>,
    /// Of these: links whose workers are about to say what they hold.
    reporting: Vec<WorkerId>,
    /// A worker that was known is dead.
    lost: bool,
    /// Restored jobs that had not ended.
    pub(crate) jobs: BTreeSet<JobId>,
    held: BTreeMap<JobId, Held>,
    /// What workers have said of those jobs, and when.
    early: Vec<(WorkerId, LinkMessage, Micros)>,
    /// Those of which too much is lost: what workers say of them is of a run that counts no longer.
    given_up: BTreeSet<JobId>,
    /// It is over.
    done: bool,
}

/// What living workers hold of a job.
#[derive(Debug, Default)]
struct Held {
    binds: Vec<HeldBind>,
    workers: Vec<WorkerId>,
}

impl State {
    /// Everything is restored: these workers, by name and incarnation, may hold something of it.
    pub(crate) fn wait_for(&mut self, workers: BTreeMap<String, String>, now: Micros) {
        self.awaited.workers = workers;
        self.go_on_if_all_reported(now);
    }

    /// Of the jobs that a worker holds, those that may go on there.
    pub(crate) fn adoptable(&self, name: &str, incarnation: &str, held: &[u64]) -> Vec<u64> {
        let known = self.awaited.workers.get(name);
        if self.awaited.done || known.is_none_or(|known| known != incarnation) {
            return Vec::new();
        }
        let restored = |job: &&u64| self.awaited.jobs.contains(&JobId(**job));
        held.iter().filter(restored).copied().collect()
    }

    /// The worker's link is up. It was told to let go of jobs and answers that question when it has, or is about to say what
    /// it holds of those that may go on.
    pub(crate) fn worker_reported(
        &mut self,
        worker: WorkerId,
        question: Option<u64>,
        holds: bool,
        now: Micros,
    ) {
        if self.awaited.done {
            return;
        }
        match question {
            _ if holds => self.awaited.reporting.push(worker),
            Some(nonce) => self.awaited.confirming.push((nonce, worker)),
            None => self.worker_settled(worker, now),
        }
    }

    /// An answer to a question. False when it was asked for another reason.
    pub(crate) fn worker_confirmed(&mut self, nonce: u64, now: Micros) -> bool {
        let asked = &mut self.awaited.confirming;
        let Some(place) = asked.iter().position(|(known, _)| *known == nonce) else {
            return false;
        };
        let (_, worker) = asked.swap_remove(place);
        self.worker_settled(worker, now);
        true
    }

    /// What the worker holds. Of no interest when it was told to let go of everything.
    pub(crate) fn worker_holds(&mut self, worker: WorkerId, holding: v1::Holding, now: Micros) {
        let Some(place) = self
            .awaited
            .reporting
            .iter()
            .position(|known| *known == worker)
        else {
            return;
        };
        self.awaited.reporting.swap_remove(place);
        if self.awaited.done {
            // It took too long: its jobs have moved elsewhere.
            let late = holding.jobs.iter().map(|held| held.job).collect();
            self.release_held(worker, late);
            return;
        }
        for held in holding.jobs {
            let id = JobId(held.job);
            if !self.awaited.jobs.contains(&id) {
                continue;
            }
            let known = self.awaited.held.entry(id).or_default();
            known.workers.push(worker);
            known
                .binds
                .extend(held.nodes.into_iter().map(|node| HeldBind {
                    node: node.node,
                    key: Key::new(&node.key),
                    worker,
                    epoch: node.epoch,
                    state: convert::node_state(node.state).unwrap_or(NodeState::Bound),
                }));
        }
        self.worker_settled(worker, now);
    }

    /// The worker has said what it holds of restored jobs.
    fn worker_settled(&mut self, worker: WorkerId, now: Micros) {
        if let Some(line) = self.workers.line(worker) {
            self.awaited.workers.remove(&*line.name);
        }
        self.go_on_if_all_reported(now);
    }

    /// The worker's link is gone for good: what it holds is lost.
    pub(crate) fn awaited_worker_died(&mut self, worker: WorkerId, now: Micros) {
        let awaited = &mut self.awaited;
        if awaited.done {
            return;
        }
        awaited.confirming.retain(|(_, known)| *known != worker);
        awaited.reporting.retain(|known| *known != worker);
        for held in awaited.held.values_mut() {
            awaited.lost |= held.workers.contains(&worker);
            held.workers.retain(|known| *known != worker);
            held.binds.retain(|bind| bind.worker != worker);
        }
        if let Some(line) = self.workers.line(worker) {
            awaited.lost |= awaited.workers.remove(&*line.name).is_some();
        }
        self.go_on_if_all_reported(now);
    }

    /// Another incarnation has that name: the one that was awaited is dead.
    pub(crate) fn incarnation_seen(&mut self, name: &str, incarnation: &str, now: Micros) {
        let awaited = self.awaited.workers.get(name);
        if awaited.is_some_and(|known| known != incarnation) {
            self.awaited.workers.remove(name);
            self.awaited.lost = true;
            self.go_on_if_all_reported(now);
        }
    }

    /// Whoever has not reported by now is dead (rule 13).
    pub(crate) fn stop_waiting_for_workers(&mut self, now: Micros) {
        for (name, incarnation) in std::mem::take(&mut self.awaited.workers) {
            self.awaited.lost = true;
            self.journal_worker(&name, &incarnation, false);
        }
        self.go_on_if_all_reported(now);
    }

    /// How long restored jobs wait for workers at most: what makes a silent one dead.
    pub(crate) fn patience(&self) -> Option<Duration> {
        (!self.awaited.done).then_some(self.config.heartbeat_limit)
    }

    /// Whether what workers say of a job is kept for later.
    pub(crate) fn waits(&self, job: u64) -> bool {
        !self.awaited.done && self.awaited.jobs.contains(&JobId(job))
    }

    /// Keeps what a worker says of a job that waits. None: it does not wait, so that it can be looked at now.
    pub(crate) fn keep_early(
        &mut self,
        worker: WorkerId,
        job: u64,
        message: LinkMessage,
        now: Micros,
    ) -> Option<LinkMessage> {
        if !self.waits(job) {
            return Some(message);
        }
        if !self.awaited.given_up.contains(&JobId(job)) {
            self.awaited.early.push((worker, message, now));
        }
        None
    }

    fn go_on_if_all_reported(&mut self, now: Micros) {
        if self.awaited.done || !self.awaited.workers.is_empty() {
            return;
        }
        self.give_up_the_incomplete();
        if !self.awaited.confirming.is_empty() {
            return;
        }
        self.awaited.done = true;
        for (job, Held { binds, workers }) in std::mem::take(&mut self.awaited.held) {
            let held = binds;
            self.step(Event::Adopt { job, held, workers }, now);
        }
        self.step(Event::Resume, now);
        for id in std::mem::take(&mut self.awaited.jobs) {
            let running = self.jobs.get(&id).filter(|data| data.running.is_some());
            if running.is_some_and(|data| data.feeds.at_the_start().next().is_some()) {
                self.starting.push(id);
            }
        }
        self.feed(now);
        for (worker, mut message, then) in std::mem::take(&mut self.awaited.early) {
            if let LinkMessage::Events(events) = &mut message {
                let waited = now.since(then);
                let events = events.events.iter_mut();
                events.for_each(|event| event.age_us += waited);
            }
            self.message(worker, message, now);
        }
    }

    /// Jobs that have ended meanwhile, and those with fan-outs, branches or loops of which a worker may have died with
    /// something: nobody would know what of it is missing. They are let go of everywhere, and run again once that is confirmed.
    fn give_up_the_incomplete(&mut self) {
        let incomplete = |state: &Self, id: &JobId| {
            let running = state.jobs.get(id).filter(|data| data.running.is_some());
            running.is_none_or(|data| state.awaited.lost && data.feeds.dynamic)
        };
        let held = std::mem::take(&mut self.awaited.held);
        let (lost, held) = held
            .into_iter()
            .partition(|(id, _): &(JobId, Held)| incomplete(self, id));
        self.awaited.held = held;
        let lost: BTreeMap<JobId, Held> = lost;
        let mut letting_go: BTreeMap<WorkerId, Vec<u64>> = BTreeMap::new();
        for (id, held) in lost {
            self.awaited.given_up.insert(id);
            for worker in held.workers {
                letting_go.entry(worker).or_default().push(id.0);
            }
        }
        for (worker, jobs) in letting_go {
            let nonce = self.release_held(worker, jobs);
            let asked = nonce.map(|nonce| (nonce, worker));
            self.awaited.confirming.extend(asked);
        }
        if !self.awaited.given_up.is_empty() {
            let given_up = &self.awaited.given_up;
            let counts = |(_, message, _): &(WorkerId, LinkMessage, Micros)| {
                job_of(message).is_none_or(|job| !given_up.contains(&JobId(job)))
            };
            self.awaited.early.retain(counts);
        }
    }
}

/// Which job a kept message is about.
fn job_of(message: &LinkMessage) -> Option<u64> {
    match message {
        LinkMessage::Events(events) => Some(events.events.first()?.job),
        message => incoming::job_of(message),
    }
}
