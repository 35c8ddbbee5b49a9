//! A world around the job table, which knows only what it is told, and checks it.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use omniflow_control::{
    Bind, ClientId, Control, Event, FlowId, JobId, Limits, Micros, NodeState, NodeUpdate,
    Submission,
};
use omniflow_flow::{GraphSpec, Key, NodeKind};
use omniflow_placement::{WorkerId, policy};

use super::flows::{agent, deterministic, pdf, routed};

/// What can happen in it.
#[derive(Clone, Debug)]
pub enum Step {
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
    /// A worker confirms a release of a job that starts over.
    LetGo {
        pick: usize,
    },
    /// A worker gives back something that it was asked for and has not started.
    GiveBack {
        pick: usize,
    },
    /// A fan-out or a loop ends.
    Leave {
        pick: usize,
    },
    Wait {
        ms: u64,
    },
}

/// What the outside world knows: only from effects.
pub struct World {
    pub(super) control: Control,
    pub(super) now: Micros,
    pub(super) living: BTreeMap<u32, bool>,
    /// When the drains of these are over.
    pub(super) drains: BTreeSet<(Micros, u32)>,
    pub(super) next_worker: u32,
    pub(super) tickets: u64,
    pub(super) accepted: BTreeSet<JobId>,
    pub(super) ended: BTreeSet<JobId>,
    /// What runs where, by the newest bind.
    pub(super) binds: BTreeMap<(JobId, u32, Key), (u32, WorkerId)>,
    /// Every bind there ever was.
    pub(super) given: BTreeMap<(JobId, u32, Key, u32), WorkerId>,
    /// What each worker was told of each job.
    pub(super) told: BTreeMap<(JobId, u32), BTreeMap<(u32, Key), u32>>,
    /// Who was told to release a job; and those that start over.
    pub(super) released: Vec<WorkerId>,
    pub(super) letting_go: Vec<(JobId, WorkerId)>,
    /// What workers were asked for.
    pub(super) recalled: Vec<(JobId, Bind)>,
    pub(super) reported: BTreeMap<(JobId, u32, Key, u32), NodeState>,
}

const ROLES: [&str; 3] = ["a", "b", "c"];
/// The flows with control nodes, by number.
pub(super) const FAN: u32 = 3;
const ROUTED: u32 = 4;
const LOOP: u32 = 5;

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
    pub fn new(policy_name: &str, drawn: &[usize]) -> Self {
        let limits = Limits {
            queue_limit: 12,
            max_deadline_ms: 1_000,
            result_ttl_ms: 300,
            kept_limit: 5,
            client_grace_ms: 100,
            ..Limits::default()
        };
        let mut control = Control::new(limits, policy(policy_name).unwrap(), 7);
        control.add_flow(super::flow(
            "chain",
            &[("a", &[], false), ("b", &[0], true), ("c", &[1], false)],
        ));
        control.add_flow(super::flow(
            "diamond",
            &[
                ("a", &[], false),
                ("b", &[0], false),
                ("c", &[0], true),
                ("a", &[1, 2], false),
            ],
        ));
        control.add_flow(super::flow(
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
            released: Vec::new(),
            letting_go: Vec::new(),
            recalled: Vec::new(),
            reported: BTreeMap::new(),
        };
        for role in 0..3 {
            world.step(Step::Up(role));
        }
        world
    }

    pub(super) fn apply(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.now.0 += 1;
        self.control.step(event, self.now, &mut effects);
        for effect in effects {
            self.observe(effect);
        }
        self.control.check().unwrap();
        self.check_told();
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
            NodeState::Started if pick.is_multiple_of(8) => NodeState::Stopped,
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
            traffic: None,
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

    pub fn step(&mut self, step: Step) {
        match step {
            Step::LetGo { pick } => {
                if !self.letting_go.is_empty() {
                    let confirmed = pick % self.letting_go.len();
                    let (job, worker) = self.letting_go.swap_remove(confirmed);
                    self.apply(Event::LetGo { job, worker });
                }
            }
            Step::GiveBack { pick } => self.give_back(pick),
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

    pub fn finish(&mut self) {
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
