//! Rules 3 to 7 and 9, on flows small enough to read.

use omniflow_flow::{
    Effect, Fault, Graph, Home, Item, Key, NodeId, NodeKind, Origin, Payload, ProblemCode, Reader,
    Resolver, ScopeId,
};

use crate::support::Word;
use crate::support::build::{FlowBuilder, count, list, out, text, texts};
use crate::support::role::Carried;
use crate::support::scoped::{ROOT, cycle, fan, measured, words};

#[test]
fn rule_03_a_frame_from_outside_matches_every_key_and_is_kept_until_the_scope_ends() {
    let cluster = measured(fan(true).graph(), &[words(20), Carried::One(Word(5))]);
    cluster.assert_over();
    let fired = cluster
        .seen
        .fired
        .keys()
        .filter(|(node, _)| *node == NodeId(1))
        .count();
    assert_eq!(fired, 20);
    let facts: usize = cluster.places.iter().map(Resolver::facts).sum();
    assert!(
        facts <= 4,
        "{facts} facts are left of a scope that has ended"
    );
}

#[test]
fn rule_03_a_stream_may_not_enter_a_scope() {
    let mut flow = fan(false);
    let stream = Origin::Input {
        port: omniflow_flow::PortIx(0),
    };
    let late = flow.node(
        "late",
        &[
            ("item", text(), out(NodeId(0), 0)),
            ("all", texts(), stream),
        ],
        &[text()],
    );
    flow.place(late, ScopeId(1));
    let inputs = [(text(), out(late, 0)), (count(), out(NodeId(0), 1))];
    let leave = flow.control(
        "leave",
        ROOT,
        NodeKind::Ordered { scope: ScopeId(1) },
        &inputs,
        &[texts()],
    );
    flow.result("late", texts().or_none(), &[out(leave, 0)]);
    let problems = Graph::new(flow.spec).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(
        (problems[0].code, problems[0].node),
        (ProblemCode::StreamIntoScope, Some(late))
    );
    assert!(problems[0].cure.contains("collect it first"));
}

#[test]
fn rule_04_nothing_collected_is_an_empty_list_and_a_closed_source_closes_it() {
    let cluster = measured(fan(false).graph(), &[words(0), Carried::One(Word(5))]);
    assert_eq!(
        cluster.seen.results.values().next(),
        Some(&Carried::One(Word::list(vec![])))
    );
    let mut flow = fan(false);
    flow.spec.inputs[0].value_type.optional = true;
    flow.spec.edges[0].value_type.optional = true;
    let cluster = measured(flow.graph(), &[Carried::Nothing, Carried::One(Word(5))]);
    assert_eq!(
        cluster.seen.results.values().next(),
        Some(&Carried::Nothing)
    );
    cluster.assert_over();
}

#[test]
fn rule_05_passing_max_rounds_fails_the_job_and_names_the_loop() {
    for start in 0..50 {
        let cluster = measured(cycle(1), &[Carried::One(Word(start))]);
        let Some((NodeId(0), _, fault)) = &cluster.seen.failed else {
            cluster.assert_over();
            continue;
        };
        let name = "loop".to_owned();
        assert_eq!(
            *fault,
            Fault::LoopLimit {
                name,
                max_rounds: 1
            }
        );
        return;
    }
    panic!("until said true fifty times in the first round");
}

#[test]
fn rule_06_a_choice_that_is_no_branch_is_a_bad_route() {
    let mut flow = FlowBuilder::new();
    let choice = flow.input("choice", text());
    let kind = NodeKind::Route {
        branches: vec!["a".into(), "b1".into()],
        exclusive: true,
    };
    let route = flow.control("route", ROOT, kind, &[(text(), choice)], &[text(), text()]);
    for branch in 0..2 {
        let node = flow.node(&format!("branch{branch}"), &[], &[text()]);
        flow.gate(node, out(route, branch));
        flow.result(&format!("r{branch}"), text().or_none(), &[out(node, 0)]);
    }
    let graph = flow.graph();
    let taken = measured(graph.clone(), &[Carried::One(Word(1))]);
    taken.assert_over();
    assert_eq!(
        taken
            .seen
            .fired
            .keys()
            .map(|(node, _)| node.0)
            .collect::<Vec<_>>(),
        [2]
    );
    assert!(taken.seen.closed.contains(&(NodeId(1), Key::ROOT)));
    let bad = measured(graph, &[Carried::One(Word(2))]);
    let Some((_, _, Fault::BadRoute { choice, .. })) = bad.seen.failed else {
        panic!("{:?}", bad.seen)
    };
    assert_eq!(choice, "`b2`");
}

