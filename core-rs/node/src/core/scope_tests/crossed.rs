//! A node in a fan-out moves while the word that the fan-out is over is on its way to the scheduler.

use std::sync::Arc;

use omniflow_flow::{Graph, Key, NodeId, NodeKind, NodeSpec, ScopeId};
use omniflow_wire::v1;

use super::JOB;
use super::scheduler::Scheduler;
use super::support::Word;
use super::support::build::{FlowBuilder, count, out, text, texts};
use super::support::role::Carried;
use super::world::World;

impl Scheduler {
    /// Whoever says that a scope was left may not have heard yet of what has moved to it meanwhile, as the hub does.
    pub(super) fn tell_crossed(&mut self, from: Option<usize>, scope: ScopeId, key: &Key) {
        let graph = Arc::clone(&self.graph);
        let closes = |node: &NodeSpec| {
            let makes_only = matches!(node.kind, NodeKind::Each { .. });
            node.kind.inner_scope() == Some(scope) && !makes_only
        };
        let nodes = (0..).map(NodeId).zip(graph.nodes());
        let closers: Vec<NodeId> = nodes
            .filter(|(_, node)| closes(node))
            .map(|(node, _)| node)
            .collect();
        let known = |by: &NodeId| self.seen.left.contains(&(scope, key.clone(), *by));
        if !self.moved || self.is_in_loop(scope) || !closers.iter().all(known) {
            return;
        }
        for (worker, by) in from.into_iter().flat_map(|from| {
            let closers = closers.iter();
            closers.map(move |by| (from, *by))
        }) {
            let message = v1::ScopeLeft {
                job: JOB,
                scope: scope.0,
                key: key.path().to_vec(),
                by: by.0,
                term: 1,
            };
            self.out.push((worker, message.into()));
        }
    }
}

const WORK: NodeId = NodeId(2);
const PAGES: ScopeId = ScopeId(1);

/// `last` does not read what is made of the pages, so that nobody needs those that are still worked on.
fn flow() -> Arc<Graph> {
    let mut flow = FlowBuilder::new();
    let input = flow.input("in", text());
    let source = flow.node("source", &[("p", text(), input)], &[texts()]);
    let scope = flow.scope("page", ScopeId::ROOT, false);
    let (kind, made) = (NodeKind::Each { scope }, [text(), count()]);
    let pages = [(texts(), out(source, 0))];
    let each = flow.control("each", ScopeId::ROOT, kind, &pages, &made);
    let work = flow.node("work", &[("p", text(), out(each, 0))], &[text()]);
    flow.place(work, scope);
    let kind = NodeKind::Unordered { scope };
    let gathered = [(text(), out(work, 0)), (count(), out(each, 1))];
    let all = flow.control("all", ScopeId::ROOT, kind, &gathered, &[texts()]);
    let last = flow.node("last", &[("p", texts(), out(all, 0))], &[text()]);
    flow.result("out", text(), &[out(last, 0)]);
    flow.graph()
}

fn role(spec: &NodeSpec, _: NodeId, _: &[(omniflow_flow::PortIx, Carried)]) -> Vec<Carried> {
    vec![match spec.outputs[0].value_type.stream {
        true => Carried::Many((0..9).map(Word).collect()),
        false => Carried::One(Word(1)),
    }]
}

/// Whether the fan-out was over at where something of it moved to, and the scheduler did not know.
fn moves_across(seed: u64) -> bool {
    let mut world = World::new(flow(), seed);
    world.role = role;
    world.reads = |activation| activation.node != NodeId(4);
    world.scheduler.feed(&[Carried::One(Word(0))]);
    let is_over = |world: &World, worker: usize| {
        let jobs = world.cores[worker].jobs.values();
        jobs.into_iter()
            .any(|job| job.resolver.has_ended(PAGES, &Key::ROOT))
    };
    while !(0..world.cores.len()).any(|worker| is_over(&world, worker)) {
        assert!(world.step(), "it never ends");
    }
    let told = world
        .scheduler
        .seen
        .unneeded(&world.scheduler.graph, PAGES, &Key::ROOT);
    let bound = world.scheduler.bound.keys();
    let of_page = bound.filter(|(node, _)| *node == WORK).cloned();
    let of_page: Vec<_> = of_page
        .filter(|at| !world.scheduler.ended.contains(at))
        .collect();
    let mut crossed = false;
    if !told && let Some(at) = of_page.first() {
        world.scheduler.move_nodes(std::slice::from_ref(at));
        crossed = is_over(&world, world.scheduler.bound[at].0);
    }
    world.run();
    let running = world.cores.iter().flat_map(|core| core.jobs.values());
    let waiting = running.flat_map(|job| job.places.iter().map(move |at| (job, at)));
    let in_vain = waiting.filter(|(job, (node, key, place))| {
        let moved = place.epoch > 1 && place.is_here();
        moved && job.resolver.hosted(*node, key).is_some()
    });
    assert_eq!(in_vain.count(), 0, "it waits until the job is over");
    world.assert_over();
    crossed
}

#[test]
fn what_moves_into_a_fan_out_that_is_over_is_told_so() {
    let crossed = (0..100).filter(|seed| moves_across(*seed)).count();
    assert!(crossed > 5, "it has crossed {crossed} times of 100");
}
