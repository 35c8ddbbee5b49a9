//! What reports of activations and results change.

use std::sync::Arc;

use omniflow_flow::{EdgeId, Key, Origin};
use omniflow_placement::WorkerId;

use crate::effect::Effect;
use crate::event::{NodeState, NodeUpdate};
use crate::fault::{Code, Fault};
use crate::ids::{JobId, Micros};
use crate::job::{Job, Outcome};
use crate::plan::{Plan, PlannedNode};
use crate::report::Attempt;
use crate::slot::{Slot, Stand};
use crate::table::Control;

/// How far one looks back for the entry of a round: others may have begun since, but not many.
const LOOK_BACK: usize = 64;

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
        if job.outcome.is_ended() {
            return job.late_update(&mut update);
        }
        let plan = &self.plans[job.flow.0 as usize];
        let (node, flow) = (update.node as usize, job.flow);
        let Some(planned) = plan.nodes.get(node) else {
            return;
        };
        let bind = plan.bind_key(node, &update.key);
        let Some(role) = planned.role.filter(|_| bind.depth() == planned.depth) else {
            return self.failed_at_its_side(update, now, effects);
        };
        let (worker, epoch) = (update.worker, update.epoch);
        let current = job.slots.get(node, &bind);
        if update.cannot_read_again() && current.is_some_and(|slot| slot.epoch == epoch) {
            return self.cannot_read_again(update, now, effects);
        }
        if !current.is_some_and(|slot| slot.is_at(worker) && slot.epoch == epoch) {
            return;
        }
        let entry = match planned.in_loop {
            true => {
                let name = self.fleet.get(worker).map(|view| view.name.clone());
                job.round(node, &bind, &update, name.unwrap_or_default())
            }
            false => current.and_then(|slot| slot.entry()),
        };
        let arrived = job.arrived;
        if let Some(attempt) = entry
            && let Some(listed) = job.attempts.get_mut(attempt)
        {
            if !listed.advance(&mut update, arrived) {
                return;
            }
            effects.push(Effect::Progress {
                job: update.job,
                attempt,
                state: update.state,
            });
        }
        let Some(over) = job.advance(planned, node, &bind, update.state) else {
            return;
        };
        let limited = update.state == NodeState::Queued && planned.deadline_share > 0.0;
        let share_over = limited.then(|| job.share_over(update.at, planned.deadline_share));
        if over && !bind.is_root() && job.is_over(plan, planned, &bind) {
            job.forget_bind(node, &bind);
        }
        if over {
            self.unload(role, worker);
        }
        match update.state {
            NodeState::Done => {
                if let Some(view) = self.fleet.get_mut(worker) {
                    view.completed += 1;
                }
                self.settle(update.job, now, effects);
            }
            NodeState::Lost | NodeState::Stopped => self.settle(update.job, now, effects),
            NodeState::Queued => self.wake_by(update.job, share_over),
            NodeState::Failed => {
                let plan = &self.plans[flow.0 as usize];
                let fault =
                    Fault::role_failed(update.fault, plan.name(node), &self.worker_name(worker));
                self.fail(update.job, fault, now, effects);
            }
            _ => {}
        }
    }

    /// A control node has failed, or what is for all keys of a node is wrong. It is stale unless it comes from where the
    /// node's home is bound.
    fn failed_at_its_side(&mut self, update: NodeUpdate, now: Micros, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get(&update.job) else {
            return;
        };
        let plan = &self.plans[job.flow.0 as usize];
        let node = update.node as usize;
        let Some(home) = plan
            .home(node)
            .filter(|_| update.state == NodeState::Failed)
        else {
            return;
        };
        let bind = plan.bind_key(home, &update.key);
        let is_there = |(_, slot): (&Key, &Slot)| slot.is_at(update.worker);
        if !job.slots.under(home, &bind).any(is_there) {
            return;
        }
        let name = self.worker_name(update.worker);
        let fault = Fault::role_failed(update.fault, plan.name(node), &name);
        self.fail(update.job, fault, now, effects);
    }

    /// The name of a living worker.
    fn worker_name(&self, worker: WorkerId) -> Arc<str> {
        let view = self.fleet.get(worker);
        view.map_or_else(Arc::default, |view| view.name.clone())
    }

    /// The name of the worker that has a bind, or had it last.
    pub(crate) fn holder(&self, job: &Job, slot: &Slot) -> Arc<str> {
        let listed = slot.entry().and_then(|entry| job.attempts.get(entry));
        match listed {
            Some(attempt) => attempt.worker_name.clone(),
            None => self.worker_name(slot.worker),
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
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let plan = &self.plans[job.flow.0 as usize];
        let settled = matches!(job.outcome, Outcome::Settling)
            && job.reporting == 0
            && !job.may_have_run_unheard(plan);
        if settled {
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
        let worker = plan
            .home(node.index())
            .and_then(|home| job.slots.under(home, &Key::ROOT).next())
            .map_or_else(Arc::default, |(_, slot)| self.holder(job, slot));
        let fault = Fault::not_replayable(plan.name(node.index()), &worker, seq);
        self.fail(id, Arc::new(fault), now, effects);
    }
}

impl NodeUpdate {
    fn cannot_read_again(&self) -> bool {
        let fault = self
            .fault
            .as_ref()
            .filter(|_| self.state == NodeState::Failed);
        fault.is_some_and(|fault| fault.code == Code::NotReplayable)
    }
}

impl Job {
    /// The entry of a round in the report; a new one when it begins. None: there is no room for it.
    fn round(
        &mut self,
        node: usize,
        bind: &Key,
        update: &NodeUpdate,
        worker_name: Arc<str>,
    ) -> Option<usize> {
        let is_it = |attempt: &Attempt| {
            attempt.node == update.node
                && attempt.epoch == update.epoch
                && attempt.key == update.key
        };
        let latest = self.slots.get(node, bind).and_then(|slot| slot.entry());
        let same = |entry: &usize| self.attempts.get(*entry).is_some_and(is_it);
        if let Some(entry) = latest.filter(same) {
            return Some(entry);
        }
        let oldest = self.attempts.len().saturating_sub(LOOK_BACK);
        let recent = self.attempts[oldest..].iter().rposition(is_it);
        if recent.is_some() || update.state >= NodeState::Done {
            return recent.map(|place| oldest + place);
        }
        let bound_us = update.at.since(self.arrived).max(1);
        let key = update.key.clone();
        let attempt = Attempt::new(
            node,
            key,
            update.worker,
            worker_name,
            update.epoch,
            bound_us,
        );
        // One that has no room reports more than once, and is counted once.
        if update.state != NodeState::Queued && self.is_full() {
            return None;
        }
        let entry = self.list(attempt, false);
        self.slots.get_mut(node, bind)?.set_entry(entry);
        entry
    }

    /// Whether a worker may have run something of which it has said nothing yet: its word comes on a link of its own, and
    /// can be later than the results that it led to. (What is closed says so; in a loop nobody waits for another round.)
    fn may_have_run_unheard(&self, plan: &Plan) -> bool {
        let once = self.slots.once().iter().zip(&plan.nodes);
        let mut unheard = once.map(|(slot, planned)| {
            slot.stand == Stand::Held && slot.state == NodeState::Bound && !planned.in_loop
        });
        unheard.any(|unheard| unheard)
    }

    /// A job ends with its last result, and its workers report on links of their own: what comes later changes nothing
    /// any more, but belongs into the report for whoever looks at it then.
    fn late_update(&mut self, update: &mut NodeUpdate) {
        let arrived = self.arrived;
        let oldest = self.attempts.len().saturating_sub(LOOK_BACK);
        let attempt = self.attempts[oldest..].iter_mut().find(|attempt| {
            attempt.node == update.node
                && attempt.epoch == update.epoch
                && attempt.worker == update.worker
                && attempt.key == update.key
        });
        if let Some(attempt) = attempt {
            attempt.advance(update, arrived);
        }
    }

    /// Takes over how far an activation is. Whether its bind counts no longer by that; none: that was known.
    fn advance(
        &mut self,
        planned: &PlannedNode,
        node: usize,
        bind: &Key,
        state: NodeState,
    ) -> Option<bool> {
        self.alter(node, bind, |slot| {
            let ends = state >= NodeState::Done;
            // One that was closed has never had its inputs, and all of its outputs say so.
            let ran = (NodeState::Queued..NodeState::Done).contains(&slot.state);
            slot.cut = ran && state == NodeState::Stopped || slot.cut && ends;
            if planned.in_loop {
                // Between two rounds it waits, as before the first.
                let next = if ends { NodeState::Bound } else { state };
                slot.state = next;
            } else if state > slot.state {
                slot.state = state;
            } else if slot.state >= NodeState::Done || slot.entry().is_none() {
                return None;
            }
            slot.sent |= matches!(state, NodeState::FirstFrame | NodeState::Done);
            let over = ends && slot.stand == Stand::Held;
            let over = over && (!planned.in_loop || state == NodeState::Failed);
            if over {
                slot.stand = Stand::Over;
            }
            Some(over)
        })
        .flatten()
    }
}