#[test]
fn rule_06_joining_two_branches_of_a_choice_is_an_error_and_of_choices_is_none() {
    for exclusive in [true, false] {
        let mut flow = FlowBuilder::new();
        let kind = if exclusive { text() } else { list() };
        let choice = flow.input("choice", kind.clone());
        let branches = vec!["a".into(), "b".into()];
        let route = NodeKind::Route {
            branches,
            exclusive,
        };
        let route = flow.control(
            "route",
            ROOT,
            route,
            &[(kind.clone(), choice)],
            &[kind.clone(), kind],
        );
        let made = [0, 1].map(|branch| {
            let node = flow.node(&format!("branch{branch}"), &[], &[text()]);
            flow.gate(node, out(route, branch));
            out(node, 0)
        });
        let both = flow.node(
            "both",
            &[("a", text(), made[0]), ("b", text(), made[1])],
            &[text()],
        );
        flow.result("r", text().or_none(), &[out(both, 0)]);
        match Graph::new(flow.spec) {
            Ok(_) => assert!(!exclusive),
            Err(problems) => {
                assert!(exclusive, "{problems:?}");
                assert_eq!(
                    (problems[0].code, problems[0].node),
                    (ProblemCode::ExclusiveJoin, Some(both))
                );
            }
        }
    }
}

#[test]
fn rule_07_control_nodes_have_homes_and_loops_one_bind() {
    let graph = cycle(9);
    assert_eq!(
        graph.home(NodeId(0)),
        Home::Node(NodeId(1)),
        "the body's first node"
    );
    assert_eq!(
        (
            graph.bind_depth(NodeId(2)),
            graph.bind_key(NodeId(2), &Key::new(&[3]))
        ),
        (0, Key::ROOT)
    );
    let graph = fan(true).graph();
    assert_eq!(
        graph.home(NodeId(0)),
        Home::Scheduler,
        "an each of an input"
    );
    assert_eq!(
        graph.home(NodeId(2)),
        Home::Scheduler,
        "a list that is a result"
    );
    let edge = graph
        .edge_into(NodeId(1), omniflow_flow::PortIx(0))
        .unwrap();
    let key = Key::new(&[3]);
    assert_eq!(graph.reader(edge, &key), Some(Reader::One(NodeId(1), key)));
    let edge = graph
        .edge_into(NodeId(1), omniflow_flow::PortIx(1))
        .unwrap();
    assert_eq!(
        graph.reader(edge, &Key::ROOT),
        Some(Reader::Every(NodeId(1), Key::ROOT))
    );
}

#[test]
fn rule_07_the_scheduler_asks_for_a_bind_when_a_branch_is_taken_and_hands_its_marks_over() {
    let mut flow = FlowBuilder::new();
    let choice = flow.input("choice", text());
    let kind = NodeKind::Route {
        branches: vec!["b0".into(), "b1".into()],
        exclusive: true,
    };
    let route = flow.control("route", ROOT, kind, &[(text(), choice)], &[text(), text()]);
    for branch in 0..2 {
        let node = flow.node(&format!("branch{branch}"), &[], &[text()]);
        flow.gate(node, out(route, branch));
        flow.result(&format!("r{branch}"), text().or_none(), &[out(node, 0)]);
    }
    let mut scheduler: Resolver<Word> = Resolver::with_results(flow.graph());
    let mut effects = Vec::new();
    scheduler
        .feed_input(omniflow_flow::PortIx(0), Word(0), &mut effects)
        .unwrap();
    let (mut wanted, mut closed) = (Vec::new(), Vec::new());
    while let Some(effect) = effects.pop() {
        match effect {
            Effect::Send {
                edge,
                key,
                epoch,
                item,
            } => {
                scheduler
                    .accept(edge, &key, epoch, item, &mut effects)
                    .unwrap();
            }
            Effect::Wanted { node, key } => wanted.push((node, key)),
            Effect::NodeClosed { node, key } => closed.push((node, key)),
            _ => {}
        }
    }
    assert_eq!(
        (wanted, closed),
        (vec![(NodeId(1), Key::ROOT)], vec![(NodeId(2), Key::ROOT)])
    );
    let handed = scheduler.hand_over(NodeId(1), &Key::ROOT).unwrap();
    assert!(matches!(handed[..], [ref gate] if matches!(gate.item, Item::Frame { seq: 0, .. })));
    assert_eq!(
        scheduler.hand_over(NodeId(2), &Key::ROOT),
        None,
        "it is closed: nothing to bind"
    );
}

#[test]
fn rule_09_memory_is_flat_over_the_rounds_of_a_loop_and_the_keys_of_an_each() {
    let (mut rounds, mut facts) = (0, 0);
    for start in 0..200 {
        let cluster = measured(cycle(1_000), &[Carried::One(Word(start))]);
        cluster.assert_over();
        rounds = rounds.max(cluster.seen.fired.len());
        facts = facts.max(cluster.most_facts);
        assert!(cluster.largest.frames <= 4, "{:?}", cluster.largest);
    }
    assert!(
        rounds > 10 && facts <= 10,
        "{facts} facts of {rounds} activations"
    );
    let cluster = measured(fan(true).graph(), &[words(1_000), Carried::One(Word(5))]);
    cluster.assert_over();
    let left: usize = cluster.places.iter().map(Resolver::facts).sum();
    assert!(left <= 4, "{left} facts are left of 1,000 keys");
}
