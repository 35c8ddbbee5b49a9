//! Rounds and branches: rules 5, 6, 9 and 12, with roles that are told what to answer.

use std::sync::Arc;

use omniflow_flow::{
    Effect, Fault, Graph, Item, Key, NodeId, NodeKind, PortIx, ProblemCode, Resolver,
};

use crate::support::build::{FlowBuilder, list, out, text, texts, truth};
use crate::support::role::Carried;
use crate::support::scoped::{ROOT, cycle_or_none as cycle};
use crate::support::script::{Answer, Script};
use crate::support::{SEVERAL, Word};

const LOOP: NodeId = NodeId(0);
const NEXT: NodeId = NodeId(1);
const UNTIL: NodeId = NodeId(2);
const START: [Carried; 1] = [Carried::One(Word(100))];

/// Of `cycle`: the next state is the round's number, and `until` says true in round `last`.
fn counting(last: u32) -> impl FnMut(NodeId, &Key) -> Answer {
    move |node, key| {
        let round = key.path()[0];
        match node {
            NEXT => vec![Some(Word(u64::from(round)))],
            // An even word is true.
            _ => vec![Some(Word(u64::from(round != last)))],
        }
    }
}

#[test]
fn rule_05_a_loop_gives_the_state_of_its_last_round() {
    let script = Script::play(&cycle(9), &START, counting(4));
    assert_eq!(script.words(0), [4]);
    let rounds = script.fired.iter().filter(|(node, ..)| *node == NEXT);
    assert_eq!(rounds.count(), 5);
    script.assert_over();
}

#[test]
fn rule_05_a_loop_closes_its_output_when_it_ends_without_a_value() {
    let mut counting = counting(4);
    let script = Script::play(&cycle(9), &START, |node, key| match node {
        NEXT if key.path() == [2] => vec![None],
        _ => counting(node, key),
    });
    assert_eq!(script.closed, [(UNTIL, Key::new(&[2]))]);
    assert_eq!(script.results[&PortIx(0)], [Item::Closed]);
    assert_eq!(script.failed, None);
    script.assert_over();
}

#[test]
fn rule_05_a_loop_may_use_all_its_rounds_and_not_one_more() {
    let script = Script::play(&cycle(5), &START, counting(4));
    assert_eq!((script.words(0), script.failed), (vec![4], None));
    let script = Script::play(&cycle(4), &START, counting(4));
    let fault = Fault::LoopLimit {
        name: "loop".into(),
        max_rounds: 4,
    };
    assert_eq!(script.failed, Some((LOOP, Key::ROOT, fault)));
    assert_eq!(script.fired.len(), 8, "four rounds of two roles");
}

#[test]
fn rule_06_until_is_said_by_a_role_of_the_body() {
    let mut flow = FlowBuilder::new();
    let (start, outside) = (flow.input("start", text()), flow.input("over", truth()));
    let scope = flow.scope("rounds", ROOT, true);
    let kind = NodeKind::Loop {
        scope,
        carried: 1,
        emitted: 0,
        max_rounds: 3,
    };
    let outputs = [text(), text()];
    let node = flow.control("loop", ROOT, kind.clone(), &[(text(), start)], &outputs);
    let next = flow.node("next", &[("state", text(), out(node, 0))], &[text()]);
    flow.place(next, scope);
    flow.rebuild_loop(node, out(next, 0), outside, &[], kind);
    flow.result("last", text().or_none(), &[out(node, 1)]);
    let problems = Graph::new(flow.spec).unwrap_err();
    let found = problems
        .iter()
        .find(|problem| problem.code == ProblemCode::UntilOutsideLoop);
    assert_eq!(
        found.and_then(|found| found.node),
        Some(node),
        "{problems:?}"
    );
}

/// `route` with three branches `b0` to `b2`, each of one role; nodes: route, three roles, and what joins them.
fn routed(exclusive: bool) -> Arc<Graph> {
    let mut flow = FlowBuilder::new();
    let kind = if exclusive { text() } else { list() };
    let choice = flow.input("choice", kind.clone());
    let branches = (0..3).map(|branch| format!("b{branch}")).collect();
    let node = NodeKind::Route {
        branches,
        exclusive,
    };
    let outputs = vec![kind.clone(); 3];
    let route = flow.control("route", ROOT, node, &[(kind, choice)], &outputs);
    let made = [0, 1, 2].map(|branch| {
        let node = flow.node(&format!("branch{branch}"), &[], &[text()]);
        flow.gate(node, out(route, branch));
        (text(), out(node, 0))
    });
    let (kind, joined) = match exclusive {
        true => (NodeKind::AnyOf, text()),
        false => (NodeKind::Merge, texts()),
    };
    let join = flow.control("join", ROOT, kind, &made, std::slice::from_ref(&joined));
    flow.result("r", joined.or_none(), &[out(join, 0)]);
    flow.graph()
}

