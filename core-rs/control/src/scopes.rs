//! What becomes of the binds in a scope when it has ended.

use omniflow_flow::Key;
use omniflow_placement::{RoleId, WorkerId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::effect::Effect;
use crate::ids::{JobId, Micros};
use crate::job::{Job, Outcome};
use crate::plan::{Plan, PlannedNode};
use crate::slot::Stand;
use crate::table::Control;

/// Scopes of one job that have ended, by index and the key around them.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndedScopes {
    /// Which of several closers are over.
    left: FxHashMap<(u32, Key), Vec<u32>>,
    /// With the workers that keep what has left them. Those inside of another one that has ended are not kept.
    ended: FxHashMap<(u32, Key), Box<[WorkerId]>>,
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
        let mut keepers: Vec<WorkerId> = Vec::new();
        let mut unloaded = Vec::new();
        for node in planned.inside.iter().map(|node| *node as usize) {
            let keeps = planned.leaving.contains(&(node as u32));
            let inner = plan.nodes[node].depth > key.depth();
            let under = self.slots.under(node, key);
            let under: Vec<Key> = under.map(|(key, _)| key.clone()).collect();
            for key in under {
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
        known.ended.insert((scope, key.clone()), keepers.into());
        unloaded
    }

    /// Whether a scope around the bind has ended.
    pub(crate) fn is_over(&self, plan: &Plan, planned: &PlannedNode, key: &Key) -> bool {
        let Some(known) = self
            .scopes
            .as_deref()
            .filter(|known| !known.ended.is_empty())
        else {
            return false;
        };
        let mut depth = 0;
        planned.around.iter().any(|scope| {
            let planned = &plan.scopes[*scope as usize];
            let at = (*scope, key.prefix(depth));
            depth += usize::from(!planned.is_loop);
            !planned.turns && known.ended.contains_key(&at)
        })
    }

    /// Whether the scope has ended for that key around it.
    pub(crate) fn has_ended(&self, scope: u32, key: &Key) -> bool {
        let known = self.scopes.as_deref();
        known.is_some_and(|known| known.ended.contains_key(&(scope, key.clone())))
    }

    /// Who keeps what has left scopes that end at the side of this bind.
    pub(crate) fn keepers<'a>(
        &'a self,
        planned: &'a PlannedNode,
        key: &'a Key,
    ) -> impl Iterator<Item = (u32, &'a [WorkerId])> {
        let known = self.scopes.iter().filter(|_| !planned.closes.is_empty());
        let ended = known.flat_map(|known| &known.ended);
        let of_it = ended.filter(|((scope, at), _)| {
            planned.closes.contains(scope) && (at.extends(key) || key.extends(at))
        });
        of_it.map(|((scope, _), keepers)| (*scope, &**keepers))
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
