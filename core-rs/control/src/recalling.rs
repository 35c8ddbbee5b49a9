//! Binds that go to a better worker before anything of them has run (rule 15): to one that has joined, or that is far less
//! busy.
//!
//! The worker that has them is asked for them first, and gives back what no engine has taken: so nothing runs twice, whatever
//! it may do at its first step. Loads are made even only when they are far apart, and a bind moves a few times at most: what
//! has moved stays.

use std::collections::{BTreeMap, BTreeSet};

use omniflow_flow::Key;
use omniflow_placement::{Ledger, RoleId, WorkerId};

use crate::effect::{Bind, Effect};
use crate::event::NodeState;
use crate::ids::{JobId, Micros};
use crate::job::{Job, Outcome};
use crate::recovery::Death;
use crate::slot::{Slot, Stand};
use crate::table::Control;

/// How often one bind may move.
const MOST_MOVES: u8 = 8;
/// How many binds are asked for at once.
const MOST_ASKED: usize = 4_096;
/// Loads are far apart when one is more than twice the other and this.
const SLACK: u32 = 4;
/// The same where a worker has just joined, which has nothing.
const SLACK_OF_NEW: u32 = 1;
/// How long loads may be far apart, which they often are for a moment, before that is looked at.
const FIRST_PAUSE_US: u64 = 20_000;
/// A look costs as much as there are jobs, so one that finds nothing to move puts the next one off.
const LONGEST_PAUSE_US: u64 = 1_280_000;

/// Roles whose workers have loads that are far apart, and when that is looked at.
#[derive(Debug)]
pub(crate) struct Uneven {
    roles: BTreeSet<RoleId>,
    due: Option<Micros>,
    pause_us: u64,
}

impl Default for Uneven {
    fn default() -> Self {
        Self {
            roles: BTreeSet::new(),
            due: None,
            pause_us: FIRST_PAUSE_US,
        }
    }
}

impl Uneven {
    /// A worker of the role has less to do.
    pub(crate) fn note(&mut self, role: RoleId, ledger: &Ledger) {
        if is_far_apart(role, ledger, SLACK) {
            self.roles.insert(role);
        }
    }

    /// The end of a step.
    pub(crate) fn arm(&mut self, now: Micros) {
        if !self.roles.is_empty() && self.due.is_none() {
            self.due = Some(Micros(now.0.saturating_add(self.pause_us)));
        }
    }

    /// When it is to be looked at.
    pub(crate) fn due(&self) -> Option<Micros> {
        self.due
    }

    fn take_due(&mut self, now: Micros) -> BTreeSet<RoleId> {
        if self.due.is_none_or(|due| due > now) {
            return BTreeSet::new();
        }
        self.due = None;
        std::mem::take(&mut self.roles)
    }

    fn looked(&mut self, found: bool) {
        self.pause_us = match found {
            true => FIRST_PAUSE_US,
            false => (self.pause_us * 2).min(LONGEST_PAUSE_US),
        };
    }
}

fn is_far_apart(role: RoleId, ledger: &Ledger, slack: u32) -> bool {
    let far = |(least, most): (u32, u32)| most > least.saturating_mul(2).saturating_add(slack);
    ledger.spread(role).is_some_and(far)
}

/// Something that may move. What is served last sorts last.
type Movable = (i64, JobId, Key, u32, u32);

impl Control {
    /// A worker has joined: it takes over a fair share of what others have not begun.
    pub(crate) fn share_with_new(&mut self, roles: &[RoleId], effects: &mut Vec<Effect>) {
        for role in roles {
            if is_far_apart(*role, &self.ledger, SLACK_OF_NEW) {
                self.even_out(*role, effects);
            }
        }
    }

    /// Time has passed.
    pub(crate) fn look_at_loads(&mut self, now: Micros, effects: &mut Vec<Effect>) {
        let roles = self.uneven.take_due(now);
        let mut looked = None;
        for role in roles {
            if is_far_apart(role, &self.ledger, SLACK) {
                *looked.get_or_insert(false) |= self.even_out(role, effects);
            }
        }
        if let Some(found) = looked {
            self.uneven.looked(found);
        }
    }