fn say_your_number(node: NodeId, _: &Key) -> Answer {
    vec![Some(Word(u64::from(node.0)))]
}

#[test]
fn rule_06_a_choice_runs_one_branch_and_closes_the_others() {
    // A word names the branch of its remainder by 3.
    let choice = [Carried::One(Word(4))];
    let script = Script::play(&routed(true), &choice, say_your_number);
    assert_eq!(script.words(0), [2]);
    let mut closed: Vec<u32> = script.closed.iter().map(|(node, _)| node.0).collect();
    closed.sort_unstable();
    assert_eq!(closed, [1, 3]);
    script.assert_over();
}

#[test]
fn rule_06_a_set_of_choices_runs_all_of_them() {
    // Bits 0 and 2 are set: branches b0 and b2.
    let choices = [Carried::One(Word(SEVERAL | 5))];
    let script = Script::play(&routed(false), &choices, say_your_number);
    let mut words = script.words(0);
    words.sort_unstable();
    assert_eq!(words, [1, 3]);
    script.assert_over();
    let none = [Carried::One(Word(SEVERAL))];
    let script = Script::play(&routed(false), &none, say_your_number);
    assert_eq!(script.results[&PortIx(0)], [Item::Closed]);
    script.assert_over();
}

#[test]
fn rule_09_a_thousand_rounds_leave_nothing() {
    let script = Script::play(&cycle(1_000), &START, counting(999));
    assert_eq!(script.words(0), [999]);
    assert_eq!(script.fired.len(), 2_000);
    script.assert_over();
    assert!(script.resolver.facts() <= 4, "{}", script.resolver.facts());
}

/// A worker with the whole loop, under an epoch. Runs it until `until` has said its word of round `last`.
fn rounds_at_worker(graph: &Arc<Graph>, epoch: u32, last: u32) -> Vec<Effect<Word>> {
    let mut resolver = Resolver::new(graph.clone());
    let mut effects = Vec::new();
    for node in [NEXT, UNTIL] {
        resolver
            .host(node, &Key::ROOT, epoch, &mut effects)
            .unwrap();
    }
    let start = graph.edge_into(LOOP, PortIx(0)).unwrap();
    let item = Item::Frame {
        seq: 0,
        payload: Word(100),
    };
    resolver
        .accept(start, &Key::ROOT, 0, item, &mut effects)
        .unwrap();
    let (mut left, mut counting) = (Vec::new(), counting(last));
    while !effects.is_empty() {
        let mut next = Vec::new();
        for effect in effects {
            match effect {
                Effect::Send {
                    edge,
                    ref key,
                    epoch: of,
                    ref item,
                } => {
                    assert_eq!(of, epoch, "control nodes have the epoch of their home");
                    match graph.reader(edge, key) {
                        Some(omniflow_flow::Reader::Scheduler) => left.push(effect),
                        _ => {
                            resolver
                                .accept(edge, key, epoch, item.clone(), &mut next)
                                .unwrap();
                        }
                    }
                }
                Effect::Activate { node, key, .. } => {
                    let word = counting(node, &key)[0].unwrap();
                    resolver
                        .emit(node, &key, PortIx(0), word, &mut next)
                        .unwrap();
                    resolver.finish(node, &key, &mut next).unwrap();
                }
                Effect::ScopeLeft { scope, key, by } => {
                    resolver.scope_left(scope, &key, by, &mut next);
                }
                other => panic!("{other:?}"),
            }
        }
        effects = next;
    }
    assert!(resolver.is_empty());
    left
}

#[test]
fn rule_12_a_loop_that_starts_again_elsewhere_says_the_same_under_its_new_epoch() {
    let graph = cycle(9);
    for epoch in [1, 2] {
        let left = rounds_at_worker(&graph, epoch, 3);
        let [
            Effect::Send {
                epoch: of, item, ..
            },
        ] = &left[..]
        else {
            panic!("{left:?}")
        };
        let last = Item::Frame {
            seq: 0,
            payload: Word(3),
        };
        assert_eq!((*of, item), (epoch, &last));
    }
}
