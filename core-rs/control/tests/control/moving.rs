//! Binds that go to a better worker before anything of them has run (rule 15).

use crate::common::flows::{agent, deterministic, pdf, routed};
use crate::common::table::{DONE, RUN, Table};
use omniflow_control::{Bind, Event, NodeState};
use omniflow_flow::NodeId;

const SPLIT: u32 = 0;
const OCR: u32 = 2;
const COLLECT: u32 = 4;
const ANSWER: u32 = 5;
/// One worker for each role, from 1 on.
const WORKERS: &[&str] = &["split", "ocr", "clean", "answer"];
const NEW: u32 = 9;

/// A job whose one worker for `ocr` has so many pages.
fn fanned(pages: u32) -> Table {
    let mut table = Table::new(deterministic(pdf(), &[]), WORKERS);
    want(&mut table, 0..pages);
    table
}

fn want(table: &mut Table, pages: std::ops::Range<u32>) {
    let keys: Vec<[u32; 1]> = pages.map(|page| [page]).collect();
    let keys: Vec<&[u32]> = keys.iter().map(|key| &key[..]).collect();
    table.want(OCR, &keys);
}

fn pages(binds: &[Bind]) -> Vec<u32> {
    assert!(binds.iter().all(|bind| bind.node == OCR));
    let mut pages: Vec<u32> = binds.iter().map(|bind| bind.key.path()[0]).collect();
    pages.sort_unstable();
    pages
}

#[test]
fn rule_15_a_worker_that_joins_takes_a_fair_share_of_the_keys_that_have_not_started() {
    let mut table = fanned(20);
    table.report(OCR, &[19], RUN);
    table.up(NEW, "ocr");
    let asked = table.recalled();
    assert_eq!(
        pages(&asked),
        (9..19).collect::<Vec<_>>(),
        "what is served last"
    );
    assert_eq!(
        (table.load(2), table.load(NEW)),
        (20, 0),
        "until it gives them back"
    );
    table.give_back(2, &asked);
    assert_eq!((table.load(2), table.load(NEW)), (10, 10));
    for page in 9..19 {
        assert_eq!(table.at(OCR, &[page]), (NEW, 2));
        for told in [1, 2, 3, NEW] {
            assert!(
                table.knows(told, OCR, &[page]),
                "worker {told}, page {page}"
            );
        }
    }
    assert_eq!(table.at(OCR, &[19]), (2, 1));
    table.up(NEW + 1, "ocr");
    let asked = table.recalled();
    assert_eq!(asked.len(), 6, "of both: {asked:?}");
}

#[test]
fn rule_15_what_an_engine_has_taken_by_then_stays() {
    let mut table = fanned(8);
    table.up(NEW, "ocr");
    let asked = table.recalled();
    let (kept, given) = asked.split_first().unwrap();
    table.give_back(2, given);
    table.report(OCR, kept.key.path(), DONE);
    assert_eq!(table.at(OCR, kept.key.path()), (2, 1));
    assert_eq!((table.load(2), table.load(NEW)), (4, 3));
}

#[test]
fn rule_15_only_the_worker_that_has_a_bind_may_give_it_back_and_only_once() {
    let mut table = fanned(8);
    table.up(NEW, "ocr");
    let asked = table.recalled();
    table.give_back(3, &asked);
    assert_eq!(table.load(2), 8);
    table.give_back(2, &asked);
    table.give_back(2, &asked);
    assert_eq!((table.load(2), table.load(NEW)), (4, 4));
    assert!(table.effects.is_empty());
    table.report(OCR, &[7], RUN);
    let bind = table.bind(OCR, &[7]).unwrap();
    table.give_back(NEW, &[bind]);
    assert_eq!(table.at(OCR, &[7]), (NEW, 2), "it had started");
}

