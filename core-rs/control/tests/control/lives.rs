//! Jobs of an earlier life of the scheduler, and deadlines.

use crate::common::flows::{agent, deterministic, pdf};
use crate::common::second_life::{WORKERS, second_life};
use crate::common::table::{DONE, RUN, SENT, Table};
use omniflow_control::{Code, Effect, Event, Micros, NodeState};

const OCR: u32 = 2;
const COLLECT: u32 = 4;
const ANSWER: u32 = 5;

#[test]
fn rule_14_nothing_of_a_restored_job_is_placed_before_every_worker_has_reported() {
    let mut table = second_life();
    table.want(OCR, &[&[0]]);
    assert!(table.told.is_empty() && table.waits());
    assert_eq!(table.control.outstanding(), 0);
    table.step(Event::Resume);
    for node in [0, ANSWER] {
        assert_eq!(
            table.at(node, &[]).1,
            1_001,
            "higher than all of its earlier life"
        );
    }
    table.want(OCR, &[&[1]]);
    assert_eq!(table.at(OCR, &[1]).1, 1_001);
}

#[test]
fn rule_14_a_restored_job_runs_from_its_inputs_to_its_end() {
    let mut table = second_life();
    table.step(Event::Resume);
    table.report(0, &[], DONE);
    table.want(OCR, &[&[0]]);
    table.report(OCR, &[0], DONE);
    table.report(3, &[0], DONE);
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
fn rule_16_what_is_left_of_a_deadline_is_told_in_milliseconds() {
    let mut table = Table::new(deterministic(pdf(), &[]), WORKERS);
    let left = |table: &Table| {
        let job = table.control.job(table.job).unwrap();
        job.remaining_ms(table.now)
    };
    assert_eq!(left(&table), 600_000);
    table.now = table.now.plus_ms(250_000);
    assert_eq!(left(&table), 350_000);
    table.want(OCR, &[&[4]]);
    table.report(OCR, &[4], RUN);
    table.now = table.now.plus_ms(350_000);
    assert_eq!(left(&table), 0);
    table.step(Event::Tick);
    assert_eq!(table.code(), Some(Code::DeadlineExceeded));
    let fault = table.fault();
    assert_eq!((&*fault.node, &*fault.worker), ("ocr", "w2"));
    assert!(fault.message.contains("key (4,)"), "{fault}");
}

#[test]
fn rule_11_a_job_starts_over_when_a_worker_has_not_kept_what_must_be_read_again() {
    let mut table = Table::new(deterministic(pdf(), &[]), WORKERS);
    table.want(OCR, &[&[0]]);
    table.report(OCR, &[0], SENT);
    table.up(9, "ocr");
    table.down(2);
    let gone = |table: &Table, epoch| {
        table.update(
            1,
            OCR,
            &[0],
            epoch,
            NodeState::Failed,
            Some(Code::NotReplayable),
        )
    };
    let stale = gone(&table, 1);
    table.step(stale);
    assert!(table.effects.is_empty(), "of an earlier attempt");
    let event = gone(&table, 2);
    table.step(event);
    assert!(table.starts_over() && table.code().is_none());
    table.let_go();
    assert!(table.bind(OCR, &[0]).is_none() && table.at(0, &[]).1 > 2);
    for _ in 0..2 {
        table.want(OCR, &[&[0]]);
        let event = gone(&table, table.at(OCR, &[0]).1);
        table.step(event);
        table.let_go();
    }
    assert_eq!(table.code(), Some(Code::NotReplayable), "not for ever");
}

#[test]
fn a_node_that_has_taken_its_share_of_the_deadline_is_named_and_one_that_was_quick_is_not() {
    let mut spec = pdf();
    spec.nodes[OCR as usize].options.deadline_share = 0.25;
    let mut table = Table::new(deterministic(spec, &[]), WORKERS);
    table.want(OCR, &[&[0], &[1]]);
    table.report(OCR, &[0], RUN);
    table.now = table.now.plus_ms(100_000);
    table.report(OCR, &[1], RUN);
    assert!(
        table.control.next_timer() <= Some(Micros(150_001_000)),
        "of 600 s"
    );
    table.report(OCR, &[0], &[NodeState::Done]);
    table.now = Micros(200_000_000);
    table.step(Event::Tick);
    assert_eq!(table.code(), None, "what it was set for is done");
    table.now = Micros(251_000_000);
    table.step(Event::Tick);
    assert_eq!(table.code(), Some(Code::DeadlineExceeded));
    let fault = table.fault();
    assert_eq!((&*fault.node, &*fault.worker), ("ocr", "w2"));
    assert!(
        fault.message.contains("deadline_share 0.25") && fault.message.contains("150000 of 600000"),
        "{fault}"
    );
}

#[test]
fn a_share_of_the_deadline_never_outlives_the_deadline_nor_a_client_that_is_lost() {
    let mut spec = pdf();
    spec.nodes[OCR as usize].options.deadline_share = 1.0;
    let mut table = Table::new(deterministic(spec, &[]), WORKERS);
    table.want(OCR, &[&[0]]);
    table.report(OCR, &[0], RUN);
    let due = table.control.next_timer();
    assert_eq!(due, Some(table.control.job(table.job).unwrap().deadline));
    table.step(Event::ClientLost(omniflow_control::ClientId(1)));
    assert!(table.control.next_timer() < due);
}

#[test]
fn a_loop_that_hangs_between_two_rounds_is_named_with_what_it_waits_for() {
    let mut table = Table::new(
        deterministic(agent(), &[]),
        &["begin", "next", "until", "end"],
    );
    table.report(0, &[], DONE);
    for round in 0..2 {
        table.report_of(2, &[], &[round], DONE);
        table.report_of(3, &[], &[round], DONE);
    }
    table.report_of(2, &[], &[2], DONE);
    table.now = Micros(601_000_000);
    table.step(Event::Tick);
    let fault = table.fault();
    assert_eq!(
        (fault.code, &*fault.node, &*fault.worker),
        (Code::DeadlineExceeded, "loop", "w3")
    );
    assert!(
        fault.message.contains("loop \"loop\"")
            && fault.message.contains("2 of its rounds are over")
            && fault
                .message
                .contains("node \"until\" on worker \"w3\" waits for its inputs of round 3"),
        "{fault}"
    );
}
