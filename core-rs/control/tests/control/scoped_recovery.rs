//! What runs again when a worker dies in the middle of a fan-out, a route or a loop.

use crate::common::flows::{agent, deterministic, pdf, routed};
use crate::common::table::{DONE, RUN, SENT, Table};
use omniflow_control::{Code, Event, NodeState};

const SPLIT: u32 = 0;
const OCR: u32 = 2;
const CLEAN: u32 = 3;
const COLLECT: u32 = 4;
const ANSWER: u32 = 5;
/// Workers 1 to 4 for the roles, 5 to 8 in reserve.
const WORKERS: &[&str] = &[
    "split", "ocr", "clean", "answer", "split", "ocr", "clean", "answer",
];

/// A job of which `drawn` are not deterministic, with pages 0 and 1 asked for.
fn two_pages(drawn: &[usize]) -> Table {
    let mut table = Table::new(deterministic(pdf(), drawn), WORKERS);
    table.report(SPLIT, &[], RUN);
    table.want(OCR, &[&[0], &[1]]);
    table
}

fn at(table: &Table, node: u32) -> [(u32, u32); 2] {
    [table.at(node, &[0]), table.at(node, &[1])]
}

#[test]
fn rule_12_only_the_keys_of_the_dead_worker_run_again() {
    let mut table = two_pages(&[]);
    assert_eq!(at(&table, OCR), [(2, 1), (6, 1)]);
    table.report(OCR, &[0], RUN);
    table.report(OCR, &[1], RUN);
    table.down(2);
    assert_eq!(at(&table, OCR), [(6, 2), (6, 1)]);
    assert_eq!((table.at(SPLIT, &[]).1, table.at(ANSWER, &[]).1), (1, 1));
    for told in [1, 3, 4, 6] {
        assert!(table.knows(told, OCR, &[0]) || told == 4, "worker {told}");
    }
}

#[test]
fn rule_12_a_page_that_is_done_runs_again_while_its_value_may_be_missed() {
    let mut table = two_pages(&[]);
    table.report(OCR, &[0], DONE);
    table.report(CLEAN, &[0], &[NodeState::Queued]);
    table.down(2);
    assert_eq!(at(&table, OCR)[0].1, 1, "its reader has it");
    table.report(CLEAN, &[0], &[NodeState::Started, NodeState::Done]);
    let (clean, _) = table.at(CLEAN, &[0]);
    table.down(clean);
    assert_eq!(table.at(CLEAN, &[0]).1, 2, "it may not have been collected");
    assert_eq!(table.at(OCR, &[0]).1, 2, "and what it had read is gone");
    assert_eq!(table.at(OCR, &[1]).1, 1);
}

#[test]
fn rule_12_the_producer_of_a_fan_out_runs_again_until_that_has_ended() {
    let mut table = two_pages(&[]);
    table.report(SPLIT, &[], &[NodeState::FirstFrame, NodeState::Done]);
    table.down(1);
    assert_eq!(table.at(SPLIT, &[]), (5, 2), "there may be keys to come");
    assert_eq!(at(&table, OCR).map(|(_, epoch)| epoch), [1, 1]);
    assert!(table.knows(5, OCR, &[0]) && table.knows(5, OCR, &[1]));
    table.leave(1, &[], COLLECT);
    table.report(SPLIT, &[], DONE);
    table.down(5);
    assert_eq!(table.at(SPLIT, &[]), (5, 2));
}

#[test]
fn rule_12_what_read_from_a_page_that_is_drawn_anew_runs_again_too() {
    let mut table = two_pages(&[OCR as usize]);
    table.report(OCR, &[0], SENT);
    table.down(2);
    let epochs = |table: &Table| {
        let keyed = [OCR, CLEAN].map(|node| at(table, node).map(|(_, epoch)| epoch));
        (keyed, table.at(ANSWER, &[]).1)
    };
    assert_eq!(epochs(&table), ([[2, 1], [2, 1]], 1));
}

#[test]
fn rule_12_a_reader_of_a_scope_that_has_ended_reads_again_what_others_keep() {
    let mut table = two_pages(&[]);
    table.report(SPLIT, &[], DONE);
    for key in [[0], [1]] {
        table.report(OCR, &key, DONE);
        table.report(CLEAN, &key, DONE);
    }
    table.leave(1, &[], COLLECT);
    table.report(ANSWER, &[], SENT);
    table.step(Event::ResultFrame { job: table.job });
    let (answer, _) = table.at(ANSWER, &[]);
    table.down(answer);
    assert_eq!(table.at(ANSWER, &[]), (12 - answer, 2));
    assert!(
        !table.starts_over(),
        "the pages are kept by those that read them"
    );
    assert_eq!(table.control.outstanding(), 1);
}

