//! Binds by key: asked for while a job runs, spread over workers, forgotten when their scope has ended.

use crate::common::flows::{agent, deterministic, pdf, routed};
use crate::common::table::{DONE, RUN, Table};
use omniflow_control::{Event, KEPT_ATTEMPTS, NodeState, Outcome};
use omniflow_flow::{Key, NodeId};
use omniflow_placement::WorkerId;

const SPLIT: u32 = 0;
const OCR: u32 = 2;
const CLEAN: u32 = 3;
const COLLECT: u32 = 4;
const ANSWER: u32 = 5;
/// One worker for each role, from 1 on, and a second one for `ocr`.
const WORKERS: &[&str] = &["split", "ocr", "clean", "answer", "ocr"];

fn pdf_table() -> Table {
    Table::new(deterministic(pdf(), &[]), WORKERS)
}

#[test]
fn only_role_nodes_outside_of_fan_outs_and_branches_are_bound_at_admission() {
    let table = pdf_table();
    let nodes = |table: &Table| -> Vec<u32> {
        let job = table.control.job(table.job).unwrap();
        job.binds().map(|bind| bind.node).collect()
    };
    assert_eq!(nodes(&table), [SPLIT, ANSWER]);
    let table = Table::new(
        deterministic(routed(), &[]),
        &["plan", "write", "draw", "tell"],
    );
    assert_eq!(nodes(&table), [0, 5]);
    let table = Table::new(
        deterministic(agent(), &[]),
        &["begin", "next", "until", "end"],
    );
    assert_eq!(nodes(&table), [0, 2, 3, 4]);
}

#[test]
fn rule_15_a_key_that_is_asked_for_is_bound_with_all_its_scope_and_told_to_those_it_concerns() {
    let mut table = pdf_table();
    table.want(OCR, &[&[0], &[1]]);
    assert_ne!(table.at(OCR, &[0]).0, table.at(OCR, &[1]).0, "they spread");
    for key in [[0], [1]] {
        let (ocr, _) = table.at(OCR, &key);
        for told in [1, ocr, 3] {
            assert!(table.knows(told, OCR, &key), "worker {told}, key {key:?}");
        }
        for told in [ocr, 3, 4] {
            assert!(table.knows(told, CLEAN, &key), "worker {told}, key {key:?}");
        }
        for told in [1, ocr, 3, 4] {
            assert!(table.knows(told, SPLIT, &[]) && table.knows(told, ANSWER, &[]));
        }
        assert!(!table.knows(7 - ocr, OCR, &key), "nobody else");
    }
    let before = table.told.clone();
    table.want(CLEAN, &[&[0], &[1]]);
    table.want(OCR, &[&[1]]);
    assert!(table.effects.is_empty(), "asking twice changes nothing");
    assert_eq!(table.told, before);
}

#[test]
fn rule_15_a_key_bound_later_knows_those_of_its_scope_that_were_bound_before() {
    let mut table = pdf_table();
    table.want(OCR, &[&[7]]);
    table.up(9, "clean");
    table.down(3);
    let (clean, epoch) = table.at(CLEAN, &[7]);
    assert_eq!((clean, epoch), (9, 2));
    assert!(table.knows(9, OCR, &[7]), "its producer");
    let (ocr, _) = table.at(OCR, &[7]);
    assert!(table.knows(ocr, CLEAN, &[7]) && table.knows(4, CLEAN, &[7]));
}

#[test]
fn what_is_no_bind_is_left_alone() {
    let mut table = pdf_table();
    for (node, key) in [
        (1, &[0][..]),
        (COLLECT, &[]),
        (OCR, &[]),
        (OCR, &[0, 1]),
        (99, &[0]),
        (SPLIT, &[0]),
        (ANSWER, &[]),
    ] {
        table.want(node, &[key]);
        assert!(table.effects.is_empty(), "node {node}, key {key:?}");
    }
}

