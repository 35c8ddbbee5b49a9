//! Resumable nodes whose workers die (rule 12): who is asked what, what goes on from it, and what does not.

use std::sync::Arc;

use crate::common::build::{FlowBuilder, out, text, texts};
use crate::common::table::{DONE, RUN, SENT, Table};
use omniflow_control::{Code, Effect, Event, NodeState};
use omniflow_flow::{Graph, Key};
use omniflow_placement::WorkerId;

const PLAN: u32 = 0;
const TELL: u32 = 1;
const SPEAK: u32 = 2;
const DRAW: u32 = 3;
/// Workers 1 to 4 for the roles, 5 to 8 in reserve.
const WORKERS: &[&str] = &[
    "plan", "tell", "speak", "draw", "plan", "tell", "speak", "draw",
];

/// `told = tell(plan(ask))`, a stream that is drawn anew by each attempt, is read by `speak` and by `draw`, and is a result
/// if `shown`. What `but` names is not deterministic, either.
fn told(shown: bool, but: &[u32]) -> Arc<Graph> {
    let mut flow = FlowBuilder::new();
    let ask = flow.input("ask", text());
    let plan = flow.node("plan", &[("ask", text(), ask)], &[text()]);
    let tell = flow.node("tell", &[("plan", text(), out(plan, 0))], &[texts()]);
    for name in ["speak", "draw"] {
        let reader = flow.node(name, &[("told", texts(), out(tell, 0))], &[text()]);
        flow.result(name, text(), &[out(reader, 0)]);
    }
    if shown {
        flow.result("told", texts(), &[out(tell, 0)]);
    }
    for (node, spec) in (0..).zip(&mut flow.spec.nodes) {
        spec.options.resumable = node == TELL;
        spec.options.deterministic = node != TELL && !but.contains(&node);
    }
    flow.graph()
}

/// A job that tells already.
fn telling(shown: bool, but: &[u32]) -> Table {
    let mut table = Table::new(told(shown, but), WORKERS);
    table.report(PLAN, &[], DONE);
    table.report(TELL, &[], SENT);
    table
}

/// Who was asked in the last step what `tell` has delivered, and as what attempt; none: nobody was.
fn asked(table: &Table) -> Option<(u32, Vec<u32>)> {
    table.effects.iter().find_map(|effect| match effect {
        Effect::AskDelivered {
            node: TELL,
            epoch,
            workers,
            ..
        } => Some((*epoch, workers.iter().map(|worker| worker.0).collect())),
        _ => None,
    })
}

fn begins_anew(table: &Table) -> bool {
    let anew = |effect: &Effect| matches!(effect, Effect::BeginAnew { node: TELL, .. });
    table.effects.iter().any(anew)
}

fn answer(table: &mut Table, worker: u32, epoch: u32, frames: u64) {
    let (job, worker) = (table.job, WorkerId(worker));
    table.step(Event::Delivered {
        job,
        worker,
        node: TELL,
        key: Key::ROOT,
        epoch,
        frames,
    });
}

#[test]
fn rule_12_living_readers_are_asked_what_was_delivered_before_anything_is_placed() {
    let mut table = telling(true, &[]);
    let told = (table.job, 1);
    table.step(Event::ResultFrame { job: told.0 });
    table.down(2);
    assert_eq!(asked(&table), Some((2, vec![3, 4])));
    assert!(table.waits() && table.bind(TELL, &[]).is_none());
    answer(&mut table, 3, 2, 5);
    assert!(table.waits(), "one has not answered yet");
    answer(&mut table, 3, 2, 5);
    answer(&mut table, 4, 1, 5);
    assert!(table.waits(), "nor did it by that");
    answer(&mut table, 4, 2, 7);
    assert_eq!(table.at(TELL, &[]), (6, 2));
    for reader in [SPEAK, DRAW] {
        assert_eq!(table.at(reader, &[]).1, 1, "they go on where they are");
    }
}

