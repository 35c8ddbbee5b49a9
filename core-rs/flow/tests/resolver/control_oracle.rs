//! Random flows with fan-outs, loops, routes and streams, over several places, against an oracle that knows no arrivals.

use std::sync::Arc;

use omniflow_flow::Graph;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::cluster::Cluster;
use crate::support::evaluate::Oracle;
use crate::support::weave::{Woven, weave};
use crate::support::{cases, mix};

fn graph(woven: &Woven) -> Arc<Graph> {
    let graph = Graph::new(woven.spec.clone());
    Arc::new(graph.unwrap_or_else(|problems| panic!("{problems:#?} in {:#?}", woven.spec)))
}

fn judge(cluster: &Cluster, woven: &Woven, seed: u64) {
    let lost = cluster.lost;
    let inputs = woven.job_inputs(seed);
    let graph = cluster.graph.clone();
    if let Some((node, key, fault)) = &cluster.seen.failed {
        let mut oracle = Oracle::new(&graph, &inputs, &cluster.seen);
        // One loop may pass its bound in the middle of another that would, too.
        assert!(oracle.fails(*node, key).is_err(), "{fault}");
        return;
    }
    match lost {
        true => cluster.assert_ended(),
        false => cluster.assert_over(),
    }
    let told = Oracle::new(&graph, &inputs, &cluster.seen).judge();
    assert_eq!(told, Ok(()), "the job had to fail");
}

fn start(woven: &Woven, places: usize, seed: u64) -> Cluster {
    let mut cluster = Cluster::new(graph(woven), places, seed);
    cluster.feed(&woven.job_inputs(seed));
    cluster
}

fn tape() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..120)
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn rules_01_to_09_hold_for_any_flow_with_scopes_in_any_order(
        tape in tape(), seed in any::<u64>(), places in 2usize..5,
    ) {
        let woven = weave(&tape, true);
        let mut cluster = start(&woven, places, seed);
        cluster.run();
        judge(&cluster, &woven, seed);
    }

    #[test]
    fn a_job_with_scopes_does_the_same_in_one_place_and_in_many(
        tape in tape(), seed in any::<u64>(), places in 3usize..6,
    ) {
        let woven = weave(&tape, false);
        let (mut one, mut many) = (start(&woven, 2, seed), start(&woven, places, seed));
        one.run();
        many.run();
        judge(&one, &woven, seed);
        judge(&many, &woven, seed);
        // A loop that nobody reads any more may or may not reach its bound before it is stopped.
        if one.seen.failed.is_none() && many.seen.failed.is_none() {
            prop_assert_eq!(one.seen.results, many.seen.results);
        }
    }

    /// Rule 12: workers that are lost in mid-job change nothing of what is delivered. (In flows without loops.) Half of the
    /// nodes, if they can, go on from what was delivered and say none of it again.
    #[test]
    fn rule_12_lost_workers_change_nothing_that_an_each_delivered(
        tape in tape(), seed in any::<u64>(), places in 3usize..5, losses in 1usize..4,
    ) {
        let mut woven = weave(&tape, false);
        for (index, node) in (0..).zip(&mut woven.spec.nodes) {
            node.options.resumable = mix(&[seed, index]).is_multiple_of(2);
        }
        prop_assume!(woven.spec.scopes.iter().all(|scope| !scope.is_loop));
        let mut cluster = start(&woven, places, seed);
        for _ in 0..losses {
            for _ in 0..cluster.choose(40) {
                cluster.step();
            }
            if cluster.seen.failed.is_none() {
                let lost = 1 + cluster.choose(places - 1);
                cluster.lose(lost);
            }
        }
        cluster.run();
        judge(&cluster, &woven, seed);
    }

    /// The same in the middle of loops: what begins again from their first rounds, or from the job's inputs, says the same.
    #[test]
    fn rule_12_workers_that_are_lost_in_the_middle_of_a_loop_change_nothing(
        tape in tape(), seed in any::<u64>(), places in 3usize..5, losses in 1usize..4,
    ) {
        let woven = weave(&tape, false);
        prop_assume!(woven.spec.scopes.iter().any(|scope| scope.is_loop));
        let mut cluster = start(&woven, places, seed);
        for _ in 0..losses {
            for _ in 0..cluster.choose(80) {
                cluster.step();
            }
            if cluster.seen.failed.is_none() {
                let lost = 1 + cluster.choose(places - 1);
                cluster.lose(lost);
            }
        }
        cluster.run();
        judge(&cluster, &woven, seed);
    }
}