    /// Asks the busiest workers of a role for as much as the least busy ones lack. Whether that was anything.
    fn even_out(&mut self, role: RoleId, effects: &mut Vec<Effect>) -> bool {
        let mut movable = self.movable(role);
        let load = |worker| (self.ledger.load(worker).outstanding, worker);
        let mut takers: BTreeSet<(u32, WorkerId)> =
            self.ledger.candidates(role).map(load).collect();
        let mut givers: BTreeSet<(u32, WorkerId)> = movable.keys().copied().map(load).collect();
        let mut asked: BTreeMap<(WorkerId, JobId), Vec<Bind>> = BTreeMap::new();
        for _ in 0..MOST_ASKED {
            let (Some(taker), Some(giver)) = (takers.first().copied(), givers.last().copied())
            else {
                break;
            };
            if giver.0 <= taker.0 + 1 {
                break;
            }
            givers.remove(&giver);
            let worker = giver.1;
            let Some(binds) = movable.get_mut(&worker) else {
                continue;
            };
            let Some((_, job, key, node, epoch)) = binds.pop() else {
                continue;
            };
            let bind = Bind {
                node,
                key,
                worker,
                epoch,
            };
            asked.entry((worker, job)).or_default().push(bind);
            takers.remove(&giver);
            takers.remove(&taker);
            givers.remove(&taker);
            let (less, more) = ((giver.0 - 1, worker), (taker.0 + 1, taker.1));
            takers.extend([less, more]);
            givers.insert(less);
            if movable.contains_key(&more.1) {
                givers.insert(more);
            }
        }
        let found = !asked.is_empty();
        let recall = |((worker, job), binds)| Effect::Recall { job, worker, binds };
        effects.extend(asked.into_iter().map(recall));
        found
    }

    /// What of a role may move, by the worker that has it; each worker's in the order in which it is served.
    fn movable(&self, role: RoleId) -> BTreeMap<WorkerId, Vec<Movable>> {
        let mut movable: BTreeMap<WorkerId, Vec<Movable>> = BTreeMap::new();
        for job in self.jobs.values().filter(|job| job.may_move()) {
            if self.lost_producer(job).is_some() {
                continue;
            }
            let plan = &self.plans[job.flow.0 as usize];
            let nodes = plan.movable.iter().filter(|node| {
                let planned = &plan.nodes[**node as usize];
                planned.role == Some(role)
            });
            for node in nodes {
                let planned = &plan.nodes[*node as usize];
                let binds = job.slots.under(*node as usize, &Key::ROOT);
                for (key, slot) in binds.filter(|(_, slot)| slot.may_move()) {
                    let over = !key.is_root() && job.is_over(plan, planned, key);
                    if !over && self.ledger.is_candidate(role, slot.worker) {
                        let at = (job.order as i64, job.id, key.clone(), *node, slot.epoch);
                        movable.entry(slot.worker).or_default().push(at);
                    }
                }
            }
        }
        movable.values_mut().for_each(|binds| binds.sort_unstable());
        movable
    }

    /// A bind of the job that a worker had which is gone: what that sent would not come a second time.
    fn lost_producer<'a>(&self, job: &'a Job) -> Option<&'a Slot> {
        let mut slots = job.slots.iter().map(|(_, _, slot)| slot);
        slots.find(|slot| slot.is_placed() && !self.fleet.is_alive(slot.worker))
    }

    /// The worker has given binds back: they go where they are served soonest.
    pub(crate) fn moved(
        &mut self,
        (id, worker): (JobId, WorkerId),
        binds: Vec<(u32, Key, u32)>,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.may_move()) else {
            return;
        };
        let plan = &self.plans[job.flow.0 as usize];
        let mut unloaded = Vec::new();
        for (node, key, epoch) in binds {
            let Some(planned) = plan.nodes.get(node as usize) else {
                continue;
            };
            let is_its = |slot: &Slot| {
                let held = slot.stand == Stand::Held && slot.is_at(worker);
                held && slot.epoch == epoch && slot.state <= NodeState::Queued
            };
            if !job.slots.get(node as usize, &key).is_some_and(is_its) {
                continue;
            }
            job.alter(node as usize, &key, |slot| {
                slot.stand = Stand::Wanted;
                slot.state = NodeState::Bound;
                slot.moves = slot.moves.saturating_add(1);
            });
            job.pending.push((node, key));
            unloaded.extend(planned.role);
        }
        if unloaded.is_empty() {
            return;
        }
        for role in unloaded {
            self.unload(role, worker);
        }
        let job = self.jobs.get(&id);
        if let Some((job, lost)) = job.and_then(|job| Some((job, self.lost_producer(job)?))) {
            // It died in the meantime, and what it had sent went with the bind that was still there then.
            let listed = lost.entry().and_then(|entry| job.attempts.get(entry));
            let name = listed.map_or_else(Default::default, |listed| listed.worker_name.clone());
            let death = Death {
                name: &name,
                cause: "it is gone, and a node that moved has to read again what it had sent",
            };
            self.recover(id, &death, now, effects);
        }
        self.place(id, now, effects);
    }
}

impl Job {
    fn may_move(&self) -> bool {
        let runs = matches!(self.outcome, Outcome::Running | Outcome::Waiting(_));
        runs && !self.held && self.letting_go.is_empty()
    }
}

impl Slot {
    /// Whether nothing of it has run, for all that is known.
    fn may_move(&self) -> bool {
        let waits = self.stand == Stand::Held && self.state <= NodeState::Queued;
        waits && !self.sent && self.moves < MOST_MOVES
    }
}
