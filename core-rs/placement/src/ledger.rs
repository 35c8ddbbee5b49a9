//! What each worker has been given and has not ended, and who may be given more.

use std::collections::BTreeSet;
use std::ops::Bound;

use rustc_hash::FxHashMap;

use crate::{RoleId, WorkerId};

/// What one worker has been given and has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Activations.
    pub outstanding: u32,
    /// Their predicted work, in seconds of a worker.
    pub work: f64,
}

#[derive(Debug)]
struct Seat {
    roles: Box<[RoleId]>,
    load: Load,
    /// When it was last given something, in dispatches; breaks ties so that idle workers take turns.
    stamp: u64,
    offered: bool,
}

impl Seat {
    fn rank(&self, worker: WorkerId) -> Rank {
        (self.load.outstanding, self.stamp, worker)
    }
}

type Rank = (u32, u64, WorkerId);

#[derive(Debug, Default)]
struct Candidates {
    by_load: BTreeSet<Rank>,
    by_id: BTreeSet<WorkerId>,
}

/// An invariant of the ledger that does not hold: a defect of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ledger: {0}")]
pub struct Broken(pub String);

/// Loads of all workers, and the candidates of each role in order of load. Every operation costs the logarithm of the
/// number of workers of the roles it touches.
#[derive(Debug, Default)]
pub struct Ledger {
    seats: FxHashMap<WorkerId, Seat>,
    roles: FxHashMap<RoleId, Candidates>,
    dispatches: u64,
    outstanding: u64,
}

impl Ledger {
    /// A ledger without workers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The worker may be given nodes of these roles. A worker that is known already keeps its load.
    pub fn join(&mut self, worker: WorkerId, roles: &[RoleId]) {
        self.withdraw(worker);
        let seat = self.seats.entry(worker).or_insert_with(|| Seat {
            roles: Box::default(),
            load: Load::default(),
            stamp: 0,
            offered: false,
        });
        seat.roles = roles.into();
        seat.offered = true;
        let rank = seat.rank(worker);
        for role in roles {
            let candidates = self.roles.entry(*role).or_default();
            candidates.by_load.insert(rank);
            candidates.by_id.insert(worker);
        }
    }

    /// The worker is given nothing new; what it has been given still counts.
    pub fn withdraw(&mut self, worker: WorkerId) {
        let Some(seat) = self.seats.get_mut(&worker) else {
            return;
        };
        if !std::mem::replace(&mut seat.offered, false) {
            return;
        }
        let rank = seat.rank(worker);
        for role in &seat.roles {
            if let Some(candidates) = self.roles.get_mut(role) {
                candidates.by_load.remove(&rank);
                candidates.by_id.remove(&worker);
            }
        }
    }

    /// The worker is gone; what it had been given no longer counts. Returns that.
    pub fn leave(&mut self, worker: WorkerId) -> Load {
        self.withdraw(worker);
        let Some(seat) = self.seats.remove(&worker) else {
            return Load::default();
        };
        self.outstanding -= u64::from(seat.load.outstanding);
        seat.load
    }

    /// One activation was given to the worker.
    pub fn dispatch(&mut self, worker: WorkerId, work: f64) {
        self.dispatches += 1;
        let stamp = self.dispatches;
        let counted = self.change(worker, |seat| {
            seat.load.outstanding += 1;
            seat.load.work += work;
            seat.stamp = stamp;
            true
        });
        self.outstanding += u64::from(counted);
    }

    /// One activation that was given to the worker is over. Nothing happens when the worker is gone.
    pub fn end(&mut self, worker: WorkerId, work: f64) {
        let counted = self.change(worker, |seat| {
            if seat.load.outstanding == 0 {
                return false;
            }
            seat.load.outstanding -= 1;
            // Sums of floats drift; an idle worker has no work by definition.
            seat.load.work = if seat.load.outstanding == 0 {
                0.0
            } else {
                (seat.load.work - work).max(0.0)
            };
            true
        });
        self.outstanding -= u64::from(counted);
    }

