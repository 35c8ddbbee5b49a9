//! One job over several places whose binds the job table decides. Messages keep their order on each link, and nothing else.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

mod scheduler;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::place::{Message, Place, SCHEDULER, Said};
use super::value::{Value, mix};
use omniflow_control::{
    ClientId, Code, Control, Effect, Event, FlowId, JobId, Limits, Micros, NodeState, NodeUpdate,
    Outcome, Submission,
};
use omniflow_flow::{Delivered, Effect as Resolved, Graph, Home, Item, Key, NodeId, PortIx};
use omniflow_placement::{WorkerId, policy};

pub type Results = BTreeMap<PortIx, Vec<Item<Value>>>;

pub struct Cluster {
    graph: Arc<Graph>,
    control: Control,
    now: Micros,
    job: JobId,
    places: BTreeMap<u32, Place>,
    /// Each link keeps its order.
    links: BTreeMap<(u32, u32), VecDeque<Message>>,
    /// Workers that have not confirmed that they forgot an earlier run.
    forgetting: BTreeMap<u32, u32>,
    left: Vec<Message>,
    /// Workers that know of the job.
    told: BTreeSet<u32>,
    results: Results,
    next: u32,
    random: u64,
    pub starts: u32,
    /// What resumable binds that are to be placed go on from, with the epochs that were asked about.
    resuming: BTreeMap<(NodeId, Key), (u32, Delivered<Value>)>,
    /// How often one went on from something.
    pub resumptions: usize,
    /// How many binds have moved before they had started.
    pub moves: usize,
}

impl Cluster {
    pub fn new(graph: &Arc<Graph>, seed: u64) -> Self {
        let limits = Limits {
            max_attempts: 10,
            ..Limits::default()
        };
        let mut control = Control::new(limits, policy("least-outstanding").unwrap(), 1);
        control.add_flow(graph.clone());
        let mut cluster = Self {
            graph: graph.clone(),
            control,
            now: Micros(0),
            job: JobId(0),
            places: BTreeMap::from([(SCHEDULER, Place::new(SCHEDULER, graph.clone()))]),
            links: BTreeMap::new(),
            forgetting: BTreeMap::new(),
            left: Vec::new(),
            told: BTreeSet::new(),
            results: Results::new(),
            next: 0,
            random: seed,
            starts: 0,
            resuming: BTreeMap::new(),
            resumptions: 0,
            moves: 0,
        };
        (0..3).for_each(|_| cluster.join());
        cluster.step(Event::Submit(Submission {
            ticket: 1,
            client: ClientId(1),
            flow: FlowId(0),
            tenant: "".into(),
            priority: 0,
            deadline_ms: 0,
            idempotency_key: "".into(),
            detach: false,
        }));
        cluster.feed();
        cluster
    }

    fn choose(&mut self, among: usize) -> usize {
        self.random = mix(&[self.random]);
        (self.random % among as u64) as usize
    }

    fn join(&mut self) {
        self.next += 1;
        let nodes = self.graph.nodes().iter();
        let roles = nodes.filter_map(|node| match &node.kind {
            omniflow_flow::NodeKind::Role { role, .. } => Some(role.clone()),
            _ => None,
        });
        let roles = roles.collect();
        let worker = self.next;
        self.places
            .insert(worker, Place::new(worker, self.graph.clone()));
        self.step(Event::WorkerUp {
            worker: WorkerId(worker),
            name: format!("w{worker}").into(),
            host: "".into(),
            roles,
        });
    }

    fn lose(&mut self) {
        let workers: Vec<u32> = self
            .places
            .keys()
            .copied()
            .filter(|w| *w != SCHEDULER)
            .collect();
        let worker = workers[self.choose(workers.len())];
        self.places.remove(&worker);
        self.links
            .retain(|(from, to), _| *from != worker && *to != worker);
        self.join();
        self.step(Event::WorkerDown {
            worker: WorkerId(worker),
            cause: "killed".to_owned(),
        });
    }

    fn feed(&mut self) {
        let scheduler = self.places.get_mut(&SCHEDULER).unwrap();
        let mut effects = Vec::new();
        let inputs = 0..self.graph.inputs().len() as u32;
        for port in inputs {
            let fed = (scheduler.resolver).feed_input(PortIx(port), Value::Number(5), &mut effects);
            fed.unwrap();
        }
        scheduler.carry_out(effects);
        self.deliver(SCHEDULER);
    }