#[test]
fn a_worker_that_joins_is_used_by_the_next_keys() {
    let mut table = pdf_table();
    table.want(OCR, &[&[0], &[1], &[2], &[3]]);
    assert_eq!((table.load(2), table.load(5)), (2, 2));
    table.up(9, "ocr");
    table.want(OCR, &[&[4]]);
    assert_eq!(table.at(OCR, &[4]).0, 9);
    assert!(table.knows(9, SPLIT, &[]), "it was told of the job");
}

#[test]
fn a_role_without_a_worker_is_waited_for_and_named_at_the_deadline() {
    let mut table = Table::new(deterministic(pdf(), &[]), &WORKERS[..4]);
    table.down(2);
    table.want(OCR, &[&[0]]);
    assert!(table.waits());
    assert!(table.bind(OCR, &[0]).is_none() && table.bind(CLEAN, &[0]).is_none());
    table.want(OCR, &[&[1]]);
    table.up(9, "ocr");
    assert_eq!(table.at(OCR, &[0]), (9, 1));
    assert_eq!(table.at(OCR, &[1]), (9, 1));
    table.down(9);
    assert!(table.waits());
    table.now = table.now.plus_ms(600_001);
    table.step(Event::Tick);
    let Outcome::Failed(fault) = &table.control.job(table.job).unwrap().outcome else {
        panic!("it goes on")
    };
    assert!(fault.message.contains("\"ocr\""), "{fault}");
    assert_eq!(&*fault.node, "ocr");
    assert_eq!(table.control.outstanding(), 0);
}

#[test]
fn every_bind_counts_once_and_a_scope_that_has_ended_is_forgotten() {
    let mut table = pdf_table();
    table.want(OCR, &[&[0], &[1]]);
    assert_eq!(table.control.outstanding(), 6);
    table.report(OCR, &[0], DONE);
    table.report(CLEAN, &[0], DONE);
    assert_eq!(table.control.outstanding(), 4);
    table.report(OCR, &[1], DONE);
    table.report(CLEAN, &[1], RUN);
    table.leave(1, &[], COLLECT);
    assert!(table.bind(OCR, &[0]).is_none() && table.bind(OCR, &[1]).is_none());
    assert_eq!(table.control.outstanding(), 3, "one is about to report");
    table.report(CLEAN, &[1], &[NodeState::Done]);
    assert!(table.bind(CLEAN, &[1]).is_none());
    assert_eq!(table.control.outstanding(), 2);
    table.want(OCR, &[&[2]]);
    assert!(table.effects.is_empty(), "nobody waits for it any more");
    let job = table.control.job(table.job).unwrap();
    let done = |attempt: &&omniflow_control::Attempt| attempt.state == NodeState::Done;
    assert_eq!(job.attempts.iter().filter(done).count(), 4);
}

#[test]
fn an_activation_that_is_withdrawn_counts_no_longer() {
    let mut table = pdf_table();
    table.want(OCR, &[&[0]]);
    table.report(OCR, &[0], RUN);
    table.report(OCR, &[0], &[NodeState::Stopped]);
    table.report(CLEAN, &[0], &[NodeState::Stopped]);
    assert_eq!(table.control.outstanding(), 2);
    assert_eq!(table.at(OCR, &[0]).1, 1, "and no other attempt follows");
    let bind = table.bind(OCR, &[0]).unwrap();
    table.down(bind.worker.0);
    assert!(table.code().is_none());
}

#[test]
fn what_was_closed_before_it_was_bound_is_not_bound_ahead_of_need() {
    let mut table = pdf_table();
    table.step(Event::Closed {
        job: table.job,
        node: CLEAN,
        key: Key::new(&[3]),
    });
    table.want(OCR, &[&[3]]);
    assert!(table.bind(OCR, &[3]).is_some() && table.bind(CLEAN, &[3]).is_none());
    table.want(CLEAN, &[&[3]]);
    assert!(
        table.bind(CLEAN, &[3]).is_some(),
        "unless it is wanted all the same"
    );
}

