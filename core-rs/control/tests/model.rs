//! Random histories of submits, reports, losses, drains and cancels against a naive model of the world.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use omniflow_control::{
    ClientId, Control, Effect, Event, FlowId, JobId, Limits, Micros, NodeState, NodeUpdate,
    Submission,
};
use omniflow_flow::Key;
use omniflow_placement::{WorkerId, policy};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Up(u8),
    Down(u8),
    Drain(u8),
    Submit {
        flow: u32,
        client: u64,
        key: u8,
        detach: bool,
        deadline_ms: u64,
    },
    Report {
        pick: usize,
        fail: bool,
    },
    Result {
        pick: usize,
    },
    Cancel {
        pick: usize,
    },
    Gone {
        client: u64,
    },
    Lost {
        client: u64,
    },
    Watch {
        pick: usize,
        client: u64,
    },
    DrainWithin {
        worker: u8,
        ms: u64,
    },
    Contradict {
        pick: usize,
    },
    Wait {
        ms: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let submit = (
        0..3u32,
        0..3u64,
        0..6u8,
        any::<bool>(),
        prop_oneof![Just(0u64), 1..500u64],
    );
    prop_oneof![
        2 => (0..8u8).prop_map(Step::Up),
        1 => (0..16u8).prop_map(Step::Down),
        1 => (0..16u8).prop_map(Step::Drain),
        4 => submit.prop_map(|(flow, client, key, detach, deadline_ms)| Step::Submit {
            flow, client, key, detach, deadline_ms
        }),
        12 => (any::<usize>(), prop::bool::weighted(0.03)).prop_map(|(pick, fail)| Step::Report { pick, fail }),
        6 => any::<usize>().prop_map(|pick| Step::Result { pick }),
        1 => any::<usize>().prop_map(|pick| Step::Cancel { pick }),
        1 => (0..3u64).prop_map(|client| Step::Gone { client }),
        1 => (0..3u64).prop_map(|client| Step::Lost { client }),
        1 => (any::<usize>(), 0..3u64).prop_map(|(pick, client)| Step::Watch { pick, client }),
        1 => (0..16u8, 1..500u64).prop_map(|(worker, ms)| Step::DrainWithin { worker, ms }),
        1 => any::<usize>().prop_map(|pick| Step::Contradict { pick }),
        2 => (0..200u64).prop_map(|ms| Step::Wait { ms }),
    ]
}

/// What the outside world knows: only from effects.
struct World {
    control: Control,
    now: Micros,
    living: BTreeMap<u32, bool>,
    /// When the drains of these are over.
    drains: BTreeSet<(Micros, u32)>,
    next_worker: u32,
    tickets: u64,
    accepted: BTreeSet<JobId>,
    ended: BTreeSet<JobId>,
    epochs: BTreeMap<(JobId, u32), (u32, WorkerId)>,
    reported: BTreeMap<(JobId, u32, u32), NodeState>,
}

const ROLES: [&str; 3] = ["a", "b", "c"];

impl World {
    fn new(policy_name: &str) -> Self {
        let limits = Limits {
            queue_limit: 12,
            max_deadline_ms: 1_000,
            result_ttl_ms: 300,
            kept_limit: 5,
            client_grace_ms: 100,
            ..Limits::default()
        };
        let mut control = Control::new(limits, policy(policy_name).unwrap(), 7);
        control.add_flow(common::flow(
            "chain",
            &[("a", &[], false), ("b", &[0], true), ("c", &[1], false)],
        ));
        control.add_flow(common::flow(
            "diamond",
            &[
                ("a", &[], false),
                ("b", &[0], false),
                ("c", &[0], true),
                ("a", &[1, 2], false),
            ],
        ));
        control.add_flow(common::flow(
            "fork",
            &[("b", &[], true), ("a", &[0], false), ("c", &[0], true)],
        ));
        let mut world = Self {
            control,
            now: Micros(1),
            living: BTreeMap::new(),
            drains: BTreeSet::new(),
            next_worker: 0,
            tickets: 0,
            accepted: BTreeSet::new(),
            ended: BTreeSet::new(),
            epochs: BTreeMap::new(),
            reported: BTreeMap::new(),
        };
        for role in 0..3 {
            world.step(Step::Up(role));
        }
        world
    }

