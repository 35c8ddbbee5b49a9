//! Attempts that are repeated around scopes and at the scheduler: rule 12, where random losses of workers once found a fault.

use std::sync::Arc;

use omniflow_flow::{
    Arrival, EdgeId, Effect, Graph, Item, Key, NodeId, NodeKind, Resolver, ScopeId,
};

use crate::support::Word;
use crate::support::build::{FlowBuilder, list, out, text, texts};
use crate::support::place::first;
use crate::support::scoped::fan;

const SCOPE: ScopeId = ScopeId(1);
const PAGE: NodeId = NodeId(1);
const COLLECT: NodeId = NodeId(2);
const READER: NodeId = NodeId(3);
const ITEM: EdgeId = EdgeId(1);
const PAGE_OUT: EdgeId = EdgeId(2);
const COUNT: EdgeId = EdgeId(3);
const ROOT: Key = Key::ROOT;

/// `read(collect(page(item) for item in each(stream)))`: the list is made at the side of `read`. Nodes: each, page, collect,
/// read, and with `twice` one by which the pages leave as a stream, too.
fn read_pages(twice: bool) -> Arc<Graph> {
    let mut flow = fan(false);
    flow.spec.results.clear();
    flow.spec.edges.pop();
    let reader = flow.node("read", &[("pages", list(), out(COLLECT, 0))], &[text()]);
    flow.result("r", text().or_none(), &[out(reader, 0)]);
    if twice {
        let inputs = [
            (text().or_none(), out(PAGE, 0)),
            (flow.value_type(out(NodeId(0), 1)), out(NodeId(0), 1)),
        ];
        let kind = NodeKind::Ordered { scope: SCOPE };
        let leave = flow.control("leave", ScopeId::ROOT, kind, &inputs, &[texts()]);
        flow.result("s", texts().or_none(), &[out(leave, 0)]);
    }
    flow.graph()
}

/// A worker that has the reader under an epoch.
fn hosting(graph: &Arc<Graph>) -> Resolver<Word> {
    let mut resolver = Resolver::new(graph.clone());
    resolver.host(READER, &ROOT, 1, &mut Vec::new()).unwrap();
    resolver
}

/// Gathers one page, and does what follows from that for the scope.
fn gather(resolver: &mut Resolver<Word>) -> Arrival {
    let mut effects = Vec::new();
    let end = Item::End { count: 1 };
    resolver.accept(COUNT, &ROOT, 0, end, &mut effects).unwrap();
    let key = Key::new(&[0]);
    let arrival = resolver.accept(PAGE_OUT, &key, 1, first(7), &mut effects);
    let left = effects.into_iter().filter_map(|effect| match effect {
        Effect::ScopeLeft { scope, key, by } => Some((scope, key, by)),
        _ => None,
    });
    for (scope, key, by) in left.collect::<Vec<_>>() {
        resolver.scope_left(scope, &key, by, &mut Vec::new());
    }
    arrival.unwrap()
}

#[test]
fn rule_12_a_list_that_is_made_again_takes_the_keys_of_a_scope_that_had_ended() {
    let mut resolver = hosting(&read_pages(false));
    assert_eq!(gather(&mut resolver), Arrival::Taken);
    assert!(resolver.has_ended(SCOPE, &ROOT));
    let mut effects = Vec::new();
    resolver.host(READER, &ROOT, 2, &mut effects).unwrap();
    assert!(!resolver.has_ended(SCOPE, &ROOT));
    let late = resolver.accept(ITEM, &Key::new(&[0]), 0, first(1), &mut effects);
    assert_eq!(late, Ok(Arrival::Unwanted), "pages do not run again");
    assert_eq!(gather(&mut resolver), Arrival::Taken);
    assert!(resolver.has_ended(SCOPE, &ROOT), "and ends it again");
}

