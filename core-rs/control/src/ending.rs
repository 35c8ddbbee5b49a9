//! What happens when a job is over, and when its record is forgotten.

use std::sync::Arc;

use omniflow_placement::WorkerId;

use crate::effect::Effect;
use crate::fault::Fault;
use crate::ids::{JobId, Micros};
use crate::job::{Job, Outcome};
use crate::table::Control;

impl Control {
    pub(crate) fn succeed(&mut self, id: JobId, now: Micros, effects: &mut Vec<Effect>) {
        self.succeeded += u64::from(self.end(id, Outcome::Succeeded, now, effects));
    }

    pub(crate) fn fail(
        &mut self,
        id: JobId,
        fault: Arc<Fault>,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        // What fails after the last result has come takes nothing from the client.
        if self
            .jobs
            .get(&id)
            .is_some_and(|job| matches!(job.outcome, Outcome::Settling))
        {
            self.succeed(id, now, effects);
            return;
        }
        self.failed += u64::from(self.end(id, Outcome::Failed(fault), now, effects));
    }

    pub(crate) fn cancel(
        &mut self,
        id: JobId,
        reason: &str,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        self.fail(id, Arc::new(Fault::cancelled(reason)), now, effects);
    }

    /// Ends a job once; false when it had ended before.
    fn end(&mut self, id: JobId, outcome: Outcome, now: Micros, effects: &mut Vec<Effect>) -> bool {
        if self.jobs.get(&id).is_none_or(|job| job.outcome.is_ended()) {
            return false;
        }
        self.stop_waiting(id);
        let Some(mut job) = self.jobs.remove(&id) else {
            return false;
        };
        for (node, worker) in job.outstanding().collect::<Vec<_>>() {
            if let Some(role) = self.plans[job.flow.0 as usize].nodes[node].role {
                self.unload(role, worker);
            }
        }
        job.outcome = outcome;
        job.ended = now;
        let fault = match &job.outcome {
            Outcome::Failed(fault) => Some(fault.clone()),
            _ => None,
        };
        let workers = job.let_go();
        for client in job.take_clients() {
            if let Some(owned) = self.owned.get_mut(&client) {
                owned.remove(&id);
            }
        }
        self.jobs.insert(id, job);
        if !workers.is_empty() {
            effects.push(Effect::Release {
                job: id,
                workers,
                fault,
            });
        }
        effects.push(Effect::Ended { job: id });
        self.live -= 1;
        self.note_pace(now);
        self.keep(id, now, effects);
        true
    }

    fn note_pace(&mut self, now: Micros) {
        let gap = match self.last_end {
            Micros(0) => 0.0,
            last => now.since(last) as f64,
        };
        self.pace_us = if self.pace_us == 0.0 {
            gap
        } else {
            0.95 * self.pace_us + 0.05 * gap
        };
        self.last_end = now;
    }

    /// Keeps the ended job's record for a while; the oldest goes when there are too many.
    pub(crate) fn keep(&mut self, id: JobId, now: Micros, effects: &mut Vec<Effect>) {
        self.set_timer(id, now.plus_ms(self.limits.result_ttl_ms.max(1)));
        self.ended.push_back(id);
        while self.ended.len() > self.limits.kept_limit {
            let Some(oldest) = self.ended.front().copied() else {
                break;
            };
            self.forget(oldest, effects);
        }
    }

    pub(crate) fn read_on(&mut self, id: JobId, now: Micros) {
        if self.jobs.get(&id).is_some_and(|job| job.outcome.is_ended()) {
            self.set_timer(id, now.plus_ms(self.limits.result_ttl_ms.max(1)));
        }
    }

    /// Drops the record of an ended job. Ended jobs are forgotten in the order in which they ended.
    pub(crate) fn forget(&mut self, id: JobId, effects: &mut Vec<Effect>) {
        self.free_key(id);
        if let Some(job) = self.jobs.remove(&id) {
            self.timers.remove(&(job.timer, id));
            effects.push(Effect::Forgotten { job: id });
        }
        // Nearly always the first one.
        if let Some(at) = self.ended.iter().position(|ended| *ended == id) {
            self.ended.remove(at);
        }
    }

    pub(crate) fn forget_ended(&mut self, id: JobId, effects: &mut Vec<Effect>) {
        if self.jobs.get(&id).is_some_and(|job| job.outcome.is_ended()) {
            self.forget(id, effects);
        }
    }

    pub(crate) fn free_key(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let key = (job.tenant.clone(), job.idempotency_key.clone());
        if self.by_key.get(&key) == Some(&id) {
            self.by_key.remove(&key);
        }
    }
}

impl Job {
    /// Forgets what only matters while it runs. Returns who has to let go of it.
    fn let_go(&mut self) -> Vec<WorkerId> {
        self.slots.forget_keyed();
        self.pending = Vec::new();
        self.letting_go = Vec::new();
        self.scopes = None;
        std::mem::take(&mut self.known)
    }
}