    fn apply(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.now.0 += 1;
        self.control.step(event, self.now, &mut effects);
        for effect in effects {
            self.observe(effect);
        }
        self.control.check().unwrap();
    }

    fn observe(&mut self, effect: Effect) {
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
                    let before = self
                        .epochs
                        .insert((job, bind.node), (bind.epoch, bind.worker));
                    let (epoch, worker) = before.unwrap_or((0, bind.worker));
                    assert!(bind.epoch >= epoch, "epoch fell");
                    if bind.epoch == epoch {
                        assert_eq!(bind.worker, worker, "moved without a new epoch");
                    } else {
                        assert_eq!(bind.epoch, epoch + 1);
                        assert!(
                            self.living[&bind.worker.0],
                            "bound to a dead or draining worker"
                        );
                    }
                    assert!(
                        workers.contains(&bind.worker) || !self.living.contains_key(&bind.worker.0)
                    );
                }
            }
            Effect::Release { job, workers, .. } => {
                assert!(!self.ended.contains(&job) && !workers.is_empty());
                let drained = |worker: u32| {
                    self.drains
                        .iter()
                        .any(|(due, drained)| *due <= self.now && *drained == worker)
                };
                assert!(
                    workers
                        .iter()
                        .all(|worker| self.living.contains_key(&worker.0) || drained(worker.0))
                );
            }
            Effect::Ended { job } => assert!(
                self.accepted.contains(&job) && self.ended.insert(job),
                "ended twice"
            ),
            Effect::Forgotten { job } => assert!(self.ended.contains(&job)),
            Effect::Refused { fault, .. } => assert!(!fault.cure.is_empty()),
            Effect::Progress { .. } => {}
        }
    }

    fn running(&self, pick: usize) -> Option<JobId> {
        let running: Vec<JobId> = self.accepted.difference(&self.ended).copied().collect();
        (!running.is_empty()).then(|| running[pick % running.len()])
    }

    fn worker(&self, pick: u8) -> Option<WorkerId> {
        let living: Vec<u32> = self.living.keys().copied().collect();
        (!living.is_empty()).then(|| WorkerId(living[pick as usize % living.len()]))
    }

    fn drain_within(&mut self, pick: u8, ms: u64) {
        let Some(worker) = self.worker(pick) else {
            return;
        };
        self.living.insert(worker.0, false);
        self.apply(Event::DrainWithin {
            worker,
            within_ms: ms,
        });
        self.drains.insert((self.now.plus_ms(ms), worker.0));
    }

    /// A living worker reports the next thing about one of its activations.
    fn report(&mut self, pick: usize, fail: bool) {
        let open: Vec<(JobId, u32, u32, WorkerId)> = self
            .epochs
            .iter()
            .filter(|((job, _), (_, worker))| {
                !self.ended.contains(job) && self.living.contains_key(&worker.0)
            })
            .map(|((job, node), (epoch, worker))| (*job, *node, *epoch, *worker))
            .collect();
        if open.is_empty() {
            return;
        }
        let (job, node, epoch, worker) = open[pick % open.len()];
        let last = self
            .reported
            .get(&(job, node, epoch))
            .copied()
            .unwrap_or(NodeState::Bound);
        let state = match last {
            NodeState::Bound => NodeState::Queued,
            NodeState::Queued => NodeState::Started,
            NodeState::Started if fail => NodeState::Failed,
            NodeState::Started => NodeState::Done,
            _ => return,
        };
        self.reported.insert((job, node, epoch), state);
        let update = NodeUpdate {
            worker,
            job,
            node,
            key: Key::ROOT,
            epoch,
            state,
            at: self.now,
            features: vec![("tokens".to_owned(), 3.0)],
            fault: None,
        };
        self.apply(Event::Node(update));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Up(kind) => {
                let worker = WorkerId(self.next_worker);
                self.next_worker += 1;
                self.living.insert(worker.0, true);
                let roles = if kind < 6 {
                    vec![ROLES[kind as usize % 3].to_owned()]
                } else {
                    ROLES.map(str::to_owned).to_vec()
                };
                self.apply(Event::WorkerUp {
                    worker,
                    name: format!("w{}", worker.0).into(),
                    host: "".into(),
                    roles,
                });
            }
            Step::Down(pick) => {
                let Some(worker) = self.worker(pick) else {
                    return;
                };
                self.living.remove(&worker.0);
                self.apply(Event::WorkerDown {
                    worker,
                    cause: "killed".to_owned(),
                });
            }
            Step::Drain(pick) => {
                let Some(worker) = self.worker(pick) else {
                    return;
                };
                self.living.insert(worker.0, false);
                self.apply(Event::WorkerDraining(worker));
            }
            Step::Submit {
                flow,
                client,
                key,
                detach,
                deadline_ms,
            } => {
                self.tickets += 1;
                let idempotency_key: Arc<str> = if key < 2 {
                    format!("key-{key}").into()
                } else {
                    "".into()
                };
                self.apply(Event::Submit(Submission {
                    ticket: self.tickets,
                    client: ClientId(client),
                    flow: FlowId(flow),
                    tenant: "t".into(),
                    priority: i32::from(key),
                    deadline_ms,
                    idempotency_key,
                    detach,
                }));
            }
            Step::Report { pick, fail } => self.report(pick, fail),
            Step::Result { pick } => {
                let Some(job) = self.running(pick) else {
                    return;
                };
                self.apply(Event::ResultFrame { job });
                self.apply(Event::ResultOver {
                    job,
                    port: (pick % 2) as u32,
                });
            }
            Step::Cancel { pick } => {
                let Some(job) = self.running(pick) else {
                    return;
                };
                self.apply(Event::Cancel {
                    job,
                    reason: "changed my mind".to_owned(),
                });
                assert!(self.ended.contains(&job));
            }
            Step::Gone { client } => self.apply(Event::ClientGone(ClientId(client))),
            Step::Lost { client } => self.apply(Event::ClientLost(ClientId(client))),
            Step::Watch { pick, client } => {
                let Some(job) = self.running(pick) else {
                    return;
                };
                let client = ClientId(client);
                self.apply(Event::Watch { job, client });
            }
            Step::DrainWithin { worker, ms } => self.drain_within(worker, ms),
            Step::Contradict { pick } => {
                let Some(job) = self.running(pick) else {
                    return;
                };
                self.apply(Event::Contradiction {
                    job,
                    edge: (pick % 4) as u32,
                    seq: 1,
                });
            }
            Step::Wait { ms } => {
                self.now = self.now.plus_ms(ms);
                let next = Micros(self.now.0 + 1);
                for (_, worker) in self.drains.iter().filter(|(due, _)| *due <= next) {
                    self.living.remove(worker);
                }
                self.apply(Event::Tick);
            }
        }
    }

    fn finish(&mut self) {
        self.step(Step::Wait { ms: 1_001 });
        assert_eq!(self.accepted, self.ended, "an accepted job has not ended");
        assert_eq!(
            self.control.outstanding(),
            0,
            "the ledger did not return to zero"
        );
        let counters = self.control.counters();
        assert_eq!(
            counters.succeeded + counters.failed,
            self.ended.len() as u64
        );
        self.step(Step::Wait { ms: 1_001 });
        assert_eq!(
            self.control.jobs().count(),
            0,
            "an ended job was not forgotten"
        );
        assert_eq!(self.control.next_timer(), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_accepted_job_ends_exactly_once(
        steps in prop::collection::vec(step(), 1..150),
        round_robin in any::<bool>(),
    ) {
        let mut world = World::new(if round_robin { "round-robin" } else { "least-outstanding" });
        for step in steps {
            world.step(step);
        }
        world.finish();
    }
}
