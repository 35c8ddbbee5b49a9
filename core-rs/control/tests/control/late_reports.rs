//! A job ends with its last result, and waits a moment for the words of workers that ran. Those that come later still
//! complete its report, and change nothing else.

use crate::common::flow;
use crate::common::table::{DONE, Table};
use omniflow_control::{
    Event, Limits, Micros, NodeState, NodeUpdate, Outcome, PortTraffic, Traffic,
};
use omniflow_flow::Key;

fn done(table: &Table, node: u32, state: NodeState, traffic: Option<Box<Traffic>>) -> Event {
    let bind = table.bind(node, &[]).unwrap();
    Event::Node(NodeUpdate {
        worker: bind.worker,
        job: table.job,
        node,
        key: Key::new(&[]),
        epoch: bind.epoch,
        state,
        at: table.now,
        features: Vec::new(),
        fault: None,
        traffic,
    })
}

fn succeeded(table: &Table) -> bool {
    let job = table.control.job(table.job).unwrap();
    matches!(job.outcome, Outcome::Succeeded)
}

#[test]
fn a_job_ends_at_once_when_everybody_has_said_what_they_did_be_it_after_its_result() {
    let graph = flow("two", &[("a", &[], false), ("b", &[0], false)]);
    let mut table = Table::new(graph, &["a", "b"]);
    table.report(1, &[], DONE);
    let (job, port) = (table.job, 0);
    table.step(Event::ResultOver { job, port });
    assert!(!succeeded(&table));
    table.report(0, &[], DONE);
    assert!(succeeded(&table));
    let job = table.control.job(table.job).unwrap();
    let states: Vec<NodeState> = job.attempts.iter().map(|each| each.state).collect();
    assert_eq!(states, [NodeState::Done, NodeState::Done]);
}

#[test]
fn a_job_waits_for_nobody_whose_path_was_closed() {
    let graph = flow("two", &[("a", &[], false), ("b", &[], false)]);
    let mut table = Table::new(graph, &["a", "b"]);
    table.report(0, &[], &[NodeState::Stopped]);
    table.report(1, &[], DONE);
    let job = table.job;
    for port in [0, 1] {
        table.step(Event::ResultOver { job, port });
    }
    assert!(succeeded(&table));
}

#[test]
fn what_a_worker_says_after_the_jobs_end_is_in_its_report() {
    let graph = flow("two", &[("a", &[], false), ("b", &[0], false)]);
    let mut table = Table::new(graph, &["a", "b"]);
    let sent = Traffic {
        outputs: vec![PortTraffic {
            port: 0,
            frames: 1,
            bytes: 5,
            first: table.now,
            last: table.now,
            sampled: Vec::new(),
        }],
        inputs: Vec::new(),
    };
    let late = [
        done(&table, 0, NodeState::Queued, None),
        done(&table, 0, NodeState::Done, Some(Box::new(sent))),
    ];
    // The link of `a` is slower than that of `b`, which brings the result and the job's end.
    table.report(1, &[], DONE);
    table.step(Event::ResultOver {
        job: table.job,
        port: 0,
    });
    assert!(!succeeded(&table), "it waits for the word of `a`");
    table.now = table.now.plus_ms(Limits::default().settle_ms);
    table.step(Event::Tick);
    assert!(succeeded(&table), "it does not wait for ever");
    for event in late {
        table.step(event);
        assert!(table.effects.is_empty(), "{:?}", table.effects);
    }
    let job = table.control.job(table.job).unwrap();
    let first = job
        .attempts
        .iter()
        .find(|attempt| attempt.node == 0)
        .unwrap();
    assert_eq!(first.state, NodeState::Done);
    assert!(first.queued_us > 0 && first.ended_us >= first.queued_us);
    let traffic = first.traffic.as_ref().unwrap();
    assert_eq!(
        (traffic.outputs[0].frames, traffic.outputs[0].bytes),
        (1, 5)
    );
    assert!(traffic.outputs[0].first > Micros(0));
}
