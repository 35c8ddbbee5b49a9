//! What becomes of a job whose dead worker ran a method that does not give the same frames twice (rule 12).

use std::sync::Arc;

use omniflow_control::{
    ClientId, Code, Control, Event, FlowId, JobId, Limits, Micros, NodeState, NodeUpdate, Outcome,
    Submission,
};
use omniflow_flow::{Graph, Key};
use omniflow_placement::{WorkerId, policy};

const SENT: &[NodeState] = &[NodeState::Queued, NodeState::Started, NodeState::FirstFrame];
const DONE: &[NodeState] = &[NodeState::Done];
const STREAMS: &[(&str, &[u32], bool)] = &[("a", &[], true), ("b", &[0], true), ("c", &[1], false)];

struct Table {
    control: Control,
    now: Micros,
    job: JobId,
}

impl Table {
    /// A job of these nodes, of which `drawn` are not deterministic; each role has the worker of its place, and a second one.
    fn new(nodes: &[(&str, &[u32], bool)], drawn: &[usize]) -> Self {
        let mut spec = crate::common::flow("flow", nodes).spec().clone();
        drawn
            .iter()
            .for_each(|node| spec.nodes[*node].options.deterministic = false);
        let mut control = Control::new(Limits::default(), policy("round-robin").unwrap(), 1);
        control.add_flow(Arc::new(Graph::new(spec).unwrap()));
        let mut table = Self {
            control,
            now: Micros(0),
            job: JobId(0),
        };
        for (index, (role, ..)) in nodes.iter().enumerate() {
            table.up(index as u32, role);
        }
        table.step(Event::Submit(Submission {
            ticket: 1,
            client: ClientId(1),
            flow: FlowId(0),
            tenant: "".into(),
            priority: 0,
            deadline_ms: 0,
            idempotency_key: "".into(),
            detach: false,
        }));
        table.job = table.control.jobs().next().unwrap().id;
        for (index, (role, ..)) in nodes.iter().enumerate() {
            table.up(100 + index as u32, role);
        }
        table
    }

    fn step(&mut self, event: Event) {
        self.now.0 += 10;
        self.control.step(event, self.now, &mut Vec::new());
        self.control.check().unwrap();
    }

    fn up(&mut self, worker: u32, role: &str) {
        self.step(Event::WorkerUp {
            worker: WorkerId(worker),
            name: format!("w{worker}").into(),
            host: "".into(),
            roles: vec![role.to_owned()],
        });
    }

    fn down(&mut self, worker: u32) {
        self.step(Event::WorkerDown {
            worker: WorkerId(worker),
            cause: "killed".to_owned(),
        });
    }

    fn report(&mut self, node: u32, states: &[NodeState]) {
        for state in states {
            let job = self.control.job(self.job).unwrap();
            let attempt = job.current(node as usize).unwrap();
            self.step(Event::Node(NodeUpdate {
                worker: attempt.worker,
                job: self.job,
                node,
                key: Key::ROOT,
                epoch: attempt.epoch,
                state: *state,
                at: self.now,
                features: Vec::new(),
                fault: None,
                traffic: None,
            }));
        }
    }

    fn epochs(&self) -> Vec<u32> {
        let job = self.control.job(self.job).unwrap();
        (0..)
            .map(|node| job.epoch(node))
            .take_while(|epoch| *epoch > 0)
            .collect()
    }

    fn code(&self) -> Option<Code> {
        match &self.control.job(self.job).unwrap().outcome {
            Outcome::Failed(fault) => Some(fault.code),
            _ => None,
        }
    }
}

#[test]
fn rule_12_a_deterministic_node_goes_on_under_its_living_reader() {
    let mut table = Table::new(STREAMS, &[]);
    table.report(0, SENT);
    table.report(1, SENT);
    table.down(0);
    assert_eq!(table.epochs(), [2, 1, 1]);
}

#[test]
fn rule_12_what_read_from_a_node_that_draws_anew_runs_again_too() {
    let mut table = Table::new(STREAMS, &[0]);
    table.report(0, SENT);
    table.report(1, SENT);
    table.down(0);
    assert_eq!(
        table.epochs(),
        [2, 2, 2],
        "what b has sent to c came of frames that are gone"
    );
    assert_eq!(table.code(), None);
}

#[test]
fn rule_12_a_node_that_had_sent_nothing_disturbs_no_reader() {
    let mut table = Table::new(STREAMS, &[0]);
    table.report(0, &SENT[..2]);
    table.down(0);
    assert_eq!(table.epochs(), [2, 1, 1]);
}

#[test]
fn rule_12_frames_that_the_client_has_are_never_contradicted() {
    let mut table = Table::new(&STREAMS[..2], &[1]);
    table.report(0, SENT);
    table.report(1, SENT);
    table.step(Event::ResultFrame { job: table.job });
    table.down(1);
    assert_eq!(table.code(), Some(Code::NotReplayable));
}

#[test]
fn rule_12_a_reader_that_runs_again_gets_back_what_its_other_producer_took_with_it() {
    // d reads the stream of b and the value of c, which has ended and died since.
    let nodes: &[(&str, &[u32], bool)] = &[
        ("a", &[], false),
        ("b", &[0], true),
        ("c", &[0], false),
        ("d", &[1, 2], false),
    ];
    let mut table = Table::new(nodes, &[1]);
    for node in [0, 1, 2] {
        table.report(node, SENT);
    }
    table.report(0, DONE);
    table.report(2, DONE);
    table.report(3, &SENT[..2]);
    table.down(2);
    assert_eq!(table.epochs(), [1, 1, 1, 1], "d has the value of c");
    table.down(1);
    assert_eq!(table.epochs(), [1, 2, 2, 2]);
}
