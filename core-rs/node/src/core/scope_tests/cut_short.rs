//! Streams that a reader did not want to their end, and a new attempt of that reader, which does.

use omniflow_flow::{Graph, Home, Key, NodeId, NodeSpec, Origin, PortIx, ScopeId};
use std::sync::Arc;

use super::scheduler::Scheduler;
use super::support::Word;
use super::support::build::{FlowBuilder, out, text, texts};
use super::support::role::Carried;
use super::world::World;
use crate::activation::Activation;

impl Scheduler {
    /// A new attempt cannot read what the one before did not want: whoever was stopped for that runs again, and it, too.
    /// Only of plain flows: what else has to run again with them is the job table's to decide.
    pub(super) fn run_producers_again(&mut self, at: (NodeId, Key), epoch: u32) {
        if !self.repairs || self.bound.get(&at).map(|(_, known)| *known) != Some(epoch) {
            return;
        }
        let graph = Arc::clone(&self.graph);
        let ports = (0..graph.nodes()[at.0.index()].inputs.len() as u32).map(PortIx);
        let edges = ports.filter_map(|port| graph.edge_into(at.0, port));
        let producers = edges.filter_map(|edge| match graph.edge(edge)?.from {
            Origin::Node { node, .. } if graph.home(node) == Home::Node(node) => Some(node),
            _ => None,
        });
        let mut again = vec![at.clone()];
        for node in producers {
            let producer = (node, at.1.prefix(graph.bind_depth(node)));
            if self.ended.contains(&producer) && !again.contains(&producer) {
                again.insert(0, producer);
            }
        }
        if again.len() > 1 {
            self.move_nodes(&again);
        }
    }
}

const FRAMES: usize = 5;

/// `b` reads the stream of `a`, and so does `c` if there is one.
fn flow(and_c: bool) -> Arc<Graph> {
    let mut flow = FlowBuilder::new();
    let input = flow.input("in", text());
    let a = flow.node("a", &[("p", text(), input)], &[texts()]);
    let b = flow.node("b", &[("p", texts(), out(a, 0))], &[text()]);
    flow.result("b", text(), &[out(b, 0)]);
    if and_c {
        let c = flow.node("c", &[("p", texts(), out(a, 0))], &[text()]);
        flow.result("c", text(), &[out(c, 0)]);
    }
    flow.graph()
}

const B: NodeId = NodeId(1);

/// The first attempt of `b` does not read at all.
fn reads(activation: &Activation) -> bool {
    activation.node != B || activation.epoch > 1
}

/// Who reads gets all of it.
fn role(spec: &NodeSpec, _: NodeId, inputs: &[(PortIx, Carried)]) -> Vec<Carried> {
    if let [(_, Carried::Many(words))] = inputs {
        assert!([0, FRAMES].contains(&words.len()), "{words:?}");
    }
    vec![match spec.outputs[0].value_type.stream {
        true => Carried::Many((0..FRAMES as u64).map(Word).collect()),
        false => Carried::One(Word(1)),
    }]
}

/// Runs to where nothing happens any more; then `b` is bound again. Whether `a` had been stopped by then.
fn reads_at_last(seed: u64, and_c: bool) -> bool {
    let mut world = World::new(flow(and_c), seed);
    (world.role, world.reads) = (role, reads);
    world.scheduler.repairs = true;
    world.scheduler.feed(&[Carried::One(Word(0))]);
    world.run();
    let whole = world.cores.iter().flat_map(|core| core.jobs.values());
    let was_cut = whole.into_iter().any(|job| !job.cut.is_empty());
    let at = (B, Key::ROOT);
    world.scheduler.move_nodes(std::slice::from_ref(&at));
    world.run();
    let running = world.cores.iter().flat_map(|core| core.jobs.values());
    let running: usize = running.map(|job| job.activations.len()).sum();
    assert_eq!(running, 0, "it waits for ever");
    assert!(world.scheduler.ended.contains(&at));
    was_cut
}

#[test]
fn rule_11_a_reader_that_runs_again_may_read_what_the_one_before_did_not_want() {
    let cut = (0..60).filter(|seed| reads_at_last(*seed, false)).count();
    assert!(cut > 10, "its producer was stopped {cut} times of 60");
}

#[test]
fn rule_11_it_is_given_what_another_reader_was_sent() {
    let cut = (0..60).filter(|seed| reads_at_last(*seed, true)).count();
    assert!(cut > 10, "it was cut short {cut} times of 60");
}

#[test]
fn what_was_not_read_in_a_scope_is_forgotten_with_it() {
    let mut flow = FlowBuilder::new();
    let input = flow.input("in", text());
    let source = flow.node("source", &[("p", text(), input)], &[texts()]);
    let scope = flow.scope("each", ScopeId::ROOT, false);
    let kind = omniflow_flow::NodeKind::Each { scope };
    let made = [text(), super::support::build::count()];
    let each = flow.control(
        "each",
        ScopeId::ROOT,
        kind,
        &[(texts(), out(source, 0))],
        &made,
    );
    let b = flow.node("b", &[("p", text(), out(each, 0))], &[texts()]);
    let c = flow.node("c", &[("p", texts(), out(b, 0))], &[text()]);
    flow.place(b, scope);
    flow.place(c, scope);
    let kind = omniflow_flow::NodeKind::Unordered { scope };
    let gathered = [
        (text(), out(c, 0)),
        (super::support::build::count(), out(each, 1)),
    ];
    let all = flow.control("all", ScopeId::ROOT, kind, &gathered, &[texts()]);
    let end = flow.node("end", &[("p", texts(), out(all, 0))], &[text()]);
    flow.result("out", text(), &[out(end, 0)]);
    let mut world = World::new(flow.graph(), 3);
    world.role = |spec, _, _| {
        vec![match spec.outputs[0].value_type.stream {
            true => Carried::Many((0..FRAMES as u64).map(Word).collect()),
            false => Carried::One(Word(1)),
        }]
    };
    world.reads = |activation| activation.node != NodeId(3);
    world.scheduler.feed(&[Carried::One(Word(0))]);
    world.run();
    world.assert_over();
    for core in &world.cores {
        assert!(core.jobs.values().all(|job| job.cut.is_empty()));
    }
}
