//! Restored jobs that go on where they were: their workers live, and hold what they had (rule 14).

use std::collections::BTreeMap;

use omniflow_placement::{Request, WorkerId};

use crate::binding::WORK;
use crate::effect::Effect;
use crate::event::{HeldBind, NodeState};
use crate::ids::{JobId, Micros};
use crate::job::{Job, Outcome};
use crate::plan::{Plan, PlannedNode};
use crate::recovery::Death;
use crate::report::Attempt;
use crate::rerun::At;
use crate::slot::{Slot, Stand};
use crate::table::Control;
use crate::telling::Placed;

impl Control {
    /// Takes the binds over as they are, tells everybody of them under the new term, and recovers what nobody holds.
    pub(crate) fn adopt(
        &mut self,
        id: JobId,
        held: Vec<HeldBind>,
        workers: &[WorkerId],
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        let waits = |job: &Job| job.held && !job.outcome.is_ended();
        if !self.jobs.get(&id).is_some_and(|job| waits(job)) {
            return;
        }
        self.stop_waiting(id);
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        job.held = false;
        if matches!(job.outcome, Outcome::Settling) {
            return;
        }
        let plan = &self.plans[job.flow.0 as usize];
        job.forget_places(plan);
        let mut placed = Vec::new();
        for ((node, key), bind) in newest(plan, held) {
            let (planned, worker) = (&plan.nodes[node], bind.worker);
            let (Some(role), Some(view)) = (planned.role, self.fleet.get(worker)) else {
                continue;
            };
            let slot = job.adopt(planned, &bind, view.name.clone());
            if slot.stand == Stand::Held {
                let request = Request {
                    job: id.0,
                    node: bind.node,
                    role,
                    work: WORK,
                    features: &[],
                };
                self.ledger.dispatch(worker, WORK);
                self.policy.dispatched(&request, worker);
            }
            let before = None;
            placed.push(Placed { node, key, before });
        }
        let reporting = job
            .slots
            .iter()
            .filter(|(_, _, slot)| slot.is_about_to_report());
        job.reporting = reporting.count() as u32;
        effects.extend(job.tell(plan, &placed, |worker| self.fleet.is_alive(worker)));
        let others = workers
            .iter()
            .copied()
            .filter(|worker| self.fleet.is_alive(*worker));
        effects.extend(job.tell_keepers(others, |worker| self.fleet.is_alive(worker)));
        job.adopted = true;
        let death = Death {
            name: "of an earlier life",
            cause: "it was not there any more when the scheduler was restarted",
        };
        self.recover(id, &death, now, effects);
    }
}

/// Binds that can be, each once: of several that claim it, the latest attempt.
fn newest(plan: &Plan, held: Vec<HeldBind>) -> BTreeMap<At, HeldBind> {
    let mut newest: BTreeMap<At, HeldBind> = BTreeMap::new();
    for bind in held {
        let node = bind.node as usize;
        let fits =
            |planned: &PlannedNode| planned.role.is_some() && planned.depth == bind.key.depth();
        if !plan.nodes.get(node).is_some_and(fits) {
            continue;
        }
        let at = (node, bind.key.clone());
        if newest.get(&at).is_none_or(|known| known.epoch < bind.epoch) {
            newest.insert(at, bind);
        }
    }
    newest
}

impl Job {
    /// Whatever is bound at admission had been given to somebody, and may have sent something: whoever it was is dead unless
    /// it says that it lives.
    fn forget_places(&mut self, plan: &Plan) {
        self.pending.clear();
        for node in &plan.at_once {
            let mut slot = Slot::new(self.floor, Stand::Over);
            slot.state = NodeState::Done;
            slot.sent = true;
            self.slots
                .put(*node as usize, &omniflow_flow::Key::ROOT, slot);
        }
    }

    fn adopt(
        &mut self,
        planned: &PlannedNode,
        bind: &HeldBind,
        worker_name: std::sync::Arc<str>,
    ) -> Slot {
        let node = bind.node as usize;
        // Between two rounds of a loop it waits, as before the first.
        let over = bind.state >= NodeState::Done && !planned.in_loop;
        let mut slot = Slot::new(bind.epoch, if over { Stand::Over } else { Stand::Held });
        slot.worker = bind.worker;
        slot.sent = bind.state >= NodeState::FirstFrame || planned.in_loop;
        slot.state = match planned.in_loop && bind.state >= NodeState::Done {
            true => NodeState::Bound,
            false => bind.state,
        };
        if !planned.in_loop {
            let key = bind.key.clone();
            let attempt = Attempt {
                state: bind.state,
                ..Attempt::new(node, key, bind.worker, worker_name, bind.epoch, 0)
            };
            slot.set_entry(self.list(attempt, bind.key.is_root()));
        }
        self.highest = self.highest.max(bind.epoch);
        self.slots.put(node, &bind.key, slot);
        slot
    }
}
