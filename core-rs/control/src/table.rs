//! The job table, and where each event goes.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use omniflow_flow::Graph;
use omniflow_placement::{Ledger, Load, Policy, RoleId, WorkerId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::effect::Effect;
use crate::event::Event;
use crate::fleet::{Fleet, WorkerState, WorkerView};
use crate::ids::{ClientId, FlowId, JobId, Micros};
use crate::job::Job;
use crate::plan::Plan;
use crate::recalling::Uneven;

/// Bounds of the job table.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Jobs that are accepted and have not ended.
    pub queue_limit: usize,
    /// The longest deadline, and that of jobs without one.
    pub max_deadline_ms: u64,
    /// How long an ended job's record and results are kept.
    pub result_ttl_ms: u64,
    /// Ended jobs that are kept at most.
    pub kept_limit: usize,
    /// How long a job goes on whose client is gone without a word.
    pub client_grace_ms: u64,
    /// Attempts of a node before its job fails.
    pub max_attempts: u32,
    /// How long a job whose results are complete waits for the last reports of its activations.
    pub settle_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_limit: 100_000,
            max_deadline_ms: 600_000,
            result_ttl_ms: 60_000,
            kept_limit: 100_000,
            client_grace_ms: 5_000,
            max_attempts: 3,
            settle_ms: 100,
        }
    }
}

/// How many jobs there are and were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Accepted, all nodes placed.
    pub running: usize,
    /// Accepted, a role has no worker.
    pub waiting: usize,
    /// Ended with their result.
    pub succeeded: u64,
    /// Ended otherwise.
    pub failed: u64,
}

/// The scheduler's whole decision state.
pub struct Control {
    pub(crate) limits: Limits,
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) ledger: Ledger,
    pub(crate) fleet: Fleet,
    pub(crate) plans: Vec<Plan>,
    pub(crate) jobs: FxHashMap<JobId, Box<Job>>,
    /// Accepted jobs that have not ended.
    pub(crate) live: usize,
    pub(crate) next_job: u64,
    pub(crate) arrivals: u64,
    pub(crate) by_key: FxHashMap<(Arc<str>, Arc<str>), JobId>,
    pub(crate) owned: FxHashMap<ClientId, FxHashSet<JobId>>,
    /// Jobs that wait for a worker of a role, in their order.
    pub(crate) waiting: FxHashMap<RoleId, BTreeSet<(i64, JobId)>>,
    /// When something is due about a job: its deadline, the end of its client's grace or of its settling, or its
    /// forgetting.
    pub(crate) timers: BTreeSet<(Micros, JobId)>,
    /// When draining workers have to be done.
    pub(crate) drains: BTreeSet<(Micros, WorkerId)>,
    /// Ended jobs, oldest first.
    pub(crate) ended: VecDeque<JobId>,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    /// Smoothed time between job ends, in microseconds: how fast room appears.
    pub(crate) pace_us: f64,
    pub(crate) last_end: Micros,
    pub(crate) closed: bool,
    /// Restored jobs are not placed yet.
    pub(crate) holding: bool,
    pub(crate) uneven: Uneven,
}

impl Control {
    /// An empty table. Job numbers are unique as long as no two tables have the same term.
    pub fn new(limits: Limits, policy: Box<dyn Policy>, term: u64) -> Self {
        Self {
            limits,
            policy,
            ledger: Ledger::new(),
            fleet: Fleet::default(),
            plans: Vec::new(),
            jobs: FxHashMap::default(),
            live: 0,
            next_job: (term << 32) + 1,
            arrivals: 0,
            by_key: FxHashMap::default(),
            owned: FxHashMap::default(),
            waiting: FxHashMap::default(),
            timers: BTreeSet::new(),
            drains: BTreeSet::new(),
            ended: VecDeque::new(),
            succeeded: 0,
            failed: 0,
            pace_us: 0.0,
            last_end: Micros(0),
            closed: false,
            holding: false,
            uneven: Uneven::default(),
        }
    }

    /// Numbers a flow. Flows are never removed: a running job may need any of them.
    pub fn add_flow(&mut self, graph: Arc<Graph>) -> FlowId {
        let flow = FlowId(self.plans.len() as u32);
        self.plans.push(Plan::new(graph, &mut self.fleet));
        flow
    }

