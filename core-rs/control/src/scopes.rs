//! What becomes of the binds in a scope when it has ended.

use omniflow_flow::Key;
use omniflow_placement::{RoleId, WorkerId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::effect::Effect;
use crate::event::NodeState;
use crate::ids::{JobId, Micros};
use crate::job::{Job, Outcome};
use crate::plan::{Plan, PlannedNode};
use crate::slot::Stand;
use crate::table::Control;

/// A scope that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// Workers that keep what has left it.
    pub(crate) keepers: Box<[WorkerId]>,
    /// Some of it came from an attempt whose worker is gone, and the next one did not get so far: nobody keeps that.
    pub(crate) is_gone: bool,
    /// Closers that were lost, and are reading it again.
    reading: Vec<u32>,
}

impl Ended {
    /// Whether what has left it can be read again.
    pub(crate) fn is_kept(&self, is_alive: impl Fn(WorkerId) -> bool) -> bool {
        !self.is_gone && self.keepers.iter().all(|keeper| is_alive(*keeper))
    }
}

/// Scopes of one job that have ended, by index and the key around them.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndedScopes {
    /// Which of several closers are over.
    left: FxHashMap<(u32, Key), Vec<u32>>,
    /// Those inside of another one that has ended are not kept.
    ended: FxHashMap<(u32, Key), Ended>,
    /// Those inside of loops of which at least one round is over, by the key of a bind.
    turned: FxHashSet<(u32, Key)>,
}

impl Control {
    pub(crate) fn scope_left(
        &mut self,
        (id, scope, by): (JobId, u32, u32),
        key: &Key,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.outcome.is_ended()) else {
            return;
        };
        let plan = &self.plans[job.flow.0 as usize];
        if scope == 0 || !job.leave(plan, scope, key, by) {
            return;
        }
        let unloaded = job.end_scope(plan, scope, key);
        let waits = matches!(job.outcome, Outcome::Waiting(_));
        for (role, worker) in unloaded {
            self.unload(role, worker);
        }
        if waits {
            // Maybe for something that nobody wants any more.
            self.place(id, now, effects);
        }
    }
}

impl Job {
    /// Notes that a node by which values leave the scope is over. Whether the scope has ended by that.
    fn leave(&mut self, plan: &Plan, scope: u32, key: &Key, by: u32) -> bool {
        let Some(planned) = plan.scopes.get(scope as usize) else {
            return false;
        };
        let fits = key.depth() + 1 == planned.around.len() && planned.closers.contains(&by);
        let known = self.scopes.get_or_insert_default();
        let at = (scope, key.clone());
        if let Some(ended) = known.ended.get_mut(&at) {
            ended.reading.retain(|closer| *closer != by);
        }
        if !fits || known.ended.contains_key(&at) {
            return false;
        }
        if planned.closers.len() > 1 {
            let left = known.left.entry(at.clone()).or_default();
            if !left.contains(&by) {
                left.push(by);
            }
            if left.len() < planned.closers.len() {
                return false;
            }
            known.left.remove(&at);
        }
        if planned.turns {
            let node = planned.inside.first().copied().unwrap_or_default();
            let bind = plan.bind_key(node as usize, key);
            known.turned.insert((scope, bind));
        }
        // With the next round it begins again, under the same binds.
        !planned.turns
    }

    /// Binds in it count no longer; those in fan-outs are forgotten, but for what is about to report. Returns whom they
    /// counted for.
    fn end_scope(&mut self, plan: &Plan, scope: u32, key: &Key) -> Vec<(RoleId, WorkerId)> {
        let planned = &plan.scopes[scope as usize];
        // Of binds of an earlier life nobody knows any more who had them.
        let mut keepers = match self.adopted {
            true => self.known.clone(),
            false => Vec::new(),
        };
        let (mut unloaded, mut is_gone) = (Vec::new(), false);
        for node in planned.inside.iter().map(|node| *node as usize) {
            let keeps = planned.leaving.contains(&(node as u32));
            let inner = plan.nodes[node].depth > key.depth();
            let under = self.slots.under(node, key);
            let under: Vec<Key> = under.map(|(key, _)| key.clone()).collect();
            for key in under {
                let slot = self.slots.get(node, &key);
                let cut_off = slot.is_some_and(|slot| {
                    let attempts = slot.attempts(self.floor);
                    slot.state < NodeState::Done && attempts > 1
                        || slot.stand == Stand::Wanted && attempts > 0
                });
                is_gone |= keeps && cut_off;
                let Some((worker, held, reports)) = self.alter(node, &key, |slot| {
                    let held = slot.stand == Stand::Held;
                    let reports = slot.is_about_to_report();
                    match slot.stand {
                        Stand::Held if !(reports && inner) => slot.stand = Stand::Over,
                        Stand::Wanted => slot.stand = Stand::Closed,
                        _ => {}
                    }
                    (slot.is_placed().then_some(slot.worker), held, reports)
                }) else {
                    continue;
                };
                if keeps {
                    keepers.extend(worker.filter(|worker| !keepers.contains(worker)));
                }
                if held && !(reports && inner) {
                    unloaded.extend(plan.nodes[node].role.zip(worker));
                }
                if inner && !reports {
                    self.forget_bind(node, &key);
                }
            }
        }
        let gone = |node: u32, bind: &Key| planned.inside.contains(&node) && bind.extends(key);
        self.pending.retain(|(node, bind)| !gone(*node, bind));
        let known = self.scopes.get_or_insert_default();
        if planned.nests {
            let inside = |(other, inner): &(u32, Key)| {
                let around = &plan.scopes[*other as usize].around;
                *other != scope && around.contains(&scope) && inner.extends(key)
            };
            known.left.retain(|at, _| !inside(at));
            known.ended.retain(|at, _| !inside(at));
        }
        let ended = Ended {
            keepers: keepers.into(),
            is_gone,
            reading: Vec::new(),
        };
        known.ended.insert((scope, key.clone()), ended);
        unloaded
    }

