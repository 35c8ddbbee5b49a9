//! Flows with fan-outs, loops, routes and streams over several cores: whatever order things come in, however often, and
//! whatever links break, a job does what the resolver's own oracle says, and nothing is left of it.

mod scheduler;
#[path = "../../../../flow/tests/resolver/support/mod.rs"]
mod support;
mod wire;
mod words;
mod world;

use std::sync::Arc;

use omniflow_flow::Graph;
use proptest::collection::vec;
use proptest::prelude::*;

use support::evaluate::Oracle;
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