    /// What the scheduler's place has seen goes to the job table.
    fn tell_control(&mut self) {
        loop {
            let scheduler = self.places.get_mut(&SCHEDULER).unwrap();
            let seen = std::mem::take(&mut scheduler.seen);
            if seen.is_empty() {
                return;
            }
            let job = self.job;
            for effect in seen {
                match effect {
                    Resolved::Wanted { node, key } => {
                        let wanted = vec![(node.0, key)];
                        self.step(Event::Wanted { job, wanted });
                    }
                    Resolved::NodeClosed { node, key }
                        if self.graph.bind_depth(node) == key.depth() =>
                    {
                        let node = node.0;
                        self.step(Event::Closed { job, node, key });
                    }
                    Resolved::Contradiction { edge, seq, .. } => {
                        let edge = edge.0;
                        self.step(Event::Contradiction { job, edge, seq });
                    }
                    Resolved::Result { port, item } => {
                        let over = !matches!(item, Item::Frame { .. })
                            || !self.graph.results()[port.index()].value_type.stream;
                        self.results.entry(port).or_default().push(item);
                        self.step(Event::ResultFrame { job });
                        if over {
                            let port = port.0;
                            self.step(Event::ResultOver { job, port });
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn reach_scheduler(&mut self, worker: u32, message: Message) {
        let job = self.job;
        if let Message::Released = message {
            *self.forgetting.entry(worker).or_default() -= 1;
            let worker = WorkerId(worker);
            return self.step(Event::LetGo { job, worker });
        }
        let earlier = self.forgetting.get(&worker).is_some_and(|open| *open > 0);
        match message {
            Message::Report(node, key, epoch, said) => {
                let update = NodeUpdate {
                    worker: WorkerId(worker),
                    job,
                    node: node.0,
                    key,
                    epoch,
                    state: match said {
                        Said::Queued => NodeState::Queued,
                        Said::Started => NodeState::Started,
                        Said::Done => NodeState::Done,
                        Said::Stopped => NodeState::Stopped,
                    },
                    at: self.now,
                    features: Vec::new(),
                    fault: None,
                    traffic: None,
                };
                self.step(Event::Node(update));
            }
            _ if earlier => {}
            Message::Wanted(wanted) => self.step(Event::Wanted { job, wanted }),
            Message::Delivered(node, key, epoch, told) => {
                self.delivered(worker, (node, key), epoch, told);
            }
            Message::Contradiction(edge, seq) => {
                let edge = edge.0;
                self.step(Event::Contradiction { job, edge, seq });
            }
            Message::Moved(binds) => {
                self.moves += binds.len();
                let worker = WorkerId(worker);
                self.step(Event::Moved { job, worker, binds });
            }
            Message::Item(sent) => self.places.get_mut(&SCHEDULER).unwrap().arrive(sent),
            Message::Left(scope, key, by) => {
                let message = Message::Left(scope, key.clone(), by);
                for place in self
                    .places
                    .keys()
                    .filter(|p| **p != worker && **p != SCHEDULER)
                {
                    let link = self.links.entry((SCHEDULER, *place)).or_default();
                    link.push_back(message.clone());
                }
                self.left.push(message);
                self.places
                    .get_mut(&SCHEDULER)
                    .unwrap()
                    .left(scope, &key, by);
                let (scope, by) = (scope.0, by.0);
                self.step(Event::ScopeLeft {
                    job,
                    scope,
                    key,
                    by,
                });
            }
            other => panic!("{other:?} from {worker}"),
        }
        self.deliver(SCHEDULER);
    }

    // --- everything -------------------------------------------------------------------------------------------------

    /// Puts what a place has to say onto its links.
    fn deliver(&mut self, place: u32) {
        let Some(from) = self.places.get_mut(&place) else {
            return;
        };
        for (to, message) in std::mem::take(&mut from.out) {
            if place == SCHEDULER && to == SCHEDULER {
                self.reach_scheduler(SCHEDULER, message);
            } else if self.places.contains_key(&to) {
                self.links
                    .entry((place, to))
                    .or_default()
                    .push_back(message);
            }
        }
        if place == SCHEDULER {
            self.tell_control();
        }
    }

    fn is_over(&self) -> bool {
        let job = self.control.job(self.job).unwrap();
        job.outcome.is_ended()
    }

    /// One thing happens; false: nothing is left to happen.
    fn happen(&mut self) -> bool {
        let links = self.links.iter().filter(|(_, link)| !link.is_empty());
        let links: Vec<(u32, u32)> = links.map(|(link, _)| *link).collect();
        let ready = self
            .places
            .iter()
            .filter(|(_, place)| !place.ready.is_empty());
        let ready: Vec<u32> = ready.map(|(place, _)| *place).collect();
        let (all, links_count) = (links.len() + ready.len(), links.len());
        if all == 0 {
            return false;
        }
        let chosen = self.choose(all);
        if chosen >= links_count {
            let place = ready[chosen - links_count];
            let pick = self.choose(1_000);
            self.places.get_mut(&place).unwrap().run(pick);
            self.deliver(place);
            return true;
        }
        let (from, to) = links[chosen];
        let message = self
            .links
            .get_mut(&(from, to))
            .and_then(VecDeque::pop_front)
            .unwrap();
        if to == SCHEDULER {
            self.reach_scheduler(from, message);
            return true;
        }
        let Some(place) = self.places.get_mut(&to) else {
            // It was told something before its death was known.
            return true;
        };
        match message {
            Message::Bind(binds) => place.bind(&binds),
            Message::Recall(binds) => place.give_back(binds),
            Message::Ask(node, key, epoch) => place.tell_delivered(node, key, epoch),
            Message::Resume(node, key, epoch, delivered) => {
                place.resuming.insert((node, key), (epoch, delivered));
            }
            Message::Item(sent) => place.arrive(sent),
            Message::Left(scope, key, by) => place.left(scope, &key, by),
            Message::Release => {
                *place = Place::new(to, self.graph.clone());
                place.out.push((SCHEDULER, Message::Released));
            }
            other => panic!("{other:?} to {to}"),
        }
        self.deliver(to);
        true
    }

    /// Runs the job to its end; workers die after these numbers of steps.
    pub fn run(&mut self, deaths: &[usize]) -> Results {
        self.run_with(deaths, &[])
    }

    /// The same; others join after these numbers of steps.
    pub fn run_with(&mut self, deaths: &[usize], joins: &[usize]) -> Results {
        self.go(deaths, joins);
        let job = self.control.job(self.job).unwrap();
        assert!(
            matches!(job.outcome, Outcome::Succeeded),
            "{:?}",
            job.outcome
        );
        assert_eq!(self.control.outstanding(), 0);
        std::mem::take(&mut self.results)
    }

    /// The same, of a job that may end because something of it cannot be said again: none.
    pub fn try_run(&mut self, deaths: &[usize]) -> Option<Results> {
        self.go(deaths, &[]);
        let job = self.control.job(self.job).unwrap();
        match &job.outcome {
            Outcome::Failed(fault) if fault.code == Code::NotReplayable => None,
            Outcome::Succeeded => Some(std::mem::take(&mut self.results)),
            other => panic!("{other:?}"),
        }
    }

    fn go(&mut self, deaths: &[usize], joins: &[usize]) {
        for step in 0.. {
            if self.is_over() {
                break;
            }
            if joins.contains(&step) {
                self.join();
            }
            if deaths.contains(&step) {
                self.lose();
            }
            assert!(step < 100_000, "it runs for ever");
            if !self.happen() {
                self.now = self.now.plus_ms(1_000);
                self.step(Event::Tick);
                assert!(self.is_over(), "it hangs: {}", self.describe());
            }
        }
    }

    fn describe(&self) -> String {
        let job = self.control.job(self.job).unwrap();
        let open = self
            .places
            .iter()
            .map(|(place, at)| (place, at.resolver.open_runs()));
        format!(
            "{:?}, started over {} times, binds {:?}, open {:?}",
            job.outcome,
            self.starts,
            job.binds().collect::<Vec<_>>(),
            open.collect::<Vec<_>>()
        )
    }
}
