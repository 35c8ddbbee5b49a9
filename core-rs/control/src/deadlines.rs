//! What happens as time passes.

use std::sync::Arc;

use omniflow_placement::WorkerId;

use crate::effect::Effect;
use crate::event::NodeState;
use crate::fault::Fault;
use crate::ids::{JobId, Micros};
use crate::job::{Job, Outcome};
use crate::table::Control;

impl Control {
    pub(crate) fn tick(&mut self, now: Micros, effects: &mut Vec<Effect>) {
        while let Some((due, id)) = self.timers.first().copied() {
            if due > now {
                break;
            }
            self.due(id, now, effects);
            // Whatever was due has set a later timer, or none.
            self.timers.remove(&(due, id));
        }
        while let Some((due, worker)) = self.drains.first().copied() {
            if due > now {
                break;
            }
            self.drains.pop_first();
            self.drain_is_over(worker, now, effects);
        }
    }

    /// The worker is rid of what it has not finished, which goes on elsewhere, so that nothing keeps it from leaving.
    fn drain_is_over(&mut self, worker: WorkerId, now: Micros, effects: &mut Vec<Effect>) {
        if !self.fleet.is_alive(worker) {
            return;
        }
        let mut held: Vec<JobId> = self
            .jobs
            .values()
            .filter(|job| !job.outcome.is_ended() && job.has_run_on(worker))
            .map(|job| job.id)
            .collect();
        held.sort_unstable();
        effects.extend(held.into_iter().map(|job| Effect::Release {
            job,
            workers: vec![worker],
            fault: None,
        }));
        self.worker_down(worker, "the time for its drain was over", now, effects);
    }

    fn due(&mut self, id: JobId, now: Micros, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        match &job.outcome {
            Outcome::Succeeded | Outcome::Failed(_) => self.forget(id, effects),
            Outcome::Settling => self.succeed(id, now, effects),
            Outcome::Waiting(_) | Outcome::Running if job.is_abandoned(now) => {
                self.free_key(id);
                self.fail(id, Arc::new(Fault::client_lost()), now, effects);
            }
            Outcome::Waiting(_) | Outcome::Running => {
                let fault = self.expired(job, now);
                self.fail(id, Arc::new(fault), now, effects);
            }
        }
    }

    /// Why the job was not done in time: no worker for a role, or the node where it hung.
    fn expired(&self, job: &Job, now: Micros) -> Fault {
        let plan = &self.plans[job.flow.0 as usize];
        let (waited_ms, allowed_ms) = (
            now.since(job.arrived) / 1_000,
            job.deadline.since(job.arrived) / 1_000,
        );
        if let Outcome::Waiting(role) = job.outcome {
            let node = (0..plan.nodes.len())
                .find(|node| plan.nodes[*node].role == role && job.current(*node).is_none());
            return Fault::no_worker(
                self.fleet.role_name(role),
                plan.name(node.unwrap_or_default()),
                waited_ms,
            );
        }
        let Some((node, state)) = job.held_up_at() else {
            return Fault::deadline_exceeded(
                allowed_ms,
                "",
                "",
                "every node has ended, but a result is missing",
            );
        };
        let Some(attempt) = job.current(node) else {
            return Fault::deadline_exceeded(
                allowed_ms,
                plan.name(node),
                "",
                "it was never placed",
            );
        };
        let (name, worker, elapsed_us) = (
            plan.name(node),
            &*attempt.worker_name,
            now.since(job.arrived),
        );
        let stage = match state {
            NodeState::Bound => {
                format!("node {name:?} on worker {worker:?} still waits for its inputs")
            }
            NodeState::Queued => {
                let ms = elapsed_us.saturating_sub(attempt.queued_us) / 1_000;
                format!("node {name:?} has waited {ms} ms in the queue of worker {worker:?}")
            }
            _ => {
                let ms = elapsed_us.saturating_sub(attempt.started_us) / 1_000;
                format!("node {name:?} has been running on worker {worker:?} for {ms} ms")
            }
        };
        Fault::deadline_exceeded(allowed_ms, name, worker, &stage)
    }
}

impl Job {
    /// Nobody came for it while its client's grace lasted.
    fn is_abandoned(&self, now: Micros) -> bool {
        self.deadline > now && self.orphan_until.is_some_and(|until| until <= now)
    }

    /// Whether any attempt of it was given to the worker.
    fn has_run_on(&self, worker: WorkerId) -> bool {
        self.attempts.iter().any(|attempt| attempt.worker == worker)
    }
}