    fn change(&mut self, worker: WorkerId, change: impl FnOnce(&mut Seat) -> bool) -> bool {
        let Some(seat) = self.seats.get_mut(&worker) else {
            return false;
        };
        let before = seat.rank(worker);
        let counted = change(seat);
        let after = seat.rank(worker);
        if seat.offered && before != after {
            for role in &seat.roles {
                if let Some(candidates) = self.roles.get_mut(role) {
                    candidates.by_load.remove(&before);
                    candidates.by_load.insert(after);
                }
            }
        }
        counted
    }

    /// What the worker has been given and has not ended; nothing when it is unknown.
    pub fn load(&self, worker: WorkerId) -> Load {
        self.seats
            .get(&worker)
            .map_or_else(Load::default, |seat| seat.load)
    }

    /// Activations outstanding at all workers.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Workers that may be given nodes of the role, by number.
    pub fn candidates(&self, role: RoleId) -> impl Iterator<Item = WorkerId> {
        self.roles
            .get(&role)
            .into_iter()
            .flat_map(|candidates| candidates.by_id.iter().copied())
    }

    /// Whether anyone may be given a node of the role.
    pub fn has_candidate(&self, role: RoleId) -> bool {
        self.roles
            .get(&role)
            .is_some_and(|candidates| !candidates.by_id.is_empty())
    }

    /// Whether this worker may be given nodes of the role.
    pub fn is_candidate(&self, role: RoleId, worker: WorkerId) -> bool {
        self.roles
            .get(&role)
            .is_some_and(|candidates| candidates.by_id.contains(&worker))
    }

    /// The candidate with the fewest outstanding activations; of equals, the one that was given something longest ago.
    pub fn least_outstanding(&self, role: RoleId) -> Option<WorkerId> {
        self.roles
            .get(&role)?
            .by_load
            .first()
            .map(|(_, _, worker)| *worker)
    }

    /// The fewest and the most activations that one candidate has outstanding.
    pub fn spread(&self, role: RoleId) -> Option<(u32, u32)> {
        let by_load = &self.roles.get(&role)?.by_load;
        let (least, _, _) = by_load.first()?;
        let (most, _, _) = by_load.last()?;
        Some((*least, *most))
    }

    /// The next candidate by number after `last`, around the end.
    pub fn candidate_after(&self, role: RoleId, last: Option<WorkerId>) -> Option<WorkerId> {
        let by_id = &self.roles.get(&role)?.by_id;
        let next = last.and_then(|last| {
            by_id
                .range((Bound::Excluded(last), Bound::Unbounded))
                .next()
        });
        next.or_else(|| by_id.first()).copied()
    }

    /// Checks that the indices agree with the seats.
    pub fn check(&self) -> Result<(), Broken> {
        let total: u64 = self
            .seats
            .values()
            .map(|seat| u64::from(seat.load.outstanding))
            .sum();
        if total != self.outstanding {
            return Err(Broken(format!(
                "{total} outstanding by worker, {} in total",
                self.outstanding
            )));
        }
        for (worker, seat) in &self.seats {
            for role in &seat.roles {
                let listed = self.roles.get(role).is_some_and(|candidates| {
                    candidates.by_id.contains(worker)
                        && candidates.by_load.contains(&seat.rank(*worker))
                });
                if listed != seat.offered {
                    return Err(Broken(format!(
                        "{worker} offered={} but listed={listed} for {role}",
                        seat.offered
                    )));
                }
            }
        }
        for (role, candidates) in &self.roles {
            if candidates.by_id.len() != candidates.by_load.len() {
                return Err(Broken(format!(
                    "{role} has candidates without a load, or loads without a candidate"
                )));
            }
            if let Some(gone) = candidates
                .by_id
                .iter()
                .find(|worker| !self.seats.contains_key(worker))
            {
                return Err(Broken(format!("{role} offers {gone}, which is gone")));
            }
        }
        Ok(())
    }
}
