//! Random valid flows.

use omniflow_flow::{GraphSpec, NodeId, Origin, ValueType};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::build::{FlowBuilder, out, text, texts};
use super::role::Carried;
use super::{Word, mix};

/// A recipe for a flow: every recipe gives a valid one.
#[derive(Clone, Debug)]
pub struct Plan {
    inputs: Vec<(bool, bool)>,
    nodes: Vec<NodePlan>,
    merge_results: bool,
}

#[derive(Clone, Debug)]
struct NodePlan {
    /// What feeds each parameter, and whether it may be missing.
    parameters: Vec<(Index, bool)>,
    /// What else feeds the first parameter, if that makes a valid `any_of`.
    rival: Option<Index>,
    /// Of each output: stream, optional.
    outputs: Vec<(bool, bool)>,
}

pub fn plan() -> impl Strategy<Value = Plan> {
    let node = (
        vec((any::<Index>(), any::<bool>()), 0..4),
        proptest::option::of(any::<Index>()),
        vec(any::<(bool, bool)>(), 1..3),
    )
        .prop_map(|(parameters, rival, outputs)| NodePlan {
            parameters,
            rival,
            outputs,
        });
    (
        vec(any::<(bool, bool)>(), 1..4),
        vec(node, 1..8),
        any::<bool>(),
    )
        .prop_map(|(inputs, nodes, merge_results)| Plan {
            inputs,
            nodes,
            merge_results,
        })
}

/// Flows in which arrival order decides nothing: no `any_of`.
pub fn plan_without_choices() -> impl Strategy<Value = Plan> {
    plan().prop_map(|mut plan| {
        plan.merge_results = false;
        plan.nodes.iter_mut().for_each(|node| node.rival = None);
        plan
    })
}

fn value_type((stream, optional): (bool, bool)) -> ValueType {
    let value_type = if stream { texts() } else { text() };
    if optional {
        value_type.or_none()
    } else {
        value_type
    }
}

impl Plan {
    pub fn spec(&self) -> GraphSpec {
        let mut flow = FlowBuilder::new();
        let mut sources: Vec<Origin> = Vec::new();
        for (index, kind) in self.inputs.iter().enumerate() {
            sources.push(flow.input(&format!("in{index}"), value_type(*kind)));
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let id = node.add_to(&mut flow, index, &sources);
            sources.extend((0..node.outputs.len()).map(|port| out(id, port as u32)));
        }
        self.add_results(&mut flow);
        flow.spec
    }

    /// Every node that nobody reads becomes a result; two of them one, if the plan says so.
    fn add_results(&self, flow: &mut FlowBuilder) {
        let unread =
            |node: &NodeId| {
                !flow.spec.edges.iter().any(
                    |edge| matches!(edge.from, Origin::Node { node: from, .. } if from == *node),
                )
            };
        let ids = (0..flow.spec.nodes.len()).map(|node| NodeId(node as u32));
        let mut origins: Vec<Origin> = ids.filter(unread).map(|node| out(node, 0)).collect();
        if let [.., first, second] = origins[..]
            && self.merge_results
            && flow.value_type(first).stream == flow.value_type(second).stream
        {
            origins.truncate(origins.len() - 2);
            let value_type = flow.value_type(first).or_none();
            flow.result("merged", value_type, &[first, second]);
        }
        for (index, origin) in origins.into_iter().enumerate() {
            let value_type = flow.value_type(origin).or_none();
            flow.result(&format!("result{index}"), value_type, &[origin]);
        }
    }

    /// What a job brings: some optional inputs stay out.
    pub fn job_inputs(&self, seed: u64) -> Vec<Carried> {
        let input = |(index, (stream, optional)): (u64, &(bool, bool))| {
            let random = mix(&[seed, index]);
            match (stream, optional) {
                (_, true) if random.is_multiple_of(2) => Carried::Nothing,
                (true, _) => Carried::Many(
                    (0..random % 5)
                        .map(|seq| Word(mix(&[random, seq])))
                        .collect(),
                ),
                (false, _) => Carried::One(Word(random)),
            }
        };
        (0..).zip(&self.inputs).map(input).collect()
    }
}

impl NodePlan {
    fn add_to(&self, flow: &mut FlowBuilder, index: usize, sources: &[Origin]) -> NodeId {
        let names: Vec<String> = (0..self.parameters.len())
            .map(|parameter| format!("p{parameter}"))
            .collect();
        let mut inputs = Vec::new();
        for ((source, optional), name) in self.parameters.iter().zip(&names) {
            let origin = *source.get(sources);
            let stream = flow.value_type(origin).stream;
            inputs.push((name.as_str(), value_type((stream, *optional)), origin));
        }
        let all: Vec<u32> = (0..inputs.len() as u32).collect();
        let mut trigger = if inputs.is_empty() {
            vec![]
        } else {
            vec![all.clone()]
        };
        let rival = self.rival.map(|rival| *rival.get(sources));
        if let (Some(rival), Some(first)) = (rival, inputs.first_mut())
            && flow.value_type(rival).stream == first.1.stream
        {
            first.1.optional = false;
            let choice = (first.0, first.1.clone(), rival);
            trigger.push(
                [inputs.len() as u32]
                    .into_iter()
                    .chain(all.into_iter().skip(1))
                    .collect(),
            );
            inputs.push(choice);
        }
        let outputs: Vec<ValueType> = self.outputs.iter().copied().map(value_type).collect();
        flow.node_with_trigger(&format!("node{index}"), &inputs, trigger, &outputs)
    }
}