#[test]
fn rule_12_whoever_dies_has_nothing_to_say() {
    let mut table = telling(false, &[]);
    table.down(2);
    answer(&mut table, 3, 2, 5);
    table.down(4);
    assert_eq!(table.at(TELL, &[]), (6, 2), "nobody is left to be asked");
    assert_eq!(table.at(DRAW, &[]), (8, 2));
    assert_eq!(table.at(SPEAK, &[]).1, 1);
}

#[test]
fn rule_12_a_resumable_node_that_only_the_client_reads_is_placed_at_once() {
    let mut flow = FlowBuilder::new();
    let ask = flow.input("ask", text());
    let plan = flow.node("plan", &[("ask", text(), ask)], &[text()]);
    let tell = flow.node("tell", &[("plan", text(), out(plan, 0))], &[texts()]);
    flow.result("told", texts(), &[out(tell, 0)]);
    flow.spec.nodes[TELL as usize].options.resumable = true;
    let mut table = Table::new(flow.graph(), WORKERS);
    table.report(TELL, &[], SENT);
    let job = table.job;
    table.step(Event::ResultFrame { job });
    table.down(2);
    assert_eq!(asked(&table), Some((2, vec![])), "the scheduler holds it");
    assert_eq!(table.at(TELL, &[]), (6, 2));
}

#[test]
fn rule_12_what_reads_something_new_does_not_go_on_from_the_old() {
    let mut table = telling(false, &[PLAN]);
    table.down(2);
    assert_eq!(asked(&table), Some((2, vec![3, 4])));
    answer(&mut table, 3, 2, 5);
    // The plan that it was told by is lost, too, and another one is made.
    table.down(1);
    assert!(begins_anew(&table) && asked(&table).is_none());
    assert_eq!(table.at(TELL, &[]).1, 2, "nobody is waited for");
    assert_eq!(table.at(SPEAK, &[]).1, 2, "it had read the old one");
    assert_eq!(table.at(DRAW, &[]).1, 2);
}

#[test]
fn rule_12_a_reader_that_dies_too_may_read_another_end_so_its_own_readers_must_not_have_read() {
    // `speak` had heard more than anybody who lives, maybe, and what it has made of that is with the client.
    let mut table = telling(false, &[]);
    let job = table.job;
    table.report(SPEAK, &[], SENT);
    table.step(Event::ResultFrame { job });
    table.down(2);
    table.down(3);
    assert_eq!(table.code(), Some(Code::NotReplayable));
    // As long as it has made nothing of it, it reads whatever comes.
    let mut table = telling(false, &[]);
    table.report(SPEAK, &[], RUN);
    table.down(2);
    table.down(3);
    answer(&mut table, 4, 2, 3);
    assert_eq!((table.at(TELL, &[]).1, table.at(SPEAK, &[]).1), (2, 2));
    assert_eq!(table.code(), None);
}

#[test]
fn rule_12_a_reader_that_is_over_is_asked_too() {
    let mut table = telling(false, &[]);
    table.report(SPEAK, &[], DONE);
    table.down(2);
    assert_eq!(asked(&table), Some((2, vec![3, 4])));
    answer(&mut table, 3, 2, 9);
    answer(&mut table, 4, 2, 3);
    let epochs = [TELL, SPEAK, DRAW].map(|node| table.at(node, &[]).1);
    assert_eq!(epochs, [2, 1, 1]);
}

#[test]
fn rule_12_an_attempt_that_goes_on_can_be_lost_like_any_other() {
    let mut table = telling(false, &[]);
    table.down(2);
    answer(&mut table, 3, 2, 5);
    answer(&mut table, 4, 2, 5);
    // Before it has said anything itself.
    table.down(6);
    assert_eq!(asked(&table), Some((3, vec![3, 4])));
    table.up(9, "tell");
    answer(&mut table, 3, 3, 5);
    answer(&mut table, 4, 3, 5);
    assert_eq!(table.at(TELL, &[]), (9, 3));
    table.report(TELL, &[], DONE);
    let states = [NodeState::Queued, NodeState::Started, NodeState::Done];
    table.report(SPEAK, &[], &states);
    assert_eq!(table.code(), None);
}
