//! Random histories of submits, reports, losses, drains and cancels against a naive model of the world.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::flows::{agent, deterministic, pdf, routed};
use omniflow_control::{
    Bind, ClientId, Control, Effect, Event, FlowId, JobId, Limits, Micros, NodeState, NodeUpdate,
    Submission,
};
use omniflow_flow::{GraphSpec, Key, NodeKind};
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
    /// A place asks for a bind: of a page, or of a branch.
    Want {
        pick: usize,
        key: u32,
    },
    /// A node is closed before it was bound.
    Close {
        pick: usize,
        key: u32,
    },
    /// A fan-out or a loop ends.
    Leave {
        pick: usize,
    },
    Wait {
        ms: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let submit = (
        0..6u32,
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
        8 => (any::<usize>(), 0..6u32).prop_map(|(pick, key)| Step::Want { pick, key }),
        1 => (any::<usize>(), 0..6u32).prop_map(|(pick, key)| Step::Close { pick, key }),
        1 => any::<usize>().prop_map(|pick| Step::Leave { pick }),
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
    /// What runs where, by the newest bind.
    binds: BTreeMap<(JobId, u32, Key), (u32, WorkerId)>,
    /// Every bind there ever was.
    given: BTreeMap<(JobId, u32, Key, u32), WorkerId>,
    /// What each worker was told of each job.
    told: BTreeMap<(JobId, u32), BTreeMap<(u32, Key), u32>>,
    reported: BTreeMap<(JobId, u32, Key, u32), NodeState>,
}

const ROLES: [&str; 3] = ["a", "b", "c"];
/// The flows with control nodes, by number, and who sends to whom in the one that fans out.
const FAN: u32 = 3;
const ROUTED: u32 = 4;
const LOOP: u32 = 5;
const FAN_EDGES: [(u32, u32); 3] = [(0, 2), (2, 3), (3, 5)];

/// All roles of a flow are of the three that the workers serve.
fn with_three_roles(mut spec: GraphSpec) -> GraphSpec {
    let roles = spec.nodes.iter_mut().filter(|node| node.kind.is_role());
    for (index, node) in roles.enumerate() {
        node.kind = NodeKind::Role {
            role: ROLES[index % 3].to_owned(),
            method: "run".to_owned(),
        };
    }
    spec
}

impl World {
    fn new(policy_name: &str, drawn: &[usize]) -> Self {
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
        for spec in [pdf(), routed(), agent()] {
            control.add_flow(deterministic(with_three_roles(spec), drawn));
        }
        let mut world = Self {
            control,
            now: Micros(1),
            living: BTreeMap::new(),
            drains: BTreeSet::new(),
            next_worker: 0,
            tickets: 0,
            accepted: BTreeSet::new(),
            ended: BTreeSet::new(),
            binds: BTreeMap::new(),
            given: BTreeMap::new(),
            told: BTreeMap::new(),
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
        self.check_told();
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
            Effect::StartOver { job } => {
                assert!(self.accepted.contains(&job) && !self.ended.contains(&job));
                self.binds.retain(|(other, ..), _| *other != job);
                self.told.retain(|(other, _), _| *other != job);
            }
            Effect::Release { job, workers, .. } => {
                assert!(!self.ended.contains(&job) && !workers.is_empty());
                assert!(workers.iter().all(|worker| self.may_live(worker.0)));
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
    fn check_told(&self) {
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
        let open = self.binds.iter().filter(|((job, ..), (_, worker))| {
            !self.ended.contains(job) && self.living.contains_key(&worker.0)
        });
        let open: Vec<_> = open.map(|(at, bind)| (at.clone(), *bind)).collect();
        if open.is_empty() {
            return;
        }
        let ((job, node, mut key), (epoch, worker)) = open[pick % open.len()].clone();
        if self.flow(job) == LOOP && (node == 2 || node == 3) {
            key = key.child((pick / open.len() % 4) as u32);
        }
        let last = self
            .reported
            .get(&(job, node, key.clone(), epoch))
            .copied()
            .unwrap_or(NodeState::Bound);
        let state = match last {
            NodeState::Bound => NodeState::Queued,
            NodeState::Queued => NodeState::Started,
            NodeState::Started if fail => NodeState::Failed,
            NodeState::Started if pick % 8 == 0 => NodeState::Lost,
            NodeState::Started => NodeState::Done,
            _ => return,
        };
        self.reported.insert((job, node, key.clone(), epoch), state);
        let update = NodeUpdate {
            worker,
            job,
            node,
            key,
            epoch,
            state,
            at: self.now,
            features: vec![("tokens".to_owned(), 3.0)],
            fault: None,
        };
        self.apply(Event::Node(update));
    }

    fn flow(&self, job: JobId) -> u32 {
        self.control.job(job).map_or(0, |job| job.flow.0)
    }

    /// The node that a place may ask for, and the key.
    fn wanted(&self, job: JobId, pick: usize, key: u32) -> Option<(u32, Key)> {
        match self.flow(job) {
            FAN => Some((2 + (pick % 2) as u32, Key::new(&[key]))),
            ROUTED => Some((2 + key % 2, Key::ROOT)),
            _ => None,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Want { pick, key } => {
                let job = self.running(pick);
                let wanted = job.and_then(|job| Some((job, self.wanted(job, pick, key)?)));
                if let Some((job, at)) = wanted {
                    let wanted = vec![at];
                    self.apply(Event::Wanted { job, wanted });
                }
            }
            Step::Close { pick, key } => {
                let job = self.running(pick);
                let closed = job.and_then(|job| Some((job, self.wanted(job, pick, key)?)));
                if let Some((job, (node, key))) = closed {
                    self.apply(Event::Closed { job, node, key });
                }
            }
            Step::Leave { pick } => {
                let Some(job) = self.running(pick) else {
                    return;
                };
                let by = match self.flow(job) {
                    FAN => 4,
                    LOOP => 1,
                    _ => return,
                };
                self.apply(Event::ScopeLeft {
                    job,
                    scope: 1,
                    key: Key::ROOT,
                    by,
                });
            }
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
        drawn in prop::collection::vec(0..6usize, 0..2),
    ) {
        let policy = if round_robin { "round-robin" } else { "least-outstanding" };
        let mut world = World::new(policy, &drawn);
        for step in steps {
            world.step(step);
        }
        world.finish();
    }
}
