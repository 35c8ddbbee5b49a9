//! What becomes of the keys of an `each`: rules 4, 8, 9 and 12, with roles that are told what to answer.

use omniflow_flow::{
    Arrival, EdgeId, InputValue, Item, Key, NodeId, NodeKind, Payload, PortIx, ProblemCode,
};

use crate::support::Word;
use crate::support::build::{FlowBuilder, out, text, texts};
use crate::support::role::Carried;
use crate::support::scoped::{ROOT, fan, fan_left_by, words};
use crate::support::script::Script;

const PAGE: NodeId = NodeId(1);

fn key(index: u32) -> Key {
    Key::new(&[index])
}

/// The edges of `fan(false)`: the stream into `each`, an item into `page`, a page into `collect`, the count into it.
const PAGE_OUT: EdgeId = EdgeId(2);

/// A script whose pages have begun and were not answered.
fn begun(flow: FlowBuilder, pages: u64) -> Script {
    let mut script = Script::new(&flow.graph());
    script.feed(PortIx(0), &words(pages));
    assert_eq!(script.fired.len() as u64, pages);
    script
}

#[test]
fn rule_04_collect_keeps_the_order_of_the_keys_and_skips_closed_ones() {
    let mut script = begun(fan(false), 4);
    for (index, answer) in [(2, Some(Word(12))), (0, Some(Word(10))), (3, None)] {
        script.answer(PAGE, &key(index), &[answer]);
    }
    assert!(!script.done, "one key is missing");
    script.answer(PAGE, &key(1), &[Some(Word(11))]);
    let pages = Word::list(vec![Word(10), Word(11), Word(12)]);
    assert_eq!(script.words(0), [pages.0]);
    script.assert_over();
}

#[test]
fn rule_04_keys_that_are_all_closed_are_an_empty_list() {
    let inputs = [words(3), Carried::One(Word(0))];
    let script = Script::play(&fan(false).graph(), &inputs, |_, _| vec![None]);
    assert_eq!(script.words(0), [Word::list(vec![]).0]);
    script.assert_over();
}

#[test]
fn rule_04_what_is_not_collected_is_a_stream_in_the_order_of_the_keys() {
    let leave = |scope| NodeKind::Ordered { scope };
    let mut script = begun(fan_left_by(false, leave, texts()), 4);
    script.answer(PAGE, &key(1), &[Some(Word(11))]);
    script.answer(PAGE, &key(2), &[None]);
    assert_eq!(script.words(0), [] as [u64; 0], "the first key is missing");
    script.answer(PAGE, &key(0), &[Some(Word(10))]);
    assert_eq!(script.words(0), [10, 11], "at once, not when all have come");
    script.answer(PAGE, &key(3), &[Some(Word(13))]);
    assert_eq!(script.words(0), [10, 11, 13]);
    assert_eq!(
        script.results[&PortIx(0)].last(),
        Some(&Item::End { count: 3 })
    );
    script.assert_over();
}

#[test]
fn rule_04_unordered_is_a_stream_in_order_of_arrival() {
    let leave = |scope| NodeKind::Unordered { scope };
    let mut script = begun(fan_left_by(false, leave, texts()), 4);
    for (index, answer) in [(2, Some(Word(12))), (3, None), (0, Some(Word(10)))] {
        script.answer(PAGE, &key(index), &[answer]);
    }
    assert_eq!(script.words(0), [12, 10]);
    script.answer(PAGE, &key(1), &[Some(Word(11))]);
    assert_eq!(script.words(0), [12, 10, 11]);
    script.assert_over();
}

#[test]
fn rule_04_a_stream_inside_a_key_is_not_flattened() {
    let mut flow = fan(false);
    let spec = &mut flow.spec;
    spec.nodes[PAGE.index()].outputs[0].value_type = texts();
    spec.edges[PAGE_OUT.index()].value_type = texts();
    let problems = omniflow_flow::Graph::new(flow.spec).unwrap_err();
    assert_eq!(
        problems[0].code,
        ProblemCode::StreamIntoPlain,
        "{problems:?}"
    );
}

#[test]
fn rule_03_every_key_reads_what_came_from_outside_before_or_after_it_began() {
    let graph = fan(true).graph();
    let read = |script: &Script| {
        let inputs = script.fired.iter().map(|(_, key, inputs)| {
            let [InputValue::Plain(item), InputValue::Plain(extra)] = inputs[..] else {
                panic!("{inputs:?}")
            };
            (key.clone(), item.0, extra.0)
        });
        inputs.collect::<Vec<_>>()
    };
    let expected = [(key(0), 0, 77), (key(1), 1, 77)];
    for first in [0, 1] {
        let mut script = Script::new(&graph);
        let inputs = [words(2), Carried::One(Word(77))];
        for port in [first, 1 - first] {
            script.feed(PortIx(port), &inputs[port as usize]);
        }
        let mut read = read(&script);
        read.sort();
        assert_eq!(read, expected, "input {first} first");
    }
}

