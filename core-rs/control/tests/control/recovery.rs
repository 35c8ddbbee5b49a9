//! What runs again when a worker dies, and what does not.

use omniflow_control::{
    ClientId, Code, Control, Effect, Event, FlowId, JobId, Limits, Micros, NodeState, NodeUpdate,
    Outcome, Submission,
};
use omniflow_flow::Key;
use omniflow_placement::{WorkerId, policy};

struct Table {
    control: Control,
    now: Micros,
}

impl Table {
    /// Workers 1, 2, … serve one role each, in that order.
    fn new(nodes: &[(&str, &[u32], bool)], workers: &[&str]) -> Self {
        let mut control = Control::new(Limits::default(), policy("round-robin").unwrap(), 1);
        control.add_flow(crate::common::flow("flow", nodes));
        let mut table = Self {
            control,
            now: Micros(0),
        };
        for (index, role) in workers.iter().enumerate() {
            table.up(index as u32 + 1, role);
        }
        table
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.now.0 += 10;
        self.control.step(event, self.now, &mut effects);
        self.control.check().unwrap();
        effects
    }

    fn up(&mut self, worker: u32, role: &str) -> Vec<Effect> {
        let name = format!("w{worker}").into();
        self.step(Event::WorkerUp {
            worker: WorkerId(worker),
            name,
            host: "".into(),
            roles: vec![role.to_owned()],
        })
    }

    fn down(&mut self, worker: u32) -> Vec<Effect> {
        self.step(Event::WorkerDown {
            worker: WorkerId(worker),
            cause: "killed".to_owned(),
        })
    }

    fn submit(&mut self) -> JobId {
        let effects = self.step(Event::Submit(Submission {
            ticket: 1,
            client: ClientId(1),
            flow: FlowId(0),
            tenant: "".into(),
            priority: 0,
            deadline_ms: 0,
            idempotency_key: "".into(),
            detach: false,
        }));
        match effects.first() {
            Some(Effect::Accepted { job, .. }) => *job,
            other => panic!("{other:?}"),
        }
    }

    fn report(&mut self, job: JobId, node: u32, states: &[NodeState]) {
        for state in states {
            let attempt = self
                .control
                .job(job)
                .unwrap()
                .current(node as usize)
                .unwrap();
            let (worker, epoch) = (attempt.worker, attempt.epoch);
            self.step(Event::Node(NodeUpdate {
                worker,
                job,
                node,
                key: Key::ROOT,
                epoch,
                state: *state,
                at: self.now,
                features: Vec::new(),
                fault: None,
                traffic: None,
            }));
        }
    }

    fn epochs(&self, job: JobId) -> Vec<u32> {
        let job = self.control.job(job).unwrap();
        (0..3).map(|node| job.epoch(node)).collect()
    }
}

const QUEUED: &[NodeState] = &[NodeState::Queued];
const RUN: &[NodeState] = &[NodeState::Queued, NodeState::Started];
const DONE: &[NodeState] = &[NodeState::Queued, NodeState::Started, NodeState::Done];
/// `a` → `b` → `c`, plain values.
const CHAIN: &[(&str, &[u32], bool)] = &[("a", &[], false), ("b", &[0], false), ("c", &[1], false)];

#[test]
fn rule_11_only_the_lost_node_runs_again_when_its_producer_lives() {
    let mut table = Table::new(CHAIN, &["a", "b", "c", "b"]);
    let job = table.submit();
    table.report(job, 0, DONE);
    table.report(job, 1, RUN);
    table.down(2);
    assert_eq!(
        table.epochs(job),
        [1, 2, 1],
        "the producer's worker retains what it sent"
    );
}

#[test]
fn rule_11_an_ended_producer_on_a_dead_worker_runs_again_for_a_lost_consumer() {
    let mut table = Table::new(CHAIN, &["a", "b", "c", "a", "b"]);
    let job = table.submit();
    table.report(job, 0, DONE);
    table.report(job, 1, RUN);
    table.down(1);
    assert_eq!(table.epochs(job), [1, 1, 1], "the consumer has its input");
    table.down(2);
    assert_eq!(table.epochs(job), [2, 2, 1], "back to the job's inputs");
}

#[test]
fn rule_11_an_ended_producer_runs_again_while_its_consumer_may_lack_its_frame() {
    let mut table = Table::new(CHAIN, &["a", "b", "c", "a"]);
    let job = table.submit();
    table.report(job, 0, DONE);
    table.down(1);
    assert_eq!(table.epochs(job), [2, 1, 1]);

    let job = table.submit();
    table.report(job, 0, DONE);
    table.report(job, 1, QUEUED);
    table.down(4);
    assert_eq!(table.epochs(job), [1, 1, 1]);
}