    /// Whether a fan-out around the bind has ended. (A loop that has ended runs once more, as a whole, when what it gave is
    /// lost before it was read.)
    pub(crate) fn is_over(&self, plan: &Plan, planned: &PlannedNode, key: &Key) -> bool {
        self.ended_around(plan, planned, key)
            .any(|(scope, _)| !plan.scopes[scope as usize].is_loop)
    }

    /// Whether any scope around the bind has ended.
    pub(crate) fn is_left(&self, plan: &Plan, planned: &PlannedNode, key: &Key) -> bool {
        self.ended_around(plan, planned, key).next().is_some()
    }

    /// The scopes around a bind that have ended, and do not begin again with another round.
    fn ended_around(
        &self,
        plan: &Plan,
        planned: &PlannedNode,
        key: &Key,
    ) -> impl Iterator<Item = (u32, Key)> {
        let known = self.scopes.as_deref();
        let known = known.filter(|known| !known.ended.is_empty());
        let around = known.map(|_| scopes_around(plan, planned, key));
        around.into_iter().flatten().filter(move |at| {
            let turns = plan.scopes[at.0 as usize].turns;
            !turns && known.is_some_and(|known| known.ended.contains_key(at))
        })
    }

    /// The bind runs again, and with it all of the loops around it.
    pub(crate) fn reopen_loops(&mut self, plan: &Plan, node: usize, key: &Key) {
        let Some(known) = self.scopes.as_deref_mut() else {
            return;
        };
        for at in scopes_around(plan, &plan.nodes[node], key) {
            if plan.scopes[at.0 as usize].is_loop {
                known.ended.remove(&at);
            }
        }
    }

    /// Whether the scope has ended for that key around it.
    pub(crate) fn has_ended(&self, scope: u32, key: &Key) -> bool {
        let known = self.scopes.as_deref();
        known.is_some_and(|known| known.ended.contains_key(&(scope, key.clone())))
    }

    /// Whether the scope has ended, and whoever reads what has left it has all of it.
    pub(crate) fn was_read(&self, scope: u32, key: &Key) -> bool {
        let known = self.scopes.as_deref();
        let ended = known.and_then(|known| known.ended.get(&(scope, key.clone())));
        ended.is_some_and(|ended| ended.reading.is_empty())
    }

    /// What is known of scopes that have ended at the side of this bind.
    pub(crate) fn ended_beside<'a>(
        &'a self,
        planned: &'a PlannedNode,
        key: &'a Key,
    ) -> impl Iterator<Item = (u32, &'a Ended)> {
        let known = self.scopes.iter().filter(|_| !planned.closes.is_empty());
        let ended = known.flat_map(|known| &known.ended);
        let of_it = ended.filter(|((scope, at), _)| {
            planned.closes.contains(scope) && (at.extends(key) || key.extends(at))
        });
        of_it.map(|((scope, _), ended)| (*scope, ended))
    }

    /// The bind is lost: what has left scopes that end at its side is read again.
    pub(crate) fn read_again(&mut self, plan: &Plan, node: usize, key: &Key) {
        let planned = &plan.nodes[node];
        let Some(known) = self
            .scopes
            .as_deref_mut()
            .filter(|_| !planned.closes.is_empty())
        else {
            return;
        };
        for ((scope, at), ended) in &mut known.ended {
            if planned.closes.contains(scope) && (at.extends(key) || key.extends(at)) {
                let closers = plan.scopes[*scope as usize].closers.iter();
                let beside = closers.filter(|closer| plan.home(**closer as usize) == Some(node));
                ended.reading = beside.copied().collect();
            }
        }
    }

    /// Whether something that has left a scope and is being read again was with a worker that is gone.
    pub(crate) fn has_lost_what_is_read(&self, is_alive: impl Fn(WorkerId) -> bool) -> bool {
        let known = self.scopes.iter();
        let mut ended = known.flat_map(|known| known.ended.values());
        ended.any(|ended| !ended.reading.is_empty() && !ended.is_kept(&is_alive))
    }

    /// Whether the bind has to do with a scope of which a round is over, and another one may run.
    pub(crate) fn has_turned(&self, planned: &PlannedNode, key: &Key) -> bool {
        let known = self.scopes.iter().filter(|_| !planned.turns.is_empty());
        let mut turned = known.flat_map(|known| &known.turned);
        turned.any(|(scope, at)| {
            planned.turns.contains(scope) && (at.extends(key) || key.extends(at))
        })
    }
}

/// The scopes around a bind, outermost first, each with the key around it.
fn scopes_around(
    plan: &Plan,
    planned: &PlannedNode,
    key: &Key,
) -> impl Iterator<Item = (u32, Key)> {
    let mut depth = 0;
    planned.around.iter().map(move |scope| {
        let at = (*scope, key.prefix(depth));
        depth += usize::from(!plan.scopes[*scope as usize].is_loop);
        at
    })
}
