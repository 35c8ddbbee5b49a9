//! Random flows, run by resolvers against an oracle that knows no arrivals: it evaluates whole edges, node by node.

use std::collections::BTreeMap;
use std::sync::Arc;

use omniflow_flow::{EdgeId, Graph, NodeId, Origin, PortIx};
use proptest::prelude::*;

use crate::support::cases;
use crate::support::job::{Job, Seen};
use crate::support::plan::{Plan, plan, plan_without_choices};
use crate::support::role::{self, Carried};

/// What a job must do. Where several alternatives of a node could fire, arrival order decides: the oracle follows the one
/// that fired, if it could.
struct Oracle<'a> {
    graph: &'a Graph,
    inputs: &'a [Carried],
    outputs: BTreeMap<NodeId, Vec<Carried>>,
}

impl<'a> Oracle<'a> {
    fn carried(&self, edge: EdgeId) -> &Carried {
        match self.graph.edge(edge).unwrap().from {
            Origin::Input { port } => &self.inputs[port.index()],
            Origin::Node { node, port } => &self.outputs[&node][port.index()],
        }
    }

    /// Whether an alternative can fire: no required port of it is closed.
    fn live(&self, node: NodeId, ports: &[PortIx]) -> bool {
        let inputs = &self.graph.node(node).unwrap().inputs;
        ports.iter().all(|port| {
            let edge = self.graph.edge_into(node, *port).unwrap();
            inputs[port.index()].value_type.optional || *self.carried(edge) != Carried::Nothing
        })
    }

    fn judge_node(&mut self, node: NodeId, seen: &Seen) {
        let spec = self.graph.node(node).unwrap();
        let trigger = if spec.trigger.is_empty() {
            vec![vec![]]
        } else {
            spec.trigger.clone()
        };
        let live: Vec<usize> = (0..trigger.len())
            .filter(|index| self.live(node, &trigger[*index]))
            .collect();
        let outputs = match seen.fired.get(&node) {
            None => {
                assert!(live.is_empty(), "{node:?} had to fire {live:?}");
                assert!(seen.closed.contains(&node), "{node:?} had to be closed");
                vec![Carried::Nothing; spec.outputs.len()]
            }
            Some(fired) => {
                assert!(
                    live.contains(fired),
                    "{node:?} fired {fired}, but only {live:?} could"
                );
                let read = |port: &PortIx| {
                    (
                        *port,
                        self.carried(self.graph.edge_into(node, *port).unwrap())
                            .clone(),
                    )
                };
                let read: Vec<_> = trigger[*fired].iter().map(read).collect();
                role::outputs(spec, node, &read)
            }
        };
        self.outputs.insert(node, outputs);
    }

    fn judge_result(&self, port: PortIx, seen: &Seen) {
        let carried: Vec<&Carried> = self
            .graph
            .edges_into_result(port)
            .iter()
            .map(|edge| self.carried(*edge))
            .collect();
        let got = seen.results.get(&port).expect("every result ends");
        let something = carried.iter().any(|carried| **carried != Carried::Nothing);
        assert!(
            carried.contains(&got),
            "{port:?} got {got:?}, not one of {carried:?}"
        );
        assert!(
            *got != Carried::Nothing || !something,
            "{port:?} was closed, but something came"
        );
    }
}

fn judge(graph: &Graph, inputs: &[Carried], seen: &Seen) {
    let mut oracle = Oracle {
        graph,
        inputs,
        outputs: BTreeMap::new(),
    };
    graph
        .order()
        .iter()
        .for_each(|node| oracle.judge_node(*node, seen));
    (0..graph.results().len()).for_each(|port| oracle.judge_result(PortIx(port as u32), seen));
}

fn graph(plan: &Plan) -> Arc<Graph> {
    Arc::new(Graph::new(plan.spec()).expect("every plan gives a valid flow"))
}

fn run(graph: &Arc<Graph>, inputs: &[Carried], places: usize, seed: u64) -> Seen {
    let nodes = graph.nodes().len();
    let place_of = (0..nodes).map(|node| {
        if places == 1 {
            0
        } else {
            1 + (node + seed as usize % 7) % (places - 1)
        }
    });
    let mut job = Job::new(graph.clone(), place_of.collect(), seed);
    job.feed(inputs);
    job.run();
    job.assert_over();
    job.seen
}

proptest! {
    #![proptest_config(cases(500))]

    /// Rules 1, 2, 5, 8, 9: every job ends, order holds, nothing fires twice, nothing is kept, whatever the order of
    /// arrival and whatever comes twice. (The job's own checks assert order, single firing and memory.)
    #[test]
    fn rules_01_to_09_hold_for_any_flow_in_any_order(plan in plan(), seed in any::<u64>()) {
        let (graph, inputs) = (graph(&plan), plan.job_inputs(seed));
        judge(&graph, &inputs, &run(&graph, &inputs, 1, seed));
    }

    #[test]
    fn a_job_split_over_places_does_what_the_oracle_says(plan in plan(), seed in any::<u64>(), places in 2usize..5) {
        let (graph, inputs) = (graph(&plan), plan.job_inputs(seed));
        judge(&graph, &inputs, &run(&graph, &inputs, places, seed));
    }

    #[test]
    fn a_job_without_choices_does_the_same_in_one_place_and_in_many(
        plan in plan_without_choices(), seed in any::<u64>(), other in any::<u64>(), places in 2usize..5,
    ) {
        let (graph, inputs) = (graph(&plan), plan.job_inputs(seed));
        let (mut one, mut many) = (run(&graph, &inputs, 1, seed), run(&graph, &inputs, places, other));
        one.closed.sort();
        many.closed.sort();
        prop_assert_eq!(one, many);
    }

    /// Rule 12: nodes that start again, elsewhere and under a higher epoch, change nothing of what is delivered.
    #[test]
    fn rule_12_new_attempts_change_nothing_that_was_delivered(
        plan in plan_without_choices(), seed in any::<u64>(), restarts in 1usize..6,
    ) {
        let (graph, inputs) = (graph(&plan), plan.job_inputs(seed));
        let place_of = (0..graph.nodes().len()).map(|node| 1 + node % 3).collect();
        let mut job = Job::new(graph.clone(), place_of, seed);
        job.feed(&inputs);
        for _ in 0..restarts {
            let steps = job.choose(20);
            (0..steps).for_each(|_| { job.step(); });
            let node = job.choose(graph.nodes().len());
            job.restart(NodeId(node as u32));
        }
        job.run();
        job.assert_over();
        judge(&graph, &inputs, &job.seen);
    }
}
