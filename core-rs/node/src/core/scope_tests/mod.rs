//! Flows with fan-outs, loops, routes and streams over several cores: whatever order things come in, however often, and
//! whatever links break, a job does what the resolver's own oracle says, and nothing is left of it.

mod crossed;
mod cut_short;
mod over;
mod paced_through;
mod recalls;
mod results;
mod scheduler;
#[path = "../../../../flow/tests/resolver/support/mod.rs"]
mod support;
mod wire;
mod words;
mod world;

use std::sync::Arc;

use omniflow_flow::{Graph, NodeId, NodeKind, NodeSpec, PortIx, PortSpec, ScopeId, ValueKind};
use proptest::collection::vec;
use proptest::prelude::*;

use support::Word;
use support::build::{FlowBuilder, count, out, text, texts, truth};
use support::evaluate::Oracle;
use support::role::Carried;
use support::weave::{Woven, weave};
use world::World;

const WORKERS: usize = 3;
const JOB: u64 = 5;

fn start(woven: &Woven, seed: u64) -> World {
    let graph = Graph::new(woven.spec.clone()).expect("a valid flow");
    let mut world = World::new(Arc::new(graph), seed);
    world.scheduler.feed(&woven.job_inputs(seed));
    world
}

fn judge(world: &World, woven: &Woven, seed: u64) {
    let inputs = woven.job_inputs(seed);
    let (graph, seen) = (&world.scheduler.graph, &world.scheduler.seen);
    let mut oracle = Oracle::new(graph, &inputs, seen);
    if let Some((node, key, fault)) = &seen.failed {
        assert!(oracle.fails(*node, key).is_err(), "{fault}");
        return;
    }
    world.assert_over();
    assert_eq!(oracle.judge(), Ok(()), "the job had to fail");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn rules_01_to_09_hold_over_workers_whose_links_break_repeat_and_reorder(
        tape in vec(any::<u8>(), 0..120), seed in any::<u64>(),
    ) {
        let woven = weave(&tape, false);
        let mut world = start(&woven, seed);
        world.run();
        judge(&world, &woven, seed);
        world.assert_released();
    }

    /// Rule 12: attempts that are repeated change nothing of what was delivered.
    #[test]
    fn rule_12_nodes_that_move_in_mid_job_change_nothing(
        tape in vec(any::<u8>(), 0..120), seed in any::<u64>(), moves in 1usize..5,
    ) {
        let woven = weave(&tape, false);
        let mut world = start(&woven, seed);
        for _ in 0..moves {
            for _ in 0..world.choose(60) {
                world.step();
            }
            if world.scheduler.seen.failed.is_none() {
                world.scheduler.move_one();
            }
        }
        world.run();
        judge(&world, &woven, seed);
        world.assert_released();
    }
}

/// Runs a flow, with something called back now and then. Returns how many binds have moved.
fn run_with_recalls(tape: &[u8], seed: u64, recalls: usize) -> usize {
    let woven = weave(tape, false);
    let mut world = start(&woven, seed);
    for _ in 0..recalls {
        for _ in 0..world.choose(20) {
            world.step();
        }
        if world.scheduler.seen.failed.is_none() {
            world.scheduler.recall_one();
        }
    }
    world.run();
    judge(&world, &woven, seed);
    let moves = world.scheduler.moves;
    world.assert_released();
    moves
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn rule_15_what_moves_before_it_has_started_changes_nothing(
        tape in vec(any::<u8>(), 0..120), seed in any::<u64>(), recalls in 1usize..12,
    ) {
        run_with_recalls(&tape, seed, recalls);
    }
}

#[test]
fn rule_15_workers_give_back_what_no_engine_has_taken() {
    let tape: Vec<u8> = (0..100).collect();
    let moves: usize = (0..20).map(|seed| run_with_recalls(&tape, seed, 12)).sum();
    assert!(moves > 5, "only {moves} binds have moved");
}

// --- memory -------------------------------------------------------------------------------------------------------------

