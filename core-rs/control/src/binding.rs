//! Why a node went to a worker.

use omniflow_placement::{Request, RoleId, WorkerId};

use crate::effect::{Bind, Effect};
use crate::event::NodeState;
use crate::ids::{JobId, Micros};
use crate::job::{Job, Outcome};
use crate::report::Attempt;
use crate::table::Control;

/// Predicted work of a node until there are predictors: all alike.
pub(crate) const WORK: f64 = 1.0;

impl Control {
    /// Places every node of the job that has no place. Either all of them find a worker, or the job waits for the first
    /// role that has none: a bind always names every consumer, so that producers know where to send.
    pub(crate) fn place(&mut self, id: JobId, now: Micros, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let plan = &self.plans[job.flow.0 as usize];
        let unplaced: Vec<usize> = (0..job.slots.len())
            .filter(|node| job.slots[*node].attempt.is_none())
            .collect();
        let waits = job.held && self.holding;
        let mut roles = unplaced.iter().map(|node| plan.nodes[*node].role);
        if let Some(role) = roles.find(|role| waits || !self.ledger.has_candidate(*role)) {
            job.outcome = Outcome::Waiting(role);
            self.waiting
                .entry(role)
                .or_default()
                .insert((job.order as i64, id));
            return;
        }
        job.outcome = Outcome::Running;
        for node in &unplaced {
            let request = Request {
                job: id.0,
                node: *node as u32,
                role: plan.nodes[*node].role,
                work: WORK,
                features: &[],
            };
            let Some(worker) = self.policy.choose(&request, &self.ledger) else {
                continue;
            };
            let Some(view) = self.fleet.get(worker) else {
                continue;
            };
            let name = view.name.clone();
            self.ledger.dispatch(worker, WORK);
            self.policy.dispatched(&request, worker);
            job.bind(*node, worker, name, now);
        }
        let workers = job.workers(|worker| self.fleet.is_alive(worker));
        let binds: Vec<Bind> = job.binds().collect();
        effects.push(Effect::Bind {
            job: id,
            workers,
            binds: binds.into(),
        });
    }

    /// The role has a worker again: those that waited for it are placed, in their order.
    pub(crate) fn place_waiting(&mut self, role: RoleId, now: Micros, effects: &mut Vec<Effect>) {
        for (_, id) in self.waiting.remove(&role).unwrap_or_default() {
            self.place(id, now, effects);
        }
    }

    /// The job no longer waits for a role.
    pub(crate) fn stop_waiting(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let Outcome::Waiting(role) = job.outcome else {
            return;
        };
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
    }
}

impl Job {
    fn bind(
        &mut self,
        node: usize,
        worker: WorkerId,
        worker_name: std::sync::Arc<str>,
        now: Micros,
    ) {
        let slot = &mut self.slots[node];
        slot.epoch += 1;
        slot.attempt = Some(self.attempts.len() as u32);
        let epoch = slot.epoch;
        self.attempts.push(Attempt {
            node: node as u32,
            key: omniflow_flow::Key::ROOT,
            worker,
            worker_name,
            epoch,
            state: NodeState::Bound,
            bound_us: now.since(self.arrived),
            queued_us: 0,
            started_us: 0,
            first_frame_us: 0,
            ended_us: 0,
            features: Vec::new(),
        });
    }

    /// Workers with a node of the job, each once.
    pub(crate) fn workers(&self, wanted: impl Fn(WorkerId) -> bool) -> Vec<WorkerId> {
        let mut workers = Vec::with_capacity(self.slots.len());
        for attempt in &self.attempts {
            if !workers.contains(&attempt.worker) && wanted(attempt.worker) {
                workers.push(attempt.worker);
            }
        }
        workers
    }
}
