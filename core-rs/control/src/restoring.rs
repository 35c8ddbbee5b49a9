//! Jobs that an earlier life of the scheduler accepted (rule 17): back in the table before anybody asks for them, placed
//! once it is known what became of the workers (rule 14).

use std::sync::Arc;

use crate::effect::Effect;
use crate::event::{Restored, RestoredEnd};
use crate::ids::{ClientId, JobId, Micros};
use crate::job::{Job, Outcome};
use crate::table::Control;

/// How long clients have to find the scheduler's next life: it takes a while until they can connect, and they look every
/// few seconds.
const RETURN_MS: u64 = 15_000;

impl Control {
    /// Puts the job where it was. What ran of it runs again, under higher epochs; its client has the grace period to
    /// come back. A job of a number that is known, or of an unknown flow, is left alone.
    pub(crate) fn restore(&mut self, restored: Restored, now: Micros, effects: &mut Vec<Effect>) {
        let Restored {
            job: id,
            submission,
            order,
            arrival,
            arrived,
            deadline,
            first_epoch,
            end,
        } = restored;
        let Some(plan) = self.plans.get(submission.flow.0 as usize) else {
            return;
        };
        if self.jobs.contains_key(&id) {
            return;
        }
        self.arrivals = self.arrivals.max(arrival);
        if !submission.idempotency_key.is_empty() {
            let key = (
                submission.tenant.clone(),
                submission.idempotency_key.clone(),
            );
            self.by_key.insert(key, id);
        }
        let mut job = Job::new(id, submission, plan, order, arrived.min(now), deadline);
        job.arrival = arrival;
        job.owner = None;
        job.begin(plan, first_epoch);
        match end {
            Some(end) => self.restore_ended(job, end, now, effects),
            None => self.restore_living(job, now, effects),
        }
    }

    fn restore_living(&mut self, mut job: Job, now: Micros, effects: &mut Vec<Effect>) {
        let (id, deadline) = (job.id, job.deadline);
        let until = now.plus_ms(self.limits.client_grace_ms.max(RETURN_MS));
        let due = if job.detach {
            deadline
        } else {
            job.orphan_until = Some(until);
            until.min(deadline)
        };
        job.held = true;
        self.holding = true;
        self.insert(job, due);
        self.live += 1;
        self.place(id, now, effects);
    }

    fn restore_ended(
        &mut self,
        mut job: Job,
        end: RestoredEnd,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        let id = job.id;
        job.pending = Vec::new();
        job.ended = end.at.min(now);
        job.attempts = end.attempts;
        job.first_frame = end.first_frame;
        job.last_result = end.last_result.unwrap_or(job.arrived);
        job.open_results.fill(false);
        job.outcome = end
            .fault
            .map_or(Outcome::Succeeded, |fault| Outcome::Failed(Arc::new(fault)));
        let ended = job.ended;
        self.insert(job, ended);
        self.keep(id, ended, effects);
    }

    fn insert(&mut self, mut job: Job, due: Micros) {
        job.timer = due;
        self.timers.insert((due, job.id));
        self.jobs.insert(job.id, Box::new(job));
    }

    /// Every worker has reported, or is dead: restored jobs go on like any other.
    pub(crate) fn resume(&mut self, now: Micros, effects: &mut Vec<Effect>) {
        self.holding = false;
        let held = self.jobs.values().filter(|job| job.held);
        let mut held: Vec<(i64, JobId)> = held.map(|job| (job.order as i64, job.id)).collect();
        held.sort_unstable();
        for (_, id) in held {
            self.stop_waiting(id);
            let Some(job) = self.jobs.get_mut(&id) else {
                continue;
            };
            job.held = false;
            if !job.outcome.is_ended() {
                self.place(id, now, effects);
            }
        }
    }
}

/// Whoever submitted a restored job is not connected any more.
pub const NOBODY: ClientId = ClientId(0);
