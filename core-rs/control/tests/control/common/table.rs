//! A job table with workers, and what its effects tell them.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use omniflow_control::{
    Bind, ClientId, Code, Control, Effect, Event, Fault, FlowId, JobId, Limits, Micros, NodeState,
    NodeUpdate, Outcome, Submission,
};
use omniflow_flow::{Graph, Key};
use omniflow_placement::{WorkerId, policy};

pub const RUN: &[NodeState] = &[NodeState::Queued, NodeState::Started];
pub const SENT: &[NodeState] = &[NodeState::Queued, NodeState::Started, NodeState::FirstFrame];
pub const DONE: &[NodeState] = &[NodeState::Queued, NodeState::Started, NodeState::Done];

/// Where a node is bound for a key.
pub type At = (u32, Key);

pub struct Table {
    pub control: Control,
    pub now: Micros,
    pub job: JobId,
    /// What each worker was told: the bind of the highest epoch.
    pub told: BTreeMap<u32, BTreeMap<At, Bind>>,
    /// Effects of the last step.
    pub effects: Vec<Effect>,
}

impl Table {
    /// One job of a flow; each of these roles has the worker of its place, from 1 on.
    pub fn new(graph: Arc<Graph>, workers: &[&str]) -> Self {
        let mut control = Control::new(Limits::default(), policy("least-outstanding").unwrap(), 1);
        control.add_flow(graph);
        let mut table = Self::of(control);
        for (number, role) in (1..).zip(workers) {
            table.up(number, role);
        }
        table.submit();
        table
    }

    pub fn of(control: Control) -> Self {
        Self {
            control,
            now: Micros(0),
            job: JobId(0),
            told: BTreeMap::new(),
            effects: Vec::new(),
        }
    }

    pub fn step(&mut self, event: Event) {
        self.now.0 += 10;
        self.effects.clear();
        self.control.step(event, self.now, &mut self.effects);
        self.control.check().unwrap();
        self.note();
    }

    /// All workers let go of an earlier run of the job.
    pub fn let_go(&mut self) {
        let workers: Vec<u32> = (1..20).collect();
        for worker in workers {
            let (job, worker) = (self.job, WorkerId(worker));
            self.step(Event::LetGo { job, worker });
        }
    }

    fn note(&mut self) {
        for effect in &self.effects {
            match effect {
                Effect::Bind { workers, binds, .. } => {
                    for worker in workers {
                        let known = self.told.entry(worker.0).or_default();
                        for bind in binds.iter() {
                            let at = (bind.node, bind.key.clone());
                            let newer = known.get(&at).is_none_or(|old| old.epoch < bind.epoch);
                            if newer {
                                known.insert(at, bind.clone());
                            }
                        }
                    }
                }
                Effect::Release { workers, .. } => {
                    workers
                        .iter()
                        .for_each(|worker| _ = self.told.remove(&worker.0));
                }
                _ => {}
            }
        }
    }

    pub fn up(&mut self, worker: u32, role: &str) {
        self.up_at(worker, role, "");
    }

    pub fn up_at(&mut self, worker: u32, role: &str, host: &str) {
        self.step(Event::WorkerUp {
            worker: WorkerId(worker),
            name: format!("w{worker}").into(),
            host: host.into(),
            roles: vec![role.to_owned()],
        });
    }

    pub fn down(&mut self, worker: u32) {
        self.told.remove(&worker);
        self.step(Event::WorkerDown {
            worker: WorkerId(worker),
            cause: "killed".to_owned(),
        });
    }

    pub fn submit(&mut self) {
        self.step(Event::Submit(Submission {
            ticket: 1,
            client: ClientId(1),
            flow: FlowId(0),
            tenant: "".into(),
            priority: 0,
            deadline_ms: 0,
            idempotency_key: "".into(),
            detach: false,
        }));
        let Some(Effect::Accepted { job, .. }) = self.effects.first() else {
            panic!("{:?}", self.effects)
        };
        self.job = *job;
    }

