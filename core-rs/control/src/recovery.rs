//! What happens when a worker dies (rules 12 and 13): what runs again goes elsewhere, until its attempts are used up.

use std::collections::BTreeSet;
use std::sync::Arc;

use omniflow_flow::Key;
use omniflow_placement::WorkerId;

use crate::effect::Effect;
use crate::event::{NodeState, NodeUpdate};
use crate::fault::Fault;
use crate::ids::{JobId, Micros};
use crate::job::{Job, Outcome};
use crate::plan::Plan;
use crate::rerun::{At, Rerun, rerun, shown_by_chance};
use crate::slot::{Slot, Stand};
use crate::table::Control;

/// How a death was seen, and whose it was.
pub(crate) struct Death<'a> {
    pub(crate) name: &'a str,
    pub(crate) cause: &'a str,
}

impl Control {
    pub(crate) fn worker_down(
        &mut self,
        worker: WorkerId,
        cause: &str,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        let Some(name) = self.fleet.remove(worker) else {
            return;
        };
        self.ledger.withdraw(worker);
        let touched = self.jobs.values().filter(|job| {
            let knows = job.known.binary_search(&worker).is_ok();
            !job.outcome.is_ended() && (knows || job.letting_go.contains(&worker))
        });
        let mut touched: Vec<JobId> = touched.map(|job| job.id).collect();
        // In order of arrival, so that the same history gives the same binds.
        touched.sort_unstable();
        let death = Death { name: &name, cause };
        for id in touched {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.known.retain(|known| *known != worker);
            }
            self.recover(id, &death, now, effects);
            self.let_go(id, worker, now, effects);
            self.answers_nothing(id, worker, now, effects);
        }
        self.ledger.leave(worker);
        self.policy.left(worker);
    }

    /// The worker holds nothing of the job's earlier run any more.
    pub(crate) fn let_go(
        &mut self,
        id: JobId,
        worker: WorkerId,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let before = job.letting_go.len();
        job.letting_go.retain(|other| *other != worker);
        if before > 0 && job.letting_go.is_empty() {
            self.place(id, now, effects);
        }
    }

    pub(crate) fn recover(
        &mut self,
        id: JobId,
        death: &Death<'_>,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let plan = &self.plans[job.flow.0 as usize];
        if matches!(job.outcome, Outcome::Settling) {
            self.succeed(id, now, effects);
            return;
        }
        let (lost, again, new) = match rerun(job, plan, &self.fleet) {
            Rerun::Binds { lost, again, new } => (lost, again, new),
            Rerun::Everything => return self.start_over(id, death, now, effects),
            Rerun::Never((node, _)) => {
                let fault = Fault::unrepeatable(plan.name(node), death.name, death.cause);
                self.fail(id, Arc::new(fault), now, effects);
                return;
            }
        };
        let spent = again.iter().find(|at| {
            let slot = job.slots.get(at.0, &at.1);
            slot.is_some_and(|slot| self.is_spent(job, plan, at.0, slot, lost.contains(at)))
        });
        if let Some((node, key)) = spent {
            let fault = self.spent(job, plan, *node, key, death);
            self.mark_lost(id, &lost, now, effects);
            self.fail(id, Arc::new(fault), now, effects);
            return;
        }
        self.mark_lost(id, &again, now, effects);
        self.go_on_from(id, &again, &new, effects);
        self.drop_ended(id, now, effects);
        if !again.is_empty() {
            self.place(id, now, effects);
        }
    }

    /// Whether no attempt is left. A reader that has to run again has its own count only if the flow says so.
    fn is_spent(&self, job: &Job, plan: &Plan, node: usize, slot: &Slot, lost: bool) -> bool {
        let own = plan.nodes[node].max_attempts;
        let began = slot.state > NodeState::Bound || slot.sent;
        match own {
            0 => lost && job.tries(slot) >= self.limits.max_attempts.max(1),
            own => (lost || began) && job.tries(slot) >= own,
        }
    }

    fn spent(&self, job: &Job, plan: &Plan, node: usize, key: &Key, death: &Death<'_>) -> Fault {
        let tries = job.slots.get(node, key).map_or(0, |slot| job.tries(slot));
        Fault::worker_lost(plan.name(node), death.name, tries, death.cause)
    }

    /// Takes the binds' places away. An attempt that had ended well stays so in the report.
    fn mark_lost(
        &mut self,
        id: JobId,
        lost: &BTreeSet<At>,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let plan = &self.plans[job.flow.0 as usize];
        let mut in_order: Vec<&At> = lost.iter().collect();
        in_order.sort_by_key(|(node, _)| plan.nodes[*node].rank);
        let mut unloaded = Vec::new();
        for (node, key) in in_order {
            let slot = job.slots.get(*node, key);
            if slot.is_some_and(|slot| job.may_have_sent(&plan.nodes[*node], slot)) {
                job.alter(*node, key, |slot| {
                    slot.sent = true;
                    slot.lost_sent = true;
                });
            }
            let held = job.withdraw(*node, key, Stand::Wanted, now, effects);
            unloaded.extend(plan.nodes[*node].role.zip(held));
            job.pending.push((*node as u32, key.clone()));
            job.read_again(plan, *node, key);
            job.reopen_loops(plan, *node, key);
        }
        for (role, worker) in unloaded {
            self.unload(role, worker);
        }
    }

    /// What was still running in a fan-out that has ended is not wanted any more.
    fn drop_ended(&mut self, id: JobId, now: Micros, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let plan = &self.plans[job.flow.0 as usize];
        let dead = job.slots.iter().filter(|(node, key, slot)| {
            slot.stand == Stand::Held
                && !self.fleet.is_alive(slot.worker)
                && job.is_over(plan, &plan.nodes[*node], key)
        });
        let dead: Vec<At> = dead.map(|(node, key, _)| (node, key.clone())).collect();
        for (node, key) in dead {
            let held = job.withdraw(node, &key, Stand::Over, now, effects);
            job.forget_bind(node, &key);
            if let Some((role, worker)) = plan.nodes[node].role.zip(held) {
                self.ledger.end(worker, crate::binding::WORK);
                self.policy.ended(role, worker, crate::binding::WORK);
            }
        }
    }

    /// A worker that lives has not kept what a new attempt has to read again, and says so.
    pub(crate) fn cannot_read_again(
        &mut self,
        update: NodeUpdate,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        let (Some(job), Some(view)) = (self.jobs.get(&update.job), self.fleet.get(update.worker))
        else {
            return;
        };
        let plan = &self.plans[job.flow.0 as usize];
        if matches!(job.outcome, Outcome::Settling) {
            return;
        }
        let name = view.name.clone();
        let spent = job.restarts + 1 >= self.limits.max_attempts.max(1);
        if spent || shown_by_chance(job, plan).is_some() {
            let node = plan.name(update.node as usize);
            let fault = Fault::role_failed(update.fault, node, &name);
            self.fail(update.job, fault, now, effects);
            return;
        }
        let death = Death {
            name: &name,
            cause: "it has not kept what a new attempt has to read again",
        };
        self.start_over(update.job, &death, now, effects);
    }

    /// The job runs again from its inputs, as one of an earlier life does.
    fn start_over(&mut self, id: JobId, death: &Death<'_>, now: Micros, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let plan = &self.plans[job.flow.0 as usize];
        let placed = job.slots.iter().filter(|(_, _, slot)| slot.is_placed());
        let all: BTreeSet<At> = placed.map(|(node, key, _)| (node, key.clone())).collect();
        let spent = all.iter().find(|(node, key)| {
            let slot = job.slots.get(*node, key);
            slot.is_some_and(|slot| {
                let lost = !self.fleet.is_alive(slot.worker);
                self.is_spent(job, plan, *node, slot, lost)
            })
        });
        let fault = spent.map(|(node, key)| self.spent(job, plan, *node, key, death));
        self.mark_lost(id, &all, now, effects);
        if let Some(fault) = fault {
            self.fail(id, Arc::new(fault), now, effects);
            return;
        }
        self.stop_waiting(id);
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let workers = std::mem::take(&mut job.known);
        job.letting_go.extend_from_slice(&workers);
        if !workers.is_empty() {
            let fault = None;
            effects.push(Effect::Release {
                job: id,
                workers,
                fault,
            });
        }
        effects.push(Effect::StartOver { job: id });
        job.restarts += 1;
        // They come again, from the beginning.
        job.open_results.fill(true);
        let highest = job.highest;
        job.begin(&self.plans[job.flow.0 as usize], highest);
        self.place(id, now, effects);
    }
}

impl Job {
    /// The bind is taken from its worker, which is returned if it counted there. An attempt that had ended stays as it is.
    fn withdraw(
        &mut self,
        node: usize,
        key: &Key,
        stand: Stand,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) -> Option<WorkerId> {
        let taken = self.alter(node, key, |slot| {
            let held = slot.stand == Stand::Held;
            slot.stand = stand;
            slot.state = NodeState::Bound;
            slot.cut = false;
            (held.then_some(slot.worker), slot.entry())
        });
        let (held, entry) = taken?;
        let arrived = self.arrived;
        let listed = entry.and_then(|entry| Some((entry, self.attempts.get_mut(entry)?)));
        if let Some((attempt, listed)) = listed.filter(|(_, listed)| !listed.is_over()) {
            listed.lose(now, arrived);
            effects.push(Effect::Progress {
                job: self.id,
                attempt,
                state: NodeState::Lost,
            });
        }
        held
    }
}