#[test]
fn rule_08_merge_numbers_frames_by_arrival_and_ends_with_the_last() {
    let mut flow = FlowBuilder::new();
    let (a, b) = (flow.input("a", texts()), flow.input("b", texts()));
    let inputs = [(texts(), a), (texts(), b)];
    let merge = flow.control("merge", ROOT, NodeKind::Merge, &inputs, &[texts()]);
    flow.result("all", texts().or_none(), &[out(merge, 0)]);
    let mut script = Script::new(&flow.graph());
    for (port, word) in [(0, 1), (1, 2), (1, 3), (0, 4)] {
        let mut effects = Vec::new();
        let fed = script
            .resolver
            .feed_input(PortIx(port), Word(word), &mut effects);
        fed.unwrap();
        script.carry_out(effects);
    }
    for port in [PortIx(1), PortIx(0)] {
        assert!(!script.done, "one input is still open");
        let mut effects = Vec::new();
        script.resolver.end_input(port, &mut effects).unwrap();
        script.carry_out(effects);
    }
    assert_eq!(script.words(0), [1, 2, 3, 4]);
    script.assert_over();
}

#[test]
fn rule_08_zipped_streams_go_in_step_and_end_with_the_shortest() {
    let mut flow = FlowBuilder::new();
    let (a, b) = (flow.input("a", texts()), flow.input("b", texts()));
    let inputs = [(texts(), a), (texts(), b)];
    let zip = flow.control("zip", ROOT, NodeKind::Zip, &inputs, &[texts(), texts()]);
    for port in 0..2 {
        flow.result(&format!("r{port}"), texts().or_none(), &[out(zip, port)]);
    }
    let script = Script::play(&flow.graph(), &[words(5), words(3)], |_, _| vec![]);
    assert_eq!(script.words(0), [0, 1, 2]);
    assert_eq!(script.words(1), [0, 1, 2]);
    script.assert_over();
}

#[test]
fn rule_09_what_runs_in_a_scope_that_nobody_reads_any_more_is_cancelled() {
    let mut script = begun(fan(false), 3);
    script.answer(PAGE, &key(1), &[Some(Word(11))]);
    let to_result = EdgeId(script.resolver.graph().spec().edges.len() as u32 - 1);
    let mut effects = Vec::new();
    script
        .resolver
        .unwanted(to_result, &Key::ROOT, &mut effects)
        .unwrap();
    script.carry_out(effects);
    script.cancelled.sort();
    assert_eq!(script.cancelled, [(PAGE, key(0)), (PAGE, key(2))]);
    assert_eq!(script.resolver.footprint().open, 1, "the result alone");
    assert!(script.resolver.facts() <= 2);
    let late = script.resolver.accept(
        PAGE_OUT,
        &key(0),
        1,
        Item::Frame {
            seq: 0,
            payload: Word(10),
        },
        &mut Vec::new(),
    );
    assert_eq!(late, Ok(Arrival::Unwanted), "what still comes is dropped");
}

#[test]
fn rule_12_what_a_key_says_again_is_dropped_and_compared() {
    let mut script = begun(fan(false), 2);
    script.answer(PAGE, &key(0), &[Some(Word(10))]);
    let mut again = |word, epoch| {
        let mut effects = Vec::new();
        let item = Item::Frame {
            seq: 0,
            payload: Word(word),
        };
        let arrival = script
            .resolver
            .accept(PAGE_OUT, &key(0), epoch, item, &mut effects);
        script.carry_out(effects);
        (arrival.unwrap(), script.contradictions.clone())
    };
    assert_eq!(again(10, 1), (Arrival::Duplicate, vec![]));
    assert_eq!(
        again(10, 2),
        (Arrival::Duplicate, vec![]),
        "of a new attempt"
    );
    assert_eq!(again(99, 2), (Arrival::Duplicate, vec![(key(0), 0)]));
    script.answer(PAGE, &key(1), &[Some(Word(11))]);
    assert_eq!(
        script.words(0),
        [Word::list(vec![Word(10), Word(11)]).0],
        "what came first counts"
    );
    script.assert_over();
}

#[test]
fn rule_02_a_dead_branch_inside_a_key_closes_that_key_alone() {
    let mut flow = fan(false);
    let next = flow.node("next", &[("page", text(), out(PAGE, 0))], &[text()]);
    flow.place(next, omniflow_flow::ScopeId(1));
    flow.spec.edges[PAGE_OUT.index()].from = out(next, 0);
    flow.spec.edges[PAGE_OUT.index()].value_type = text();
    let inputs = [words(3), Carried::One(Word(0))];
    let script = Script::play(&flow.graph(), &inputs, |node, at| match node {
        PAGE if *at == key(1) => vec![None],
        _ => vec![Some(Word(u64::from(at.path()[0])))],
    });
    assert_eq!(script.closed, [(next, key(1))]);
    assert_eq!(script.words(0), [Word::list(vec![Word(0), Word(2)]).0]);
    script.assert_over();
}