    pub fn want(&mut self, node: u32, keys: &[&[u32]]) {
        let wanted = keys.iter().map(|key| (node, Key::new(key)));
        self.step(Event::Wanted {
            job: self.job,
            wanted: wanted.collect(),
        });
    }

    pub fn leave(&mut self, scope: u32, key: &[u32], by: u32) {
        self.step(Event::ScopeLeft {
            job: self.job,
            scope,
            key: Key::new(key),
            by,
        });
    }

    /// The bind of a node, as the job table has it.
    pub fn bind(&self, node: u32, key: &[u32]) -> Option<Bind> {
        let job = self.control.job(self.job).unwrap();
        let key = Key::new(key);
        job.binds()
            .find(|bind| bind.node == node && bind.key == key)
    }

    pub fn at(&self, node: u32, key: &[u32]) -> (u32, u32) {
        let bind = self.bind(node, key).expect("it is bound");
        (bind.worker.0, bind.epoch)
    }

    /// An activation gets on; `bind` is the key of its bind.
    pub fn report_of(&mut self, node: u32, bind: &[u32], key: &[u32], states: &[NodeState]) {
        for state in states {
            let bind = self.bind(node, bind).expect("it is bound");
            let update = self.update(bind.worker.0, node, key, bind.epoch, *state, None);
            self.step(update);
        }
    }

    /// What a worker may say of an activation.
    pub fn update(
        &self,
        worker: u32,
        node: u32,
        key: &[u32],
        epoch: u32,
        state: NodeState,
        code: Option<Code>,
    ) -> Event {
        Event::Node(NodeUpdate {
            worker: WorkerId(worker),
            job: self.job,
            node,
            key: Key::new(key),
            epoch,
            state,
            at: self.now,
            features: Vec::new(),
            fault: code.map(|code| Box::new(Fault::new(code, "it said so", "mend it"))),
            traffic: None,
        })
    }

    pub fn report(&mut self, node: u32, key: &[u32], states: &[NodeState]) {
        self.report_of(node, key, key, states);
    }

    pub fn load(&self, worker: u32) -> u32 {
        self.control.load(WorkerId(worker)).outstanding
    }

    pub fn waits(&self) -> bool {
        matches!(
            self.control.job(self.job).unwrap().outcome,
            Outcome::Waiting(_)
        )
    }

    pub fn code(&self) -> Option<Code> {
        match &self.control.job(self.job).unwrap().outcome {
            Outcome::Failed(fault) => Some(fault.code),
            _ => None,
        }
    }

    pub fn fault(&self) -> Arc<Fault> {
        match &self.control.job(self.job).unwrap().outcome {
            Outcome::Failed(fault) => fault.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub fn starts_over(&self) -> bool {
        let over = |effect: &Effect| matches!(effect, Effect::StartOver { .. });
        self.effects.iter().any(over)
    }

    /// What workers were asked for in the last step.
    pub fn recalled(&self) -> Vec<Bind> {
        let recalled = self.effects.iter().filter_map(|effect| match effect {
            Effect::Recall { worker, binds, .. } => {
                assert!(binds.iter().all(|bind| bind.worker == *worker));
                Some(binds.clone())
            }
            _ => None,
        });
        recalled.flatten().collect()
    }

    /// A worker gives these back.
    pub fn give_back(&mut self, worker: u32, binds: &[Bind]) {
        let binds = binds.iter();
        let binds = binds.map(|bind| (bind.node, bind.key.clone(), bind.epoch));
        self.step(Event::Moved {
            job: self.job,
            worker: WorkerId(worker),
            binds: binds.collect(),
        });
    }

    /// Whether the worker was told of that bind, as it stands.
    pub fn knows(&self, worker: u32, node: u32, key: &[u32]) -> bool {
        let at = (node, Key::new(key));
        self.told.get(&worker).and_then(|told| told.get(&at)) == self.bind(node, key).as_ref()
    }
}