#[test]
fn a_gated_node_is_bound_when_its_branch_is_taken() {
    let mut table = Table::new(
        deterministic(routed(), &[]),
        &["plan", "write", "draw", "tell"],
    );
    assert_eq!(table.load(2) + table.load(3), 0);
    table.want(3, &[&[]]);
    assert_eq!(table.at(3, &[]), (3, 1));
    assert!(table.knows(1, 3, &[]) && table.knows(4, 3, &[]) && table.knows(3, 0, &[]));
    table.report(3, &[], DONE);
    assert_eq!(table.load(3), 0);
}

#[test]
fn a_loops_nodes_are_bound_once_and_each_round_is_an_attempt_in_the_report() {
    let mut table = Table::new(
        deterministic(agent(), &[]),
        &["begin", "next", "until", "end"],
    );
    for round in 0..3 {
        table.report_of(2, &[], &[round], DONE);
        assert_eq!(table.load(2), 1, "it is bound for the rounds to come");
    }
    assert_eq!(table.at(2, &[]), (2, 1));
    let job = table.control.job(table.job).unwrap();
    let rounds = job.attempts.iter().filter(|attempt| attempt.node == 2);
    let keys: Vec<Key> = rounds.map(|attempt| attempt.key.clone()).collect();
    assert_eq!(keys, [Key::new(&[0]), Key::new(&[1]), Key::new(&[2])]);
    table.report_of(2, &[], &[3], RUN);
    table.leave(1, &[], 1);
    assert_eq!((table.load(2), table.load(3)), (0, 0));
    table.report_of(2, &[], &[3], &[NodeState::Done]);
    let job = table.control.job(table.job).unwrap();
    assert_eq!(job.attempts.last().unwrap().state, NodeState::Done);
    assert_eq!(table.control.worker(WorkerId(2)).unwrap().completed, 4);
}

#[test]
fn the_report_of_a_large_fan_out_is_bounded_and_counts_the_rest() {
    let mut table = pdf_table();
    let keys = KEPT_ATTEMPTS as u32;
    let all: Vec<[u32; 1]> = (0..keys).map(|key| [key]).collect();
    let all: Vec<&[u32]> = all.iter().map(|key| &key[..]).collect();
    table.want(OCR, &all);
    let job = table.control.job(table.job).unwrap();
    assert_eq!(job.attempts.len(), KEPT_ATTEMPTS);
    assert_eq!(job.unlisted, 2 + u64::from(keys));
    let last = &[keys - 1];
    table.report(OCR, last, DONE);
    table.report(CLEAN, last, DONE);
    assert_eq!(table.control.outstanding(), 2 * u64::from(keys));
    table.leave(1, &[], COLLECT);
    assert_eq!(table.control.outstanding(), 2);
}

#[test]
fn a_node_is_bound_near_another_where_it_can_be() {
    let mut spec = pdf();
    spec.nodes[CLEAN as usize].options.near = vec![NodeId(OCR)];
    spec.nodes[OCR as usize].options.near = vec![NodeId(SPLIT)];
    let mut table = Table::new(deterministic(spec, &[]), WORKERS);
    (1..6).for_each(|worker| table.down(worker));
    for (worker, role, host) in [
        (1, "split", "here"),
        (2, "ocr", "there"),
        (3, "ocr", "here"),
        (4, "answer", ""),
        (5, "clean", "there"),
        (6, "clean", "here"),
    ] {
        table.step(Event::WorkerUp {
            worker: WorkerId(worker),
            name: format!("w{worker}").into(),
            host: host.into(),
            roles: vec![role.to_owned()],
        });
    }
    table.submit();
    table.want(OCR, &[&[0], &[1], &[2]]);
    for key in 0..3 {
        assert_eq!((table.at(OCR, &[key]).0, table.at(CLEAN, &[key]).0), (3, 6));
    }
    table.down(3);
    assert_eq!(table.at(OCR, &[0]).0, 2, "only preferred");
}
