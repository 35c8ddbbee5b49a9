//! A job that runs again from its inputs, because too much of it was lost with a worker. (Ended scopes are kept nowhere.)

use omniflow_control::{Event, JobId, Micros};
use omniflow_flow::Resolver;
use omniflow_placement::WorkerId;
use omniflow_wire::{LinkMessage, v1};
use rustc_hash::FxHashMap;

use crate::arriving::Gathered;
use crate::flows::link_frame;
use crate::frames::CONTROL;
use crate::job_data::JobData;
use crate::outgoing::Outgoing;
use crate::resuming::Resuming;
use crate::state::State;
use crate::unreachable::FIRST_QUESTION;

/// Questions that a worker answers once it has forgotten a job's earlier run.
const FORGOTTEN: u64 = FIRST_QUESTION | 1 << 61;

/// Questions that are open, by number.
#[derive(Debug, Default)]
pub(crate) struct EarlierRuns {
    asked: u64,
    open: FxHashMap<u64, JobId>,
    /// Jobs that workers were told to let go of when their links came back, and have not confirmed, in the order asked.
    letting_go: Vec<(WorkerId, Vec<u64>)>,
}

impl EarlierRuns {
    /// The worker was told to let go of these jobs.
    pub(crate) fn let_go_asked(&mut self, worker: WorkerId, jobs: Vec<u64>) {
        self.letting_go.push((worker, jobs));
    }

    /// The worker has let go of what it was told to first.
    pub(crate) fn let_go_confirmed(&mut self, worker: WorkerId) {
        let asked = self.letting_go.iter();
        if let Some(place) = asked.map(|(of, _)| of).position(|of| *of == worker) {
            self.letting_go.remove(place);
        }
    }
}

impl State {
    /// The job's workers were told to release it. What they had sent by then still comes, and counts no longer.
    pub(crate) fn start_over(&mut self, id: JobId) {
        let Some(data) = self.jobs.get_mut(&id) else {
            return;
        };
        self.budgets.held_inputs -= data.held_bytes();
        self.budgets.kept_results -= data.gathered_bytes();
        for log in &mut data.results {
            self.budgets.kept_results -= log.start_over();
        }
        if let Some(running) = &mut data.running {
            running.resolver = Resolver::with_results(data.graph.clone());
            let nodes = data.graph.nodes().len();
            let outgoing = std::mem::replace(&mut running.outgoing, Outgoing::new(nodes));
            running.gathered = Gathered::default();
            running.resuming = Resuming::default();
            for worker in outgoing.workers().iter().copied() {
                self.ask_whether_forgotten(id, worker);
            }
        }
        let Some(data) = self.jobs.get(&id) else {
            return;
        };
        self.budgets.held_inputs += data.held_bytes();
        if data.feeds.at_the_start().next().is_some() {
            self.starting.push(id);
        }
    }

    /// The worker was told to release the job: until it has, what it says is of an earlier run.
    pub(crate) fn ask_whether_forgotten(&mut self, id: JobId, worker: WorkerId) {
        let data = self.jobs.get_mut(&id);
        let Some(running) = data.and_then(|data| data.running.as_mut()) else {
            return;
        };
        if self.workers.line(worker).is_none() {
            return;
        }
        let nonce = FORGOTTEN | self.earlier_runs.asked;
        self.earlier_runs.asked += 1;
        self.earlier_runs.open.insert(nonce, id);
        running.earlier.push((nonce, worker));
        let question = link_frame(&v1::Ping { nonce }.into(), CONTROL);
        self.workers.send(worker, question);
    }

    /// An answer to a question. False when it was asked for another reason.
    pub(crate) fn forgot_earlier_run(&mut self, worker: WorkerId, nonce: u64, now: Micros) -> bool {
        let Some(job) = self.earlier_runs.open.remove(&nonce) else {
            return false;
        };
        let data = self.jobs.get_mut(&job);
        if let Some(running) = data.and_then(|data| data.running.as_mut()) {
            running.earlier.retain(|(asked, _)| *asked != nonce);
        }
        self.step(Event::LetGo { job, worker }, now);
        true
    }

    /// Whether what the worker says of the job is still of an earlier run.
    pub(crate) fn is_of_earlier_run(&self, worker: WorkerId, job: u64) -> bool {
        let running = match self.jobs.get(&JobId(job)) {
            Some(JobData {
                running: Some(running),
                ..
            }) => running,
            _ => return false,
        };
        running.earlier.iter().any(|(_, asked)| *asked == worker)
    }

    /// Whether what the worker says of the job is of what it was told to let go of. Frames are told apart by their attempt,
    /// and may overtake the answer; nothing else does.
    pub(crate) fn is_let_go(&self, worker: WorkerId, job: u64, message: &LinkMessage) -> bool {
        let mut letting_go = self.earlier_runs.letting_go.iter();
        !matches!(message, LinkMessage::Frame(_))
            && letting_go.any(|(of, jobs)| *of == worker && jobs.contains(&job))
    }

    /// The worker is dead: it will answer nothing.
    pub(crate) fn forget_questions(&mut self, worker: WorkerId) {
        self.earlier_runs.letting_go.retain(|(of, _)| *of != worker);
        let (jobs, open) = (&mut self.jobs, &mut self.earlier_runs.open);
        open.retain(|nonce, id| {
            let data = jobs.get_mut(id);
            let Some(running) = data.and_then(|data| data.running.as_mut()) else {
                return false;
            };
            running.earlier.retain(|(_, asked)| *asked != worker);
            running.earlier.iter().any(|(asked, _)| asked == nonce)
        });
    }
}
