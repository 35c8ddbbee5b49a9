//! Binds that are asked for while a job runs (rule 15), and nodes that are closed before anybody asks for them (rule 7).

use omniflow_flow::Key;

use crate::effect::Effect;
use crate::ids::{JobId, Micros};
use crate::job::{Job, Outcome};
use crate::plan::Plan;
use crate::slot::{Slot, Stand};
use crate::table::Control;

impl Control {
    pub(crate) fn wanted(
        &mut self,
        id: JobId,
        wanted: Vec<(u32, Key)>,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if !matches!(job.outcome, Outcome::Running | Outcome::Waiting(_)) {
            return;
        }
        let plan = &self.plans[job.flow.0 as usize];
        let before = job.pending.len();
        for (node, key) in wanted {
            job.want(plan, node as usize, key);
        }
        if job.pending.len() > before {
            self.place(id, now, effects);
        }
    }

    pub(crate) fn closed(&mut self, id: JobId, node: u32, key: Key) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let plan = &self.plans[job.flow.0 as usize];
        let node = node as usize;
        if job.outcome.is_ended() || !job.may_bind(plan, node, &key) {
            return;
        }
        if matches!(job.stand(node, &key), None | Some(Stand::Unasked)) {
            let slot = Slot::new(job.floor, Stand::Closed);
            job.slots.put(node, &key, slot);
        }
    }
}

impl Job {
    /// The bind is asked for: and with a key of a fan-out, all that stand behind no gate there, ahead of need.
    fn want(&mut self, plan: &Plan, node: usize, key: Key) {
        if !self.may_bind(plan, node, &key) {
            return;
        }
        for mate in &plan.nodes[node].mates {
            if self.stand(*mate as usize, &key).is_none() {
                self.ask(*mate as usize, &key);
            }
        }
        if matches!(
            self.stand(node, &key),
            None | Some(Stand::Unasked | Stand::Closed)
        ) {
            self.ask(node, &key);
        }
    }

    fn ask(&mut self, node: usize, key: &Key) {
        let slot = Slot::new(self.floor, Stand::Wanted);
        self.slots.put(node, key, slot);
        self.pending.push((node as u32, key.clone()));
    }

    fn stand(&self, node: usize, key: &Key) -> Option<Stand> {
        self.slots.get(node, key).map(|slot| slot.stand)
    }

    /// Whether that is a key of a bind of the node, in scopes that have not ended.
    fn may_bind(&self, plan: &Plan, node: usize, key: &Key) -> bool {
        let planned = plan.nodes.get(node).filter(|node| node.role.is_some());
        planned.is_some_and(|planned| {
            key.depth() == planned.depth && !self.is_left(plan, planned, key)
        })
    }
}
