//! What reports of activations and results change.

use std::sync::Arc;

use omniflow_flow::{EdgeId, Origin};

use crate::effect::Effect;
use crate::event::{NodeState, NodeUpdate};
use crate::fault::Fault;
use crate::ids::{JobId, Micros};
use crate::job::{Job, Outcome};
use crate::table::Control;

impl Control {
    pub(crate) fn node_update(
        &mut self,
        mut update: NodeUpdate,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        let Some(job) = self.jobs.get_mut(&update.job) else {
            return;
        };
        let (node, arrived, ended) = (update.node as usize, job.arrived, job.outcome.is_ended());
        let Some(attempt) = job.current_mut(node) else {
            return;
        };
        let stale = ended || attempt.worker != update.worker || attempt.epoch != update.epoch;
        if stale || !attempt.advance(&mut update, arrived) {
            return;
        }
        let (state, worker, name) = (update.state, attempt.worker, attempt.worker_name.clone());
        let index = job.slots[node].attempt.unwrap_or_default() as usize;
        let (role, flow) = (self.plans[job.flow.0 as usize].nodes[node].role, job.flow);
        effects.push(Effect::Progress {
            job: update.job,
            attempt: index,
            state,
        });
        match state {
            NodeState::Done => {
                self.unload(role, worker);
                if let Some(view) = self.fleet.get_mut(worker) {
                    view.completed += 1;
                }
                self.settle(update.job, now, effects);
            }
            NodeState::Failed => {
                self.unload(role, worker);
                let fault =
                    Fault::role_failed(update.fault, self.plans[flow.0 as usize].name(node), &name);
                self.fail(update.job, fault, now, effects);
            }
            _ => {}
        }
    }

    pub(crate) fn result_frame(&mut self, id: JobId, now: Micros) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.outcome.is_ended()) else {
            return;
        };
        job.first_frame.get_or_insert(now);
        job.last_result = now;
    }

    pub(crate) fn result_over(
        &mut self,
        id: JobId,
        port: u32,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.outcome.is_ended()) else {
            return;
        };
        let Some(open) = job.open_results.get_mut(port as usize) else {
            return;
        };
        if !std::mem::replace(open, false) || job.open_results.contains(&true) {
            return;
        }
        self.stop_waiting(id);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.outcome = Outcome::Settling;
        }
        let settled = now.plus_ms(self.limits.settle_ms);
        self.set_timer(id, settled);
        self.settle(id, now, effects);
    }

    /// Ends a job whose results are complete, once its activations have said that they are done: a role sends its last
    /// frame a moment before it reports its work features, and a release in between would cancel it.
    fn settle(&mut self, id: JobId, now: Micros, effects: &mut Vec<Effect>) {
        let settled = |job: &Job| matches!(job.outcome, Outcome::Settling) && !about_to_report(job);
        if self.jobs.get(&id).is_some_and(|job| settled(job)) {
            self.succeed(id, now, effects);
        }
    }

    pub(crate) fn contradiction(
        &mut self,
        id: JobId,
        edge: u32,
        seq: u64,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let plan = &self.plans[job.flow.0 as usize];
        let Some(Origin::Node { node, .. }) = plan.graph.edge(EdgeId(edge)).map(|edge| edge.from)
        else {
            return;
        };
        let worker = job
            .current(node.index())
            .map_or("", |attempt| &attempt.worker_name);
        let fault = Fault::not_replayable(plan.name(node.index()), worker, seq);
        self.fail(id, Arc::new(fault), now, effects);
    }
}

/// Whether an activation has its inputs and has not ended. (One that is still bound may never run: its path may be
/// dead.)
fn about_to_report(job: &Job) -> bool {
    let running = NodeState::Queued..NodeState::Done;
    (0..job.slots.len()).any(|node| {
        job.state(node)
            .is_some_and(|state| running.contains(&state))
    })
}
