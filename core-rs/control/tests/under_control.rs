//! Jobs over several places whose binds the job table decides, with workers that die in the middle: every job ends with the
//! results that it would have had.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::cluster::Cluster;
use common::flows::{agent, deterministic, looped_fan, nested, pdf, routed};
use omniflow_flow::Graph;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn survives(graph: &Arc<Graph>, seed: u64, deaths: &[usize]) -> u32 {
    let undisturbed = Cluster::new(graph, seed).run(&[]);
    let mut cluster = Cluster::new(graph, seed);
    assert_eq!(cluster.run(deaths), undisturbed);
    cluster.starts
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        // The same in every run; PROPTEST_RNG_SEED and PROPTEST_CASES look for others.
        rng_seed: RngSeed::Fixed(12),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn rule_12_a_fan_out_survives_its_workers(
        seed in any::<u64>(),
        deaths in prop::collection::vec(0..80usize, 1..4),
    ) {
        survives(&deterministic(pdf(), &[]), seed, &deaths);
    }

    #[test]
    fn rule_12_a_route_survives_its_workers(
        seed in any::<u64>(),
        deaths in prop::collection::vec(0..40usize, 1..4),
    ) {
        survives(&deterministic(routed(), &[]), seed, &deaths);
    }

    #[test]
    fn rule_12_a_loop_survives_its_workers(
        seed in any::<u64>(),
        deaths in prop::collection::vec(0..60usize, 1..4),
    ) {
        survives(&deterministic(agent(), &[]), seed, &deaths);
    }

    #[test]
    fn rule_12_a_fan_out_in_a_fan_out_survives_its_workers(
        seed in any::<u64>(),
        deaths in prop::collection::vec(0..200usize, 1..4),
    ) {
        survives(&deterministic(nested(), &[]), seed, &deaths);
    }

    #[test]
    fn rule_12_a_fan_out_in_a_loop_survives_its_workers(
        seed in any::<u64>(),
        deaths in prop::collection::vec(0..200usize, 1..4),
    ) {
        survives(&deterministic(looped_fan(), &[]), seed, &deaths);
    }
}