#[test]
fn rule_11_a_streams_producer_runs_again_until_its_consumer_has_ended() {
    let streams: &[(&str, &[u32], bool)] =
        &[("a", &[], true), ("b", &[0], false), ("c", &[1], false)];
    let mut table = Table::new(streams, &["a", "b", "c", "a", "a"]);
    let job = table.submit();
    table.report(job, 0, DONE);
    table.report(job, 1, RUN);
    table.down(1);
    assert_eq!(table.epochs(job), [2, 1, 1]);
    table.report(job, 0, DONE);
    table.report(job, 1, &[NodeState::Done]);
    table.down(4);
    assert_eq!(table.epochs(job), [2, 1, 1]);
}

/// `a` → `b` → `c`: two streams.
const STREAMS: &[(&str, &[u32], bool)] = &[("a", &[], true), ("b", &[0], true), ("c", &[1], false)];

#[test]
fn rule_11_a_producer_that_was_stopped_for_its_reader_runs_again_with_it() {
    let mut table = Table::new(STREAMS, &["a", "b", "c", "b", "c"]);
    let job = table.submit();
    table.report(job, 0, RUN);
    // It has read enough, so its producer is stopped, which keeps no end of what it sent.
    table.report(job, 1, DONE);
    table.report(job, 0, &[NodeState::FirstFrame, NodeState::Stopped]);
    table.report(job, 2, RUN);
    table.down(3);
    assert_eq!(table.epochs(job), [1, 1, 2], "what was read is kept");
    table.down(2);
    assert_eq!(
        table.epochs(job),
        [2, 2, 2],
        "a new attempt may read further than the one before"
    );
}

#[test]
fn rule_11_a_producer_that_was_closed_does_not_run_again_with_its_reader() {
    let mut table = Table::new(STREAMS, &["a", "b", "c", "b"]);
    let job = table.submit();
    table.report(job, 0, &[NodeState::Stopped]);
    table.report(job, 1, RUN);
    table.down(2);
    assert_eq!(
        table.epochs(job),
        [1, 2, 1],
        "it has said so on all outputs"
    );
}

#[test]
fn a_lost_node_waits_for_a_worker_and_keeps_its_number_of_attempts() {
    let mut table = Table::new(CHAIN, &["a", "b", "c"]);
    let job = table.submit();
    for attempt in 1..=3 {
        assert_eq!(table.epochs(job)[1], attempt);
        table.down(attempt + if attempt == 1 { 1 } else { 8 });
        if attempt < 3 {
            assert!(matches!(
                table.control.job(job).unwrap().outcome,
                Outcome::Waiting(_)
            ));
            table.up(attempt + 9, "b");
        }
    }
    let Outcome::Failed(fault) = &table.control.job(job).unwrap().outcome else {
        panic!("it goes on")
    };
    assert_eq!(
        (fault.code, &*fault.node, &*fault.worker),
        (Code::WorkerLost, "n1", "w11")
    );
    assert_eq!(table.control.outstanding(), 0);
}

#[test]
fn rule_12_a_stale_report_of_an_earlier_attempt_changes_nothing() {
    let mut table = Table::new(CHAIN, &["a", "b", "c", "b"]);
    let job = table.submit();
    table.report(job, 0, DONE);
    table.down(2);
    let stale = NodeUpdate {
        worker: WorkerId(2),
        job,
        node: 1,
        key: Key::ROOT,
        epoch: 1,
        state: NodeState::Done,
        at: table.now,
        features: Vec::new(),
        fault: None,
        traffic: None,
    };
    assert!(table.step(Event::Node(stale)).is_empty());
    assert_eq!(
        table.control.job(job).unwrap().current(1).unwrap().state,
        NodeState::Bound
    );
}

#[test]
fn what_dies_after_the_last_result_takes_nothing_from_the_client() {
    let mut table = Table::new(CHAIN, &["a", "b", "c"]);
    let job = table.submit();
    table.report(job, 0, DONE);
    table.report(job, 1, DONE);
    table.report(job, 2, RUN);
    table.step(Event::ResultOver { job, port: 0 });
    assert!(matches!(
        table.control.job(job).unwrap().outcome,
        Outcome::Settling
    ));
    table.down(3);
    assert!(matches!(
        table.control.job(job).unwrap().outcome,
        Outcome::Succeeded
    ));
}

#[test]
fn a_higher_priority_goes_first_and_equals_in_order_of_arrival() {
    let mut table = Table::new(CHAIN, &["a", "b", "c"]);
    let (first, second) = (table.submit(), table.submit());
    let effects = table.step(Event::Submit(Submission {
        ticket: 3,
        client: ClientId(1),
        flow: FlowId(0),
        tenant: "".into(),
        priority: 1,
        deadline_ms: 0,
        idempotency_key: "".into(),
        detach: false,
    }));
    let Some(Effect::Accepted { job: urgent, .. }) = effects.first() else {
        panic!()
    };
    let order = |job: JobId| table.control.job(job).unwrap().order;
    assert!(order(*urgent) < order(first) && order(first) < order(second));
}
