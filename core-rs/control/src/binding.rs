//! Why a node went to a worker.

use omniflow_flow::Key;
use omniflow_placement::{Ledger, Policy, Request, RoleId, WorkerId};

use crate::effect::Effect;
use crate::event::NodeState;
use crate::fleet::Fleet;
use crate::ids::{JobId, Micros};
use crate::job::{Job, Outcome};
use crate::plan::{Plan, PlannedNode};
use crate::report::Attempt;
use crate::slot::{Slot, Stand};
use crate::table::Control;
use crate::telling::Placed;

/// Predicted work of a node until there are predictors: all alike.
pub(crate) const WORK: f64 = 1.0;

impl Control {
    /// Places everything of the job that is to be placed. Either all of it finds a worker, or the job waits for the first
    /// role that has none.
    pub(crate) fn place(&mut self, id: JobId, now: Micros, effects: &mut Vec<Effect>) {
        self.stop_waiting(id);
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let plan = &self.plans[job.flow.0 as usize];
        let waits = job.held && self.holding || !job.letting_go.is_empty() || !job.asked.is_empty();
        let roles = job.pending.iter();
        let mut roles = roles.filter_map(|(node, _)| plan.nodes[*node as usize].role);
        if let Some(role) = roles.find(|role| waits || !self.ledger.has_candidate(*role)) {
            job.outcome = Outcome::Waiting(role);
            self.waiting
                .entry(role)
                .or_default()
                .insert((job.order as i64, id));
            return;
        }
        job.outcome = Outcome::Running;
        let pending = std::mem::take(&mut job.pending);
        let mut placed = Vec::with_capacity(pending.len());
        for (node, key) in pending {
            let planned = &plan.nodes[node as usize];
            let Some(role) = planned.role else {
                continue;
            };
            let request = Request {
                job: id.0,
                node,
                role,
                work: WORK,
                features: &[],
            };
            let near = near(job, plan, planned, &key, &self.ledger, &self.fleet);
            let moves = job.slots.get(node as usize, &key).map(|slot| slot.moves);
            let policy: &mut dyn Policy = &mut *self.policy;
            // What moves does so for the sake of load.
            let best = moves.filter(|moves| *moves > 0);
            let best = best.and_then(|_| self.ledger.least_outstanding(role));
            let chosen = near
                .or(best)
                .or_else(|| policy.choose(&request, &self.ledger));
            let known = chosen.and_then(|worker| Some((worker, self.fleet.get(worker)?)));
            let Some((worker, view)) = known else {
                continue;
            };
            let name = view.name.clone();
            self.ledger.dispatch(worker, WORK);
            self.policy.dispatched(&request, worker);
            placed.push(job.bind(planned, node as usize, key, (worker, name), now));
        }
        let told = job.tell(plan, &placed, |worker| self.fleet.is_alive(worker));
        effects.extend(told);
    }

    /// The role has a worker again: those that waited for it are placed, in their order.
    pub(crate) fn place_waiting(&mut self, role: RoleId, now: Micros, effects: &mut Vec<Effect>) {
        for (_, id) in self.waiting.get(&role).cloned().unwrap_or_default() {
            self.place(id, now, effects);
        }
    }

    /// The job no longer waits for a role.
    pub(crate) fn stop_waiting(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let Outcome::Waiting(role) = job.outcome else {
            return;
        };
        job.outcome = Outcome::Running;
        if let Some(queue) = self.waiting.get_mut(&role) {
            queue.remove(&(job.order as i64, id));
            if queue.is_empty() {
                self.waiting.remove(&role);
            }
        }
    }

    /// An activation that counted at the worker counts no longer.
    pub(crate) fn unload(&mut self, role: RoleId, worker: WorkerId) {
        self.ledger.end(worker, WORK);
        self.policy.ended(role, worker, WORK);
        self.uneven.note(role, &self.ledger);
    }
}

/// The worker that has what the node wants to be near; else the least loaded one on its host.
fn near(
    job: &Job,
    plan: &Plan,
    planned: &PlannedNode,
    key: &Key,
    ledger: &Ledger,
    fleet: &Fleet,
) -> Option<WorkerId> {
    let role = planned.role?;
    planned.near.iter().find_map(|wanted| {
        let depth = plan.nodes.get(*wanted as usize)?.depth;
        let slot = job.slots.get(*wanted as usize, &key.prefix(depth))?;
        if !slot.is_placed() {
            return None;
        }
        if ledger.is_candidate(role, slot.worker) {
            return Some(slot.worker);
        }
        let neighbours = fleet.neighbours(slot.worker);
        let candidates = neighbours.filter(|worker| ledger.is_candidate(role, *worker));
        candidates.min_by_key(|worker| (ledger.load(*worker).outstanding, *worker))
    })
}

impl Job {
    /// Gives the bind to a worker. What becomes of a loop's rounds comes into the report when they begin.
    fn bind(
        &mut self,
        planned: &PlannedNode,
        node: usize,
        key: Key,
        (worker, worker_name): (WorkerId, std::sync::Arc<str>),
        now: Micros,
    ) -> Placed {
        let mut slot = match self.slots.get(node, &key) {
            Some(slot) => *slot,
            None => Slot::new(self.floor, Stand::Wanted),
        };
        // One that was adopted has an epoch of an earlier life.
        slot.epoch = slot.epoch.max(self.floor) + 1;
        let before = (slot.worker != WorkerId(0)).then_some(slot.worker);
        self.highest = self.highest.max(slot.epoch);
        slot.worker = worker;
        slot.stand = Stand::Held;
        slot.state = NodeState::Bound;
        // One that has moved before it started is the same attempt, elsewhere.
        let moved = slot.entry().and_then(|entry| self.attempts.get_mut(entry));
        let moved = moved.filter(|listed| slot.moves > 0 && !listed.is_over());
        if !planned.in_loop {
            let bound_us = now.since(self.arrived);
            let attempt =
                Attempt::new(node, key.clone(), worker, worker_name, slot.epoch, bound_us);
            match moved {
                Some(listed) => *listed = attempt,
                None => slot.set_entry(self.list(attempt, key.is_root())),
            }
        } else {
            slot.set_entry(None);
        }
        self.slots.put(node, &key, slot);
        Placed { node, key, before }
    }
}
