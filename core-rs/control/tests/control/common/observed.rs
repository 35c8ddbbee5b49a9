//! What the world sees of the job table's effects, and what must hold of them.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use omniflow_control::{Bind, Effect, Event, JobId, NodeState};
use omniflow_placement::WorkerId;

use super::world::{FAN, World};

/// Who sends to whom in the flow that fans out.
const FAN_EDGES: [(u32, u32); 3] = [(0, 2), (2, 3), (3, 5)];

impl World {
    pub(super) fn observe(&mut self, effect: Effect) {
        match effect {
            Effect::Accepted { job, existed, .. } => {
                assert_eq!(self.accepted.insert(job), !existed)
            }
            Effect::Bind {
                job,
                workers,
                binds,
            } => {
                assert!(self.accepted.contains(&job) && !self.ended.contains(&job));
                for bind in binds.iter() {
                    self.bound(job, bind);
                }
                for worker in workers {
                    assert!(self.may_live(worker.0), "a dead worker is told");
                    let told = self.told.entry((job, worker.0)).or_default();
                    for bind in binds.iter() {
                        let known = told.entry((bind.node, bind.key.clone())).or_default();
                        *known = bind.epoch.max(*known);
                    }
                }
            }
            Effect::Recall { job, worker, binds } => {
                assert!(self.accepted.contains(&job) && !self.ended.contains(&job));
                assert!(self.living.contains_key(&worker.0) && !binds.is_empty());
                for bind in binds {
                    let at = (job, bind.node, bind.key.clone());
                    assert_eq!(self.binds.get(&at), Some(&(bind.epoch, worker)));
                    self.recalled.push((job, bind));
                }
            }
            Effect::StartOver { job } => {
                assert!(self.accepted.contains(&job) && !self.ended.contains(&job));
                let workers = self.released.drain(..);
                self.letting_go.extend(workers.map(|worker| (job, worker)));
                self.binds.retain(|(other, ..), _| *other != job);
                self.told.retain(|(other, _), _| *other != job);
            }
            Effect::Release { job, workers, .. } => {
                self.released = workers.clone();
                assert!(!self.ended.contains(&job) && !workers.is_empty());
                assert!(workers.iter().all(|worker| self.may_live(worker.0)));
            }
            Effect::Ended { job } => assert!(
                self.accepted.contains(&job) && self.ended.insert(job),
                "ended twice"
            ),
            Effect::Forgotten { job } => assert!(self.ended.contains(&job)),
            Effect::Refused { fault, .. } => assert!(!fault.cure.is_empty()),
            Effect::Progress { .. } | Effect::AskDelivered { .. } | Effect::BeginAnew { .. } => {}
        }
    }

    /// A worker gives back something that it was asked for, if nothing of it has run by then.
    pub(super) fn give_back(&mut self, pick: usize) {
        if self.recalled.is_empty() {
            return;
        }
        let (job, bind) = self.recalled.swap_remove(pick % self.recalled.len());
        let attempt = (job, bind.node, bind.key.clone(), bind.epoch);
        let state = self.reported.get(&attempt).copied();
        let started = state.is_some_and(|state| state > NodeState::Queued);
        let given = !started && self.living.contains_key(&bind.worker.0);
        if given && self.reported.insert(attempt, NodeState::Lost) != Some(NodeState::Lost) {
            let binds = vec![(bind.node, bind.key, bind.epoch)];
            let worker = bind.worker;
            self.apply(Event::Moved { job, worker, binds });
        }
    }

    /// Several drains may be over in one step, and the first does not know of the others.
    fn may_live(&self, worker: u32) -> bool {
        let mut drains = self.drains.iter();
        let over = drains.any(|(due, drained)| *due <= self.now && *drained == worker);
        over || self.living.contains_key(&worker)
    }

    /// Nothing is given to two workers under one epoch, and nothing new to one that takes nothing.
    fn bound(&mut self, job: JobId, bind: &Bind) {
        let at = (job, bind.node, bind.key.clone());
        let attempt = (job, bind.node, bind.key.clone(), bind.epoch);
        if let Some(worker) = self.given.get(&attempt) {
            assert_eq!(*worker, bind.worker, "moved without a new epoch");
            return;
        }
        let earlier = (job, bind.node, bind.key.clone(), 0)..attempt.clone();
        let later = self.given.range(attempt.clone()..).next();
        let later = later.filter(|((job, node, key, _), _)| at == (*job, *node, key.clone()));
        assert!(later.is_none(), "epoch fell");
        assert!(self.given.range(earlier).count() < 40, "it runs for ever");
        assert!(
            self.living[&bind.worker.0],
            "bound to a dead or draining worker"
        );
        self.given.insert(attempt, bind.worker);
        self.binds.insert(at, (bind.epoch, bind.worker));
    }

    /// Every worker knows where its own binds are, those outside of fan-outs, and those that it sends to or reads from.
    pub(super) fn check_told(&self) {
        for job in self.control.jobs().filter(|job| !job.outcome.is_ended()) {
            let binds: Vec<Bind> = job.binds().collect();
            let knows = |worker: WorkerId, bind: &Bind| {
                let told = self.told.get(&(job.id, worker.0));
                let epoch = told.and_then(|told| told.get(&(bind.node, bind.key.clone())));
                epoch == Some(&bind.epoch)
            };
            let alive = |bind: &&Bind| self.living.contains_key(&bind.worker.0);
            for bind in binds.iter().filter(alive) {
                assert!(knows(bind.worker, bind), "{bind:?}");
                if bind.key.is_root() {
                    assert!(job.workers().iter().all(|worker| knows(*worker, bind)));
                }
                for other in binds.iter().filter(alive) {
                    let near = bind.key.extends(&other.key) || other.key.extends(&bind.key);
                    let edge = FAN_EDGES.contains(&(bind.node, other.node));
                    if job.flow.0 == FAN && edge && near {
                        assert!(knows(bind.worker, other) && knows(other.worker, bind));
                    }
                }
            }
        }
    }
}
