//! What happens as time passes.

use std::sync::Arc;

use omniflow_placement::WorkerId;

use crate::effect::Effect;
use crate::fault::Fault;
use crate::ids::{JobId, Micros};
use crate::job::{Job, Outcome};
use crate::report::Attempt;
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
        self.look_at_loads(now, effects);
    }

    /// The worker is rid of what it has not finished, which goes on elsewhere, so that nothing keeps it from leaving.
    fn drain_is_over(&mut self, worker: WorkerId, now: Micros, effects: &mut Vec<Effect>) {
        if !self.fleet.is_alive(worker) {
            return;
        }
        let mut held: Vec<JobId> = self
            .jobs
            .values()
            .filter(|job| !job.outcome.is_ended() && job.known.binary_search(&worker).is_ok())
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
            Outcome::Waiting(_) | Outcome::Running if job.deadline > now => {
                match self.took_its_share(job, now) {
                    Some(fault) => self.fail(id, Arc::new(fault), now, effects),
                    // The attempt that this was set for has ended.
                    None => self.set_running_timer(id),
                }
            }
            Outcome::Waiting(_) | Outcome::Running => {
                let fault = self.expired(job, now);
                self.fail(id, Arc::new(fault), now, effects);
            }
        }
    }

    /// Wakes a job whose results are open for what comes first: its deadline, the end of its client's grace, or an attempt
    /// that has taken its share of the deadline.
    pub(crate) fn set_running_timer(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.results_are_open()) else {
            return;
        };
        let limits = self.limited(job).map(|(_, due)| due);
        let due = limits.chain(job.orphan_until).chain([job.deadline]).min();
        if let Some(due) = due {
            self.set_timer(id, due);
        }
    }

    /// Wakes a running job then, if it would not be awake earlier: no other attempt need be looked at.
    pub(crate) fn wake_by(&mut self, id: JobId, due: Option<Micros>) {
        let job = self.jobs.get(&id).filter(|job| job.results_are_open());
        if let (Some(job), Some(due)) = (job, due)
            && due < job.timer
        {
            self.set_timer(id, due);
        }
    }

    /// Attempts under way that may take only a part of the deadline, and when that is over: from when their inputs were
    /// there. Of a job with more attempts than a report lists, the listed ones.
    fn limited<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = (&'a Attempt, Micros)> {
        let plan = &self.plans[job.flow.0 as usize];
        let has_limits = plan.nodes.iter().any(|node| node.deadline_share > 0.0);
        let listed = has_limits.then_some(&job.attempts);
        listed.into_iter().flatten().filter_map(move |attempt| {
            let share = plan.nodes.get(attempt.node as usize)?.deadline_share;
            let runs = share > 0.0 && attempt.queued_us > 0 && !attempt.is_over();
            let queued = Micros(job.arrived.0.saturating_add(attempt.queued_us));
            runs.then(|| (attempt, job.share_over(queued, share)))
        })
    }

    fn took_its_share(&self, job: &Job, now: Micros) -> Option<Fault> {
        let (attempt, _) = self.limited(job).find(|(_, due)| *due <= now)?;
        let plan = &self.plans[job.flow.0 as usize];
        let name = plan.name(attempt.node as usize);
        let share = plan.nodes[attempt.node as usize].deadline_share;
        let allowed_ms = job.deadline.since(job.arrived) / 1_000;
        Some(Fault::share_exceeded(
            name,
            &attempt.worker_name,
            share,
            allowed_ms,
        ))
    }
}

impl Job {
    /// When an attempt whose inputs were there at `queued` has taken this part of the deadline.
    pub(crate) fn share_over(&self, queued: Micros, share: f64) -> Micros {
        let whole_us = self.deadline.since(self.arrived) as f64;
        Micros(queued.0.saturating_add((whole_us * share) as u64))
    }

    /// Nobody came for it while its client's grace lasted.
    fn is_abandoned(&self, now: Micros) -> bool {
        self.deadline > now && self.orphan_until.is_some_and(|until| until <= now)
    }
}