#[test]
fn rule_12_a_job_starts_over_when_what_left_a_scope_is_gone_with_its_worker() {
    let mut table = two_pages(&[]);
    table.report(SPLIT, &[], DONE);
    for key in [[0], [1]] {
        table.report(OCR, &key, DONE);
        table.report(CLEAN, &key, DONE);
    }
    table.leave(1, &[], COLLECT);
    table.report(ANSWER, &[], RUN);
    table.down(3);
    assert!(!table.starts_over(), "its pages were collected");
    let (answer, _) = table.at(ANSWER, &[]);
    table.down(answer);
    assert!(table.starts_over());
    assert!(
        table.waits(),
        "until every worker has let go of the first run"
    );
    table.let_go();
    assert_eq!(table.at(SPLIT, &[]).1, 2, "epochs go on");
    assert!(table.at(ANSWER, &[]).1 >= 2);
    assert_eq!(table.control.outstanding(), 2);
    table.want(OCR, &[&[0]]);
    assert!(table.at(OCR, &[0]).1 >= 2);
    assert!(table.knows(table.at(OCR, &[0]).0, SPLIT, &[]));
}

#[test]
fn rule_12_a_job_that_would_contradict_its_client_does_not_start_over() {
    let mut table = two_pages(&[CLEAN as usize]);
    table.report(SPLIT, &[], DONE);
    table.report(OCR, &[0], DONE);
    table.report(CLEAN, &[0], DONE);
    table.leave(1, &[], COLLECT);
    table.report(ANSWER, &[], SENT);
    table.step(Event::ResultFrame { job: table.job });
    table.down(3);
    table.down(7);
    table.down(4);
    assert_eq!(table.code(), Some(Code::NotReplayable));
    assert_eq!(table.control.outstanding(), 0);
}

#[test]
fn rule_12_a_node_that_may_run_once_only_does_not_run_again() {
    let mut spec = pdf();
    spec.nodes[OCR as usize].options.max_attempts = 1;
    let mut table = Table::new(deterministic(spec, &[]), WORKERS);
    table.want(OCR, &[&[0], &[1]]);
    table.down(2);
    assert_eq!(table.code(), Some(Code::WorkerLost));
}

#[test]
fn rule_12_a_lost_round_runs_again_under_one_bind() {
    let mut table = Table::new(
        deterministic(agent(), &[]),
        &["begin", "next", "until", "end", "next", "until"],
    );
    table.report(0, &[], DONE);
    for round in 0..3 {
        table.report_of(2, &[], &[round], DONE);
        table.report_of(3, &[], &[round], DONE);
    }
    table.down(2);
    assert_eq!(table.at(2, &[]), (5, 2));
    // The loop runs beside it: it begins with the first round again.
    assert_eq!((table.at(0, &[]).1, table.at(3, &[]).1), (1, 2));
    for told in [1, 3, 4, 5] {
        assert!(table.knows(told, 2, &[]));
    }
    table.report_of(2, &[], &[0], DONE);
    let (until, _) = table.at(3, &[]);
    table.down(until);
    assert_eq!(
        (table.at(2, &[]).1, table.at(3, &[]).1),
        (2, 3),
        "only its round"
    );
}

#[test]
fn rule_12_a_loop_that_draws_anew_runs_again_with_all_that_read_from_it() {
    let mut table = Table::new(
        deterministic(agent(), &[3]),
        &["begin", "next", "until", "end", "until"],
    );
    table.report(0, &[], DONE);
    table.report_of(2, &[], &[0], DONE);
    table.report_of(3, &[], &[0], DONE);
    table.down(3);
    assert!(
        table.starts_over(),
        "the loop is not lost, and may just be over"
    );
    table.let_go();
    let epochs = [0, 2, 3, 4].map(|node| table.at(node, &[]).1);
    assert_eq!((epochs, table.code()), ([2, 2, 2, 2], None));
}

#[test]
fn rule_12_a_choice_is_no_race() {
    let mut table = Table::new(
        deterministic(routed(), &[]),
        &["plan", "write", "draw", "tell", "tell"],
    );
    table.want(2, &[&[]]);
    table.report(0, &[], DONE);
    table.report(2, &[], DONE);
    table.report(5, &[], SENT);
    let (tell, _) = table.at(5, &[]);
    table.step(Event::ResultFrame { job: table.job });
    table.down(tell);
    assert_eq!((table.code(), table.at(5, &[]).1), (None, 2));
}

#[test]
fn rule_13_what_a_dead_worker_says_changes_nothing() {
    let mut table = two_pages(&[]);
    table.report(OCR, &[0], RUN);
    let old = table.bind(OCR, &[0]).unwrap();
    table.down(2);
    let before = (table.at(OCR, &[0]), table.control.outstanding());
    for state in [NodeState::Done, NodeState::Failed, NodeState::Stopped] {
        let said = table.update(old.worker.0, OCR, &[0], old.epoch, state, None);
        table.step(said);
        assert!(table.effects.is_empty());
    }
    assert_eq!((table.at(OCR, &[0]), table.control.outstanding()), before);
}

#[test]
fn a_control_node_that_fails_fails_the_job_and_only_from_where_it_runs() {
    let mut table = two_pages(&[]);
    let failed = |table: &Table, worker| {
        table.update(
            worker,
            COLLECT,
            &[],
            1,
            NodeState::Failed,
            Some(Code::BadRoute),
        )
    };
    let stranger = failed(&table, 1);
    table.step(stranger);
    assert_eq!(table.code(), None);
    let home = failed(&table, table.at(ANSWER, &[]).0);
    table.step(home);
    assert_eq!(table.code(), Some(Code::BadRoute));
    assert_eq!(&*table.fault().node, "collect");
    assert_eq!(table.control.outstanding(), 0);
}
