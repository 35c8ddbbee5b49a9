//! The table's invariants, for tests and for idle moments.

use rustc_hash::FxHashMap;

use crate::event::NodeState;
use crate::job::Outcome;
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
            let unplaced = (0..job.slots.len()).any(|node| job.state(node).is_none());
            let sound = match &job.outcome {
                Outcome::Waiting(_) => unplaced,
                Outcome::Running => !unplaced && job.open_results.contains(&true),
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
            let lost = job
                .attempts
                .iter()
                .filter(|attempt| attempt.state == NodeState::Lost);
            if lost.count() + job.slots.len()
                < job.slots.iter().filter(|slot| slot.epoch > 0).count()
            {
                return Err(format!("job {}: more epochs than attempts", job.id));
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