const KEYS: u64 = 10_000;
/// What one worker may keep of what was read, sent and received, and some that is on its way.
const MOST_KEPT: u64 = 2 * 1_024 + 64;
/// Each of three workers' share of what was made, which is kept for whoever gathers it.
const GATHERED: u64 = KEYS / 2;

/// `source` makes a stream of numbers or the first of them, `work` makes one of one.
fn counting(spec: &NodeSpec, _: NodeId, inputs: &[(PortIx, Carried)]) -> Vec<Carried> {
    let read = match inputs.first() {
        Some((_, Carried::One(word))) => word.0,
        _ => 0,
    };
    let output = |port: &PortSpec| match (&port.value_type.kind, port.value_type.stream) {
        (_, true) => Carried::Many((0..KEYS).map(Word).collect()),
        (ValueKind::Boolean, _) => Carried::One(Word(u64::from(read + 1 < 2 * KEYS))),
        _ => Carried::One(Word(read + 1)),
    };
    spec.outputs.iter().map(output).collect()
}

fn run_counting(flow: FlowBuilder) -> World {
    let mut world = World::new(flow.graph(), 1);
    (world.role, world.wild) = (counting, false);
    world.scheduler.feed(&[Carried::One(Word(0))]);
    world.run();
    world.assert_over();
    world
}

#[test]
fn a_fan_out_of_ten_thousand_lets_go_of_what_was_read() {
    let mut flow = FlowBuilder::new();
    let input = flow.input("in", text());
    let source = flow.node("source", &[("p", text(), input)], &[texts()]);
    let scope = flow.scope("each", ScopeId::ROOT, false);
    let kind = NodeKind::Each { scope };
    let each = flow.control(
        "each",
        ScopeId::ROOT,
        kind,
        &[(texts(), out(source, 0))],
        &[text(), count()],
    );
    let work = flow.node("work", &[("p", text(), out(each, 0))], &[text()]);
    flow.place(work, scope);
    let kind = NodeKind::Ordered { scope };
    let inputs = [(text(), out(work, 0)), (count(), out(each, 1))];
    let leave = flow.control("leave", ScopeId::ROOT, kind, &inputs, &[texts()]);
    flow.result("result", texts(), &[out(leave, 0)]);
    let mut world = run_counting(flow);
    let numbers = (1..=KEYS).map(Word).collect();
    assert_eq!(
        world.scheduler.seen.results[&PortIx(0)],
        Carried::Many(numbers)
    );
    assert!(
        world.most_kept > 0 && world.most_kept <= MOST_KEPT + GATHERED,
        "{}",
        world.most_kept
    );
    world.assert_released();
}

#[test]
fn a_loop_of_ten_thousand_rounds_keeps_what_one_round_needs() {
    let mut flow = FlowBuilder::new();
    let input = flow.input("in", text());
    let scope = flow.scope("loop", ScopeId::ROOT, true);
    let kind = NodeKind::Loop {
        scope,
        carried: 1,
        emitted: 0,
        max_rounds: KEYS as u32,
    };
    let cycle = flow.control(
        "loop",
        ScopeId::ROOT,
        kind.clone(),
        &[(text(), input)],
        &[text(), text()],
    );
    let one = flow.node("one", &[("p", text(), out(cycle, 0))], &[text()]);
    let two = flow.node("two", &[("p", text(), out(one, 0))], &[text(), truth()]);
    flow.place(one, scope);
    flow.place(two, scope);
    flow.rebuild_loop(cycle, out(two, 0), out(two, 1), &[], kind);
    flow.result("result", text(), &[out(cycle, 1)]);
    let mut world = run_counting(flow);
    assert_eq!(
        world.scheduler.seen.results[&PortIx(0)],
        Carried::One(Word(2 * KEYS))
    );
    assert!(
        world.most_kept > 0 && world.most_kept <= 16,
        "{}",
        world.most_kept
    );
    world.assert_released();
}
