//! Random histories of submits, reports, losses, drains and cancels against a naive model of the world.

use crate::common::world::{Step, World};
use proptest::prelude::*;

fn step() -> impl Strategy<Value = Step> {
    let submit = (
        0..6u32,
        0..3u64,
        0..6u8,
        any::<bool>(),
        prop_oneof![Just(0u64), 1..500u64],
    );
    prop_oneof![
        2 => (0..8u8).prop_map(Step::Up),
        1 => (0..16u8).prop_map(Step::Down),
        1 => (0..16u8).prop_map(Step::Drain),
        4 => submit.prop_map(|(flow, client, key, detach, deadline_ms)| Step::Submit {
            flow, client, key, detach, deadline_ms
        }),
        12 => (any::<usize>(), prop::bool::weighted(0.03)).prop_map(|(pick, fail)| Step::Report { pick, fail }),
        6 => any::<usize>().prop_map(|pick| Step::Result { pick }),
        1 => any::<usize>().prop_map(|pick| Step::Cancel { pick }),
        1 => (0..3u64).prop_map(|client| Step::Gone { client }),
        1 => (0..3u64).prop_map(|client| Step::Lost { client }),
        1 => (any::<usize>(), 0..3u64).prop_map(|(pick, client)| Step::Watch { pick, client }),
        1 => (0..16u8, 1..500u64).prop_map(|(worker, ms)| Step::DrainWithin { worker, ms }),
        1 => any::<usize>().prop_map(|pick| Step::Contradict { pick }),
        8 => (any::<usize>(), 0..6u32).prop_map(|(pick, key)| Step::Want { pick, key }),
        1 => (any::<usize>(), 0..6u32).prop_map(|(pick, key)| Step::Close { pick, key }),
        1 => any::<usize>().prop_map(|pick| Step::Leave { pick }),
        4 => any::<usize>().prop_map(|pick| Step::LetGo { pick }),
        4 => any::<usize>().prop_map(|pick| Step::GiveBack { pick }),
        2 => (0..200u64).prop_map(|ms| Step::Wait { ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_accepted_job_ends_exactly_once(
        steps in prop::collection::vec(step(), 1..150),
        round_robin in any::<bool>(),
        drawn in prop::collection::vec(0..6usize, 0..2),
    ) {
        let policy = if round_robin { "round-robin" } else { "least-outstanding" };
        let mut world = World::new(policy, &drawn);
        for step in steps {
            world.step(step);
        }
        world.finish();
    }
}