#[test]
fn rule_12_a_key_that_runs_again_in_a_scope_that_had_ended_runs_alone() {
    let mut resolver = hosting(&read_pages(false));
    gather(&mut resolver);
    let (again, other, mut effects) = (Key::new(&[0]), Key::new(&[1]), Vec::new());
    resolver.host(PAGE, &again, 2, &mut effects).unwrap();
    let mut accept = |key, effects: &mut Vec<_>| resolver.accept(ITEM, key, 0, first(1), effects);
    assert_eq!(accept(&again, &mut effects), Ok(Arrival::Taken));
    assert_eq!(accept(&other, &mut effects), Ok(Arrival::Unwanted));
    assert!(matches!(effects[..], [Effect::Activate { epoch: 2, .. }]));
}

#[test]
fn rule_12_a_scope_is_not_left_by_a_node_that_starts_again() {
    let mut resolver: Resolver<Word> = Resolver::new(read_pages(true));
    let left = |resolver: &mut Resolver<Word>, by| {
        resolver.scope_left(SCOPE, &ROOT, by, &mut Vec::new());
        resolver.has_ended(SCOPE, &ROOT)
    };
    assert!(!left(&mut resolver, COLLECT));
    resolver.producer_restarted(READER, &ROOT, 2);
    assert!(!left(&mut resolver, NodeId(4)), "the list is made again");
    assert!(left(&mut resolver, COLLECT));
}

#[test]
fn rule_12_a_reader_that_is_over_refuses_what_runs_at_its_side_before_it_has_begun() {
    let graph = read_pages(false);
    let mut resolver = hosting(&graph);
    let into_reader = graph.edge_into(READER, omniflow_flow::PortIx(0)).unwrap();
    let mut effects = Vec::new();
    resolver.unwanted(into_reader, &ROOT, &mut effects).unwrap();
    let left = |effect: &Effect<Word>| matches!(effect, Effect::ScopeLeft { by: COLLECT, .. });
    assert!(effects.iter().any(left), "{effects:?}");
    assert_eq!(gather(&mut resolver), Arrival::Unwanted);
}

/// `read(tell(a), b)`, where `tell` may say nothing and `read` needs it if `required`. Nodes: tell, read.
fn told(required: bool) -> Arc<Graph> {
    let mut flow = FlowBuilder::new();
    let (a, b) = (flow.input("a", text()), flow.input("b", text()));
    let tell = flow.node("tell", &[("a", text(), a)], &[text().or_none()]);
    let kind = if required { text() } else { text().or_none() };
    let inputs = [("told", kind, out(tell, 0)), ("b", text(), b)];
    let read = flow.node("read", &inputs, &[text()]);
    flow.result("r", text().or_none(), &[out(read, 0)]);
    flow.graph()
}

#[test]
fn rule_12_what_is_parked_goes_along_under_the_epoch_that_said_it_last() {
    let graph = told(false);
    let mut scheduler: Resolver<Word> = Resolver::with_results(graph.clone());
    let edge = graph
        .edge_into(NodeId(1), omniflow_flow::PortIx(0))
        .unwrap();
    for (epoch, arrival) in [(1, Arrival::Parked), (2, Arrival::Duplicate)] {
        let accepted = scheduler.accept(edge, &ROOT, epoch, Item::Closed, &mut Vec::new());
        assert_eq!(accepted, Ok(arrival));
    }
    let parked = scheduler.hand_over(NodeId(1), &ROOT).unwrap();
    assert!(
        matches!(&parked[..], [parked] if parked.epoch == 2),
        "{parked:?}"
    );
}

#[test]
fn rule_12_the_scheduler_closes_a_node_that_was_lost_under_its_new_epoch() {
    let graph = told(true);
    let mut scheduler: Resolver<Word> = Resolver::with_results(graph.clone());
    scheduler.producer_restarted(NodeId(1), &ROOT, 3);
    let edge = graph
        .edge_into(NodeId(1), omniflow_flow::PortIx(0))
        .unwrap();
    let mut effects = Vec::new();
    scheduler
        .accept(edge, &ROOT, 1, Item::Closed, &mut effects)
        .unwrap();
    let closed = |effect: &Effect<Word>| {
        matches!(
            effect,
            Effect::Send {
                epoch: 3,
                item: Item::Closed,
                ..
            }
        )
    };
    assert!(effects.iter().any(closed), "{effects:?}");
}
