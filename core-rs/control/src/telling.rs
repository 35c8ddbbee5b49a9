//! Who is told of which bind (rule 15).
//!
//! Everybody who knows the job knows where its nodes outside of fan-outs are. Of a key of a fan-out, only those are told who
//! send to it or read from it: a bind costs the same however many workers share the fan-out.

use std::collections::BTreeMap;

use omniflow_flow::Key;
use omniflow_placement::WorkerId;

use crate::effect::{Bind, Effect};
use crate::job::Job;
use crate::plan::Plan;
use crate::slot::Slot;

/// Something that has just been given to a worker.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) node: usize,
    pub(crate) key: Key,
    /// Who had it before.
    pub(crate) before: Option<WorkerId>,
}

/// What each worker is told.
type Letters = BTreeMap<WorkerId, Vec<Bind>>;

fn bind(node: usize, key: &Key, slot: &Slot) -> Bind {
    Bind {
        node: node as u32,
        key: key.clone(),
        worker: slot.worker,
        epoch: slot.epoch,
    }
}

impl Job {
    /// Tells of what was just placed. Workers that hear of the job for the first time know it from then on.
    pub(crate) fn tell(
        &mut self,
        plan: &Plan,
        placed: &[Placed],
        is_alive: impl Fn(WorkerId) -> bool,
    ) -> Vec<Effect> {
        if placed.is_empty() {
            return Vec::new();
        }
        let mut new: Vec<WorkerId> = Vec::with_capacity(placed.len());
        for placed in placed {
            let worker = self
                .slots
                .get(placed.node, &placed.key)
                .map(|slot| slot.worker);
            let worker = worker.filter(|worker| self.known.binary_search(worker).is_err());
            new.extend(worker.filter(|worker| !new.contains(worker)));
        }
        let effects = match plan.fans_out {
            false => self.tell_all(placed, &new, is_alive),
            true => self.tell_concerned(plan, placed, &new, is_alive),
        };
        for worker in new {
            if let Err(at) = self.known.binary_search(&worker) {
                self.known.insert(at, worker);
            }
        }
        effects
    }

    /// Workers that have no bind of the job (any more), and keep what was sent from there.
    pub(crate) fn tell_keepers(
        &mut self,
        keepers: impl Iterator<Item = WorkerId>,
        is_alive: impl Fn(WorkerId) -> bool,
    ) -> Option<Effect> {
        let mut workers: Vec<WorkerId> = Vec::new();
        for worker in keepers {
            if let Err(at) = self.known.binary_search(&worker) {
                self.known.insert(at, worker);
                workers.push(worker);
            }
        }
        (!workers.is_empty()).then(|| Effect::Bind {
            job: self.id,
            workers,
            binds: self.outer_binds(is_alive).into(),
        })
    }

    /// Binds outside of fan-outs whose worker lives.
    fn outer_binds(&self, is_alive: impl Fn(WorkerId) -> bool) -> Vec<Bind> {
        let once = self.slots.once().iter().enumerate();
        let placed = once.filter(|(_, slot)| slot.is_placed() && is_alive(slot.worker));
        placed
            .map(|(node, slot)| bind(node, &Key::ROOT, slot))
            .collect()
    }

    fn placed_bind(&self, placed: &Placed) -> Option<Bind> {
        let slot = self.slots.get(placed.node, &placed.key)?;
        Some(bind(placed.node, &placed.key, slot))
    }

    /// Without fan-outs: everything to those who are new, what is new to the others.
    fn tell_all(
        &self,
        placed: &[Placed],
        new: &[WorkerId],
        is_alive: impl Fn(WorkerId) -> bool,
    ) -> Vec<Effect> {
        let mut effects = Vec::with_capacity(2);
        if !self.known.is_empty() {
            let binds = placed.iter().filter_map(|placed| self.placed_bind(placed));
            effects.push(Effect::Bind {
                job: self.id,
                workers: self.known.clone(),
                binds: binds.collect(),
            });
        }
        if !new.is_empty() {
            effects.push(Effect::Bind {
                job: self.id,
                workers: new.to_vec(),
                binds: self.outer_binds(is_alive).into(),
            });
        }
        effects
    }

    fn tell_concerned(
        &self,
        plan: &Plan,
        placed: &[Placed],
        new: &[WorkerId],
        is_alive: impl Fn(WorkerId) -> bool,
    ) -> Vec<Effect> {
        let mut letters = Letters::new();
        let outer = match new.is_empty() {
            true => Vec::new(),
            false => self.outer_binds(&is_alive),
        };
        for worker in new {
            letters.insert(*worker, outer.clone());
        }
        for placed in placed {
            let Some(bind) = self.placed_bind(placed) else {
                continue;
            };
            if placed.key.is_root() {
                for worker in &self.known {
                    letters.entry(*worker).or_default().push(bind.clone());
                }
            }
            self.tell_related(plan, placed, &bind, &mut letters);
        }
        letters.retain(|worker, _| is_alive(*worker));
        self.send(letters)
    }

    /// Tells the worker of a bind about those that it has to do with, and their workers about it.
    fn tell_related(&self, plan: &Plan, placed: &Placed, own: &Bind, letters: &mut Letters) {
        let in_fan_out = !placed.key.is_root();
        if in_fan_out {
            for worker in placed.before.into_iter().chain([own.worker]) {
                letters.entry(worker).or_default().push(own.clone());
            }
        }
        // Whoever keeps what left a scope that ends beside it sends that again.
        for (_, ended) in self.ended_beside(&plan.nodes[placed.node], &placed.key) {
            for keeper in ended.keepers.iter().filter(|_| in_fan_out) {
                letters.entry(*keeper).or_default().push(own.clone());
            }
        }
        for (other, common) in &plan.nodes[placed.node].related {
            let (other, prefix) = (*other as usize, placed.key.prefix(*common));
            let mut meet = |key: &Key, slot: &Slot| {
                if !slot.is_placed() {
                    return;
                }
                if in_fan_out {
                    letters.entry(slot.worker).or_default().push(own.clone());
                }
                if !key.is_root() {
                    let letter = letters.entry(own.worker).or_default();
                    letter.push(bind(other, key, slot));
                }
            };
            if plan.nodes[other].depth == *common {
                if let Some(slot) = self.slots.get(other, &prefix) {
                    meet(&prefix, slot);
                }
            } else {
                let under = self.slots.under(other, &prefix);
                under.for_each(|(key, slot)| meet(key, slot));
            }
        }
    }

    /// One effect for all who are told the same.
    fn send(&self, letters: Letters) -> Vec<Effect> {
        let mut groups: Vec<(Vec<WorkerId>, Vec<Bind>)> = Vec::new();
        for (worker, mut binds) in letters {
            binds.sort_unstable_by(|a, b| (a.node, &a.key).cmp(&(b.node, &b.key)));
            binds.dedup();
            match groups.iter_mut().find(|(_, told)| *told == binds) {
                Some((workers, _)) => workers.push(worker),
                None => groups.push((vec![worker], binds)),
            }
        }
        let effect = |(workers, binds): (Vec<WorkerId>, Vec<Bind>)| Effect::Bind {
            job: self.id,
            workers,
            binds: binds.into(),
        };
        groups.into_iter().map(effect).collect()
    }
}
