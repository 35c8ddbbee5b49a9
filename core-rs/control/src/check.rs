//! The table's invariants, for tests and for idle moments.

use rustc_hash::FxHashMap;

use crate::job::Outcome;
use crate::report::KEPT_ATTEMPTS;
use crate::slot::{Slot, Stand};
use crate::table::Control;

impl Control {
    /// Verifies every invariant; the error says which is broken. Costs as much as there are jobs.
    pub fn check(&self) -> Result<(), String> {
        self.ledger.check().map_err(|broken| broken.to_string())?;
        self.check_loads()?;
        self.check_jobs()?;
        self.check_indices()
    }

    fn check_loads(&self) -> Result<(), String> {
        let mut counted = FxHashMap::default();
        for job in self.jobs.values() {
            for (_, worker) in job.outstanding() {
                *counted.entry(worker).or_insert(0_u32) += 1;
            }
        }
        let total: u64 = counted.values().map(|count| u64::from(*count)).sum();
        if total != self.ledger.outstanding() {
            return Err(format!(
                "{total} activations outstanding, the ledger has {}",
                self.ledger.outstanding()
            ));
        }
        match counted
            .iter()
            .find(|(worker, count)| self.ledger.load(**worker).outstanding != **count)
        {
            Some((worker, count)) => Err(format!(
                "{worker} has {count} activations, the ledger says otherwise"
            )),
            None => Ok(()),
        }
    }

    fn check_jobs(&self) -> Result<(), String> {
        for job in self.jobs.values() {
            if let Some((node, worker)) = job
                .outstanding()
                .find(|(_, worker)| !self.fleet.is_alive(*worker))
            {
                return Err(format!(
                    "job {}: node {node} is bound to {worker}, which is dead",
                    job.id
                ));
            }
            let wanted = job
                .slots
                .iter()
                .filter(|(_, _, slot)| slot.stand == Stand::Wanted);
            let (wanted, pending) = (wanted.count(), job.pending.len());
            if wanted != pending && !job.outcome.is_ended() {
                return Err(format!(
                    "job {}: {wanted} binds are wanted, {pending} are to be placed",
                    job.id
                ));
            }
            let reporting = job
                .slots
                .iter()
                .filter(|(_, _, slot)| slot.is_about_to_report());
            let reporting = reporting.count();
            if reporting != job.reporting as usize && !job.outcome.is_ended() {
                return Err(format!(
                    "job {}: {reporting} binds are about to report, {} are counted",
                    job.id, job.reporting
                ));
            }
            let sound = match &job.outcome {
                Outcome::Waiting(_) => pending > 0,
                Outcome::Running => pending == 0 && job.open_results.contains(&true),
                Outcome::Settling => !job.open_results.contains(&true),
                Outcome::Succeeded | Outcome::Failed(_) => {
                    job.owner.is_none() && job.more_owners.is_empty() && job.watchers.is_empty()
                }
            };
            if !sound {
                return Err(format!(
                    "job {}: {:?} does not fit its nodes",
                    job.id, job.outcome
                ));
            }
            let unknown = |slot: &Slot| {
                let held = slot.stand == Stand::Held && !job.outcome.is_ended();
                held && job.known.binary_search(&slot.worker).is_err()
            };
            if let Some((node, key, _)) = job.slots.iter().find(|(_, _, slot)| unknown(slot)) {
                return Err(format!(
                    "job {}: the worker of node {node}, key {key}, does not know of it",
                    job.id
                ));
            }
            if job.attempts.len() > KEPT_ATTEMPTS + job.slots.once().len() * 8 {
                return Err(format!("job {}: its report has no bound", job.id));
            }
        }
        Ok(())
    }

    fn check_indices(&self) -> Result<(), String> {
        let live = self
            .jobs
            .values()
            .filter(|job| !job.outcome.is_ended())
            .count();
        if live != self.live || self.ended.len() + live != self.jobs.len() {
            return Err(format!(
                "{live} jobs live, {} counted, {} kept",
                self.live,
                self.ended.len()
            ));
        }
        let timed = self
            .jobs
            .values()
            .filter(|job| self.timers.contains(&(job.timer, job.id)))
            .count();
        if timed != self.jobs.len() || self.timers.len() != timed {
            return Err(format!(
                "{} timers for {} jobs",
                self.timers.len(),
                self.jobs.len()
            ));
        }
        let waiting = self
            .jobs
            .values()
            .filter(|job| matches!(job.outcome, Outcome::Waiting(_)))
            .count();
        if waiting
            != self
                .waiting
                .values()
                .map(|queue| queue.len())
                .sum::<usize>()
        {
            return Err(format!(
                "{waiting} jobs wait, the queues hold another number"
            ));
        }
        match self
            .by_key
            .values()
            .find(|job| !self.jobs.contains_key(job))
        {
            Some(job) => Err(format!(
                "an idempotency key names job {job}, which is forgotten"
            )),
            None => Ok(()),
        }
    }
}
