//! Streams that come to their reader through a merge or a zip at its side (rule 10).

use std::sync::Arc;

use omniflow_flow::{Graph, NodeId, NodeKind, NodeSpec, PortIx, ScopeId};
use proptest::collection::vec;
use proptest::prelude::*;

use super::start;
use super::support::Word;
use super::support::build::{FlowBuilder, out, text, texts};
use super::support::role::Carried;
use super::support::weave::weave;
use super::world::World;
use crate::core::credits::WINDOW;

/// More than anybody here gets to.
const MANY: u64 = 10_000;
const TURNS: u64 = 300;
/// The reader takes a frame when the others have had so many turns.
const PACE: u64 = 10;

/// `a` and `b` make streams, and `slow` reads them through a control node.
fn flow(kind: NodeKind) -> Arc<Graph> {
    let mut flow = FlowBuilder::new();
    let input = flow.input("in", text());
    let a = flow.node("a", &[("p", text(), input)], &[texts()]);
    let b = flow.node("b", &[("p", text(), input)], &[texts()]);
    let streams = [(texts(), out(a, 0)), (texts(), out(b, 0))];
    let made = match kind {
        NodeKind::Zip => vec![texts(), texts()],
        _ => vec![texts()],
    };
    let through = flow.control("through", ScopeId::ROOT, kind, &streams, &made);
    let names = ["p", "q"];
    let read = (0..made.len()).map(|port| (names[port], texts(), out(through, port as u32)));
    let read: Vec<_> = read.collect();
    let slow = flow.node("slow", &read, &[text()]);
    flow.result("out", text(), &[out(slow, 0)]);
    flow.graph()
}

fn endless(spec: &NodeSpec, _: NodeId, _: &[(PortIx, Carried)]) -> Vec<Carried> {
    vec![match spec.outputs[0].value_type.stream {
        true => Carried::Many((0..MANY).map(Word).collect()),
        false => Carried::One(Word(1)),
    }]
}

fn begin(kind: NodeKind, seed: u64) -> World {
    let mut world = World::new(flow(kind), seed);
    world.role = endless;
    world.scheduler.feed(&[Carried::One(Word(0))]);
    world.settle();
    world
}

#[test]
fn rule_10_a_slow_reader_behind_a_merge_or_a_zip_slows_those_that_feed_it() {
    for (kind, seed) in [
        (NodeKind::Merge, 1),
        (NodeKind::AnyOf, 2),
        (NodeKind::Zip, 3),
    ] {
        let mut world = begin(kind.clone(), seed);
        let mut read = 0;
        for turn in 0..TURNS {
            for role in ["a", "b"] {
                world.run_role(role);
                world.settle();
            }
            if turn % PACE == 0 {
                read += world.run_role("slow") as u64;
                world.settle();
            }
        }
        assert!(read > TURNS / PACE / 2, "{kind:?}: {read} read");
        // Nobody is held up before the reader has begun and is behind for the first time.
        let ahead = world.made("a").max(world.made("b")) - read.min(world.made("a"));
        assert!(
            ahead <= 2 * PACE + 4 * WINDOW.frames,
            "{kind:?}: {ahead} ahead"
        );
    }
}

#[test]
fn rule_10_a_stream_that_waits_for_another_in_a_zip_holds_nobody_up() {
    let mut world = begin(NodeKind::Zip, 4);
    for _ in 0..TURNS {
        for role in ["a", "slow"] {
            world.run_role(role);
            world.settle();
        }
    }
    assert_eq!(
        world.made("a"),
        TURNS,
        "it waits for `b`, which may wait for `a`"
    );
}

#[test]
fn rule_10_a_zip_comes_as_far_as_one_of_its_streams_is_read() {
    // All of `p` is read before anybody looks at `q`.
    let mut world = begin(NodeKind::Zip, 5);
    let mut read = 0;
    for _ in 0..TURNS {
        for role in ["a", "b", "slow"] {
            let got_on = world.run_role(role) as u64;
            read += if role == "slow" { got_on } else { 0 };
            world.settle();
        }
    }
    assert!(read > TURNS / 2, "{read} of {TURNS} read");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn rule_10_no_flow_with_merges_deadlocks(tape in vec(any::<u8>(), 0..120), seed in any::<u64>()) {
        let woven = weave(&tape, true);
        let mut world = start(&woven, seed);
        world.run();
        if world.scheduler.seen.failed.is_none() {
            world.assert_over();
        }
        world.assert_released();
    }
}
