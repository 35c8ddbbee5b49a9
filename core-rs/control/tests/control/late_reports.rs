//! A job ends with its last result. Workers whose events come later still complete its report, and change nothing else.

use crate::common::flow;
use crate::common::table::{DONE, Table};
use omniflow_control::{Event, Micros, NodeState, NodeUpdate, Outcome, PortTraffic, Traffic};
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
    assert!(matches!(
        table.control.job(table.job).unwrap().outcome,
        Outcome::Succeeded
    ));
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
