//! Rule 14: what workers hold of a restored job goes on there; what nobody holds is lost.

use crate::common::second_life::second_life;
use crate::common::table::{DONE, Table};
use omniflow_control::{Effect, Event, HeldBind, NodeState};
use omniflow_flow::Key;
use omniflow_placement::WorkerId;

const SPLIT: u32 = 0;
const OCR: u32 = 2;
const CLEAN: u32 = 3;
const COLLECT: u32 = 4;
const ANSWER: u32 = 5;

fn held(node: u32, key: &[u32], worker: u32, state: NodeState) -> HeldBind {
    HeldBind {
        node,
        key: Key::new(key),
        worker: WorkerId(worker),
        epoch: 1,
        state,
    }
}

fn in_mid_run() -> Vec<HeldBind> {
    vec![
        held(SPLIT, &[], 1, NodeState::Done),
        held(OCR, &[0], 2, NodeState::Started),
        held(CLEAN, &[0], 3, NodeState::Bound),
        held(ANSWER, &[], 4, NodeState::Bound),
    ]
}

fn adopt(table: &mut Table, held: Vec<HeldBind>) {
    let job = table.job;
    let workers = held.iter().map(|bind| bind.worker).collect();
    table.step(Event::Adopt { job, held, workers });
    table.step(Event::Resume);
}

#[test]
fn rule_14_what_workers_hold_goes_on_there_and_nothing_is_run_again() {
    let mut table = second_life();
    adopt(&mut table, in_mid_run());
    for (node, key, worker) in [
        (SPLIT, &[][..], 1),
        (OCR, &[0], 2),
        (CLEAN, &[0], 3),
        (ANSWER, &[], 4),
    ] {
        assert_eq!(table.at(node, key), (worker, 1));
        assert!(table.knows(worker, node, key), "told under the new term");
    }
    assert!(table.knows(1, OCR, &[0]) && table.knows(3, OCR, &[0]));
    assert_eq!(table.control.outstanding(), 3);
    // It ends as if nothing had been: what is asked for meanwhile is bound anew.
    table.want(OCR, &[&[1]]);
    for node in [OCR, CLEAN] {
        table.report(node, &[0], DONE);
        table.report(node, &[1], DONE);
    }
    table.leave(1, &[], COLLECT);
    table.report(ANSWER, &[], DONE);
    table.step(Event::ResultFrame { job: table.job });
    table.step(Event::ResultOver {
        job: table.job,
        port: 0,
    });
    let ended = |effect: &Effect| matches!(effect, Effect::Ended { .. });
    assert!(table.effects.iter().any(ended));
    assert_eq!((table.code(), table.control.outstanding()), (None, 0));
}

#[test]
fn rule_14_what_no_living_worker_holds_is_lost_and_runs_again_alone() {
    let mut table = second_life();
    let mut some = in_mid_run();
    some.retain(|bind| bind.node != ANSWER);
    adopt(&mut table, some);
    assert_eq!(
        table.at(ANSWER, &[]),
        (4, 1_001),
        "higher than in its earlier life"
    );
    assert_eq!(table.at(SPLIT, &[]), (1, 1));
    assert_eq!(table.at(OCR, &[0]), (2, 1));
    // And it can be lost again.
    table.up(9, "answer");
    table.down(4);
    assert_eq!(table.at(ANSWER, &[]), (9, 1_002));
    // So can what was adopted: its epochs go on behind those of all lives.
    table.up(8, "ocr");
    table.down(2);
    assert_eq!(table.at(OCR, &[0]), (8, 1_001));
}

#[test]
fn rule_14_of_two_workers_that_claim_a_bind_the_later_attempt_counts() {
    let mut table = second_life();
    table.up(9, "answer");
    let mut twice = in_mid_run();
    twice.push(HeldBind {
        worker: WorkerId(9),
        epoch: 2,
        ..held(ANSWER, &[], 9, NodeState::Started)
    });
    adopt(&mut table, twice);
    assert_eq!(table.at(ANSWER, &[]), (9, 2));
    assert_eq!((table.load(4), table.load(9)), (0, 1));
}

#[test]
fn what_cannot_be_of_the_flow_or_is_of_a_dead_worker_is_not_adopted() {
    let mut table = second_life();
    let odd = vec![
        held(COLLECT, &[], 1, NodeState::Bound),
        held(OCR, &[], 2, NodeState::Bound),
        held(99, &[], 2, NodeState::Bound),
        held(ANSWER, &[], 55, NodeState::Bound),
    ];
    adopt(&mut table, odd);
    assert_eq!(table.at(SPLIT, &[]), (1, 1_001));
    assert_eq!(table.at(ANSWER, &[]), (4, 1_001));
}