    /// Takes in one event; what is to be done now is appended to `effects`.
    pub fn step(&mut self, event: Event, now: Micros, effects: &mut Vec<Effect>) {
        match event {
            Event::Submit(submission) => self.submit(submission, now, effects),
            Event::RolesSeen(roles) => self.fleet.see(&roles),
            Event::WorkerUp {
                worker,
                name,
                host,
                roles,
            } => {
                let roles = self.fleet.add(worker, name, host, &roles);
                self.worker_up(worker, &roles, now, effects);
            }
            Event::WorkerDraining(worker) => self.worker_draining(worker),
            Event::DrainWithin { worker, within_ms } => {
                self.worker_draining(worker);
                self.drains.insert((now.plus_ms(within_ms), worker));
            }
            Event::WorkerDown { worker, cause } => self.worker_down(worker, &cause, now, effects),
            Event::Node(update) => self.node_update(update, now, effects),
            Event::Wanted { job, wanted } => self.wanted(job, wanted, now, effects),
            Event::Closed { job, node, key } => self.closed(job, node, key),
            Event::ScopeLeft {
                job,
                scope,
                key,
                by,
            } => self.scope_left((job, scope, by), &key, now, effects),
            Event::Moved { job, worker, binds } => self.moved((job, worker), binds, now, effects),
            Event::LetGo { job, worker } => self.let_go(job, worker, now, effects),
            Event::Delivered {
                job,
                worker,
                node,
                key,
                epoch,
                frames,
            } => self.delivered(job, worker, (node, key, epoch), frames, now, effects),
            Event::ResultFrame { job } => self.result_frame(job, now),
            Event::ResultOver { job, port } => self.result_over(job, port, now, effects),
            Event::Contradiction { job, edge, seq } => {
                self.contradiction(job, edge, seq, now, effects)
            }
            Event::Failed { job, fault } => self.fail(job, Arc::new(*fault), now, effects),
            Event::Cancel { job, reason } => self.cancel(job, &reason, now, effects),
            Event::Watch { job, client } => self.watch(job, client),
            Event::ClientGone(client) => self.client_gone(client, now, effects),
            Event::ClientLost(client) => self.client_lost(client, now),
            Event::Read { job } => self.read_on(job, now),
            Event::Forget { job } => self.forget_ended(job, effects),
            Event::Restore(restored) => self.restore(*restored, now, effects),
            Event::Adopt { job, held, workers } => self.adopt(job, held, &workers, now, effects),
            Event::Resume => self.resume(now, effects),
            Event::Close => self.closed = true,
            Event::Tick => self.tick(now, effects),
        }
        self.uneven.arm(now);
    }

    /// When `Tick` is due next.
    pub fn next_timer(&self) -> Option<Micros> {
        let job = self.timers.first().map(|(due, _)| *due);
        let drain = self.drains.first().map(|(due, _)| *due);
        job.into_iter().chain(drain).chain(self.uneven.due()).min()
    }

    /// The job that was submitted under this idempotency key, while its record is kept.
    pub fn job_of_key(&self, tenant: &str, key: &str) -> Option<JobId> {
        if key.is_empty() {
            return None;
        }
        self.by_key.get(&(tenant.into(), key.into())).copied()
    }

    /// A job that is running, waiting, or ended and still kept.
    pub fn job(&self, job: JobId) -> Option<&Job> {
        self.jobs.get(&job).map(|job| &**job)
    }

    /// All jobs of the table, in no order.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values().map(|job| &**job)
    }

    /// A flow's graph.
    pub fn graph(&self, flow: FlowId) -> Option<&Arc<Graph>> {
        self.plans.get(flow.0 as usize).map(|plan| &plan.graph)
    }

    /// A living worker.
    pub fn worker(&self, worker: WorkerId) -> Option<&WorkerView> {
        self.fleet.get(worker)
    }

    /// Activations bound to a worker that have not ended.
    pub fn load(&self, worker: WorkerId) -> Load {
        self.ledger.load(worker)
    }

    /// Activations bound to any worker that have not ended.
    pub fn outstanding(&self) -> u64 {
        self.ledger.outstanding()
    }

    /// The policy's name.
    pub fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// How many jobs there are and were.
    pub fn counters(&self) -> Counters {
        let waiting = self.waiting.values().map(BTreeSet::len).sum();
        Counters {
            running: self.live - waiting,
            waiting,
            succeeded: self.succeeded,
            failed: self.failed,
        }
    }

    pub(crate) fn set_timer(&mut self, job: JobId, due: Micros) {
        let Some(entry) = self.jobs.get_mut(&job) else {
            return;
        };
        self.timers.remove(&(entry.timer, job));
        entry.timer = due;
        self.timers.insert((due, job));
    }

    fn worker_up(
        &mut self,
        worker: WorkerId,
        roles: &[RoleId],
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        self.ledger.join(worker, roles);
        for role in roles {
            self.place_waiting(*role, now, effects);
        }
        self.share_with_new(roles, effects);
    }

    fn worker_draining(&mut self, worker: WorkerId) {
        if let Some(view) = self.fleet.get_mut(worker) {
            view.state = WorkerState::Draining;
            self.ledger.withdraw(worker);
        }
    }
}