#[test]
fn rule_15_loads_are_made_even_when_they_are_far_apart_and_stay_so() {
    let mut table = fanned(4);
    table.up(NEW, "ocr");
    let asked = table.recalled();
    table.give_back(2, &asked);
    want(&mut table, 4..24);
    assert_eq!((table.load(2), table.load(NEW)), (12, 12));
    let mut its: Vec<u32> = (0..24)
        .filter(|page| table.at(OCR, &[*page]).0 == NEW)
        .collect();
    let mut finish = |table: &mut Table, count: usize| {
        for page in its.drain(..count) {
            table.report(OCR, &[page], DONE);
        }
    };
    let tick = |table: &mut Table| {
        table.now = table.now.plus_ms(30);
        table.step(Event::Tick);
        table.recalled()
    };
    finish(&mut table, 4);
    assert!(tick(&mut table).is_empty(), "12 are not far from 8");
    finish(&mut table, 5);
    let outstanding = table.load(NEW);
    assert!(outstanding < 4, "{outstanding}");
    let asked = tick(&mut table);
    assert_eq!(asked.len() as u32, (12 - outstanding) / 2);
    table.give_back(2, &asked);
    assert!(table.load(2).abs_diff(table.load(NEW)) <= 1);
    assert!(tick(&mut table).is_empty(), "nothing goes back");
}

#[test]
fn a_move_is_no_attempt_and_is_one_entry_in_the_report() {
    let mut table = fanned(4);
    table.report(OCR, &[3], &[NodeState::Queued]);
    table.up(NEW, "ocr");
    let asked = table.recalled();
    assert_eq!(pages(&asked), [2, 3]);
    table.give_back(2, &asked);
    let attempts = |table: &Table| {
        let job = table.control.job(table.job).unwrap();
        let of_page = job.attempts.iter();
        let of_page = of_page.filter(|attempt| attempt.node == OCR && attempt.key.path() == [3]);
        of_page.cloned().collect::<Vec<_>>()
    };
    let listed = attempts(&table);
    assert_eq!(listed.len(), 1);
    assert_eq!((&*listed[0].worker_name, listed[0].epoch), ("w9", 2));
    assert_eq!(
        (listed[0].state, listed[0].queued_us),
        (NodeState::Bound, 0)
    );
    // Two workers are lost, and the third attempt is the last.
    for next in [NEW + 1, NEW + 2] {
        table.report(OCR, &[3], RUN);
        let worker = table.at(OCR, &[3]).0;
        table.up(next, "ocr");
        table.down(worker);
        assert_eq!(table.code(), None);
    }
    let worker = table.at(OCR, &[3]).0;
    table.down(worker);
    assert!(table.code().is_some(), "three workers were lost");
}

#[test]
fn what_gathers_loops_or_stands_near_another_stays_where_it_is() {
    let mut table = fanned(1);
    table.up(NEW, "answer");
    (0..4).for_each(|_| table.submit());
    assert!(table.load(4).max(table.load(NEW)) > 1);
    table.up(NEW + 1, "answer");
    assert!(
        table.recalled().is_empty(),
        "pages are collected at its side"
    );

    let mut table = Table::new(
        deterministic(agent(), &[]),
        &["begin", "next", "until", "end"],
    );
    (0..6).for_each(|_| table.submit());
    table.up(NEW, "next");
    assert!(table.recalled().is_empty(), "it is bound for all rounds");

    let mut spec = pdf();
    spec.nodes[OCR as usize].options.near = vec![NodeId(SPLIT)];
    let mut table = Table::new(deterministic(spec, &[]), WORKERS);
    want(&mut table, 0..8);
    table.up(NEW, "ocr");
    assert!(table.recalled().is_empty(), "it was put near another");
}

#[test]
fn jobs_that_wait_in_a_queue_move_too_the_latest_first() {
    let roles = &["plan", "write", "draw", "tell"];
    let mut table = Table::new(deterministic(routed(), &[]), roles);
    let first = table.job;
    (0..5).for_each(|_| table.submit());
    table.up(NEW, "plan");
    let asked = table.recalled();
    assert_eq!(asked.len(), 3);
    table.give_back(1, &asked[2..]);
    let job = table.control.job(table.job).unwrap();
    let plan = job.binds().find(|bind| bind.node == 0).unwrap();
    assert_eq!((plan.worker.0, plan.epoch), (NEW, 2));
    let job = table.control.job(first).unwrap();
    let plan = job.binds().find(|bind| bind.node == 0).unwrap();
    assert_eq!((plan.worker.0, plan.epoch), (1, 1));
}

#[test]
fn a_scope_that_has_ended_gives_nothing_back() {
    let mut table = fanned(8);
    table.leave(1, &[], COLLECT);
    table.up(NEW, "ocr");
    assert!(table.recalled().is_empty());
    assert_eq!(table.at(ANSWER, &[]).1, 1);
}
