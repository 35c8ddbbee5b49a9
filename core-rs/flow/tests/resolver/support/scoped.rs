//! Small flows with one scope.

use std::sync::Arc;

use omniflow_flow::{Graph, NodeKind, ScopeId, ValueType};

use super::Word;
use super::build::{FlowBuilder, count, list, out, text, texts, truth};
use super::cluster::Cluster;
use super::role::Carried;

pub const ROOT: ScopeId = ScopeId::ROOT;

/// `collect(page(item, outer) for item in each(stream))`; nodes: each, page, collect.
pub fn fan(outer: bool) -> FlowBuilder {
    fan_left_by(outer, |scope| NodeKind::Collect { scope }, list())
}

/// The same with another node by which the keys leave, and what it makes.
pub fn fan_left_by(
    outer: bool,
    leave: impl Fn(ScopeId) -> NodeKind,
    made: ValueType,
) -> FlowBuilder {
    let mut flow = FlowBuilder::new();
    let (stream, extra) = (flow.input("stream", texts()), flow.input("extra", text()));
    let scope = flow.scope("page", ROOT, false);
    let each = flow.control(
        "each",
        ROOT,
        NodeKind::Each { scope },
        &[(texts(), stream)],
        &[text(), count()],
    );
    let mut reads = vec![("item", text(), out(each, 0))];
    if outer {
        reads.push(("extra", text(), extra));
    }
    let page = flow.node("page", &reads, &[text().or_none()]);
    flow.place(page, scope);
    let inputs = [(text().or_none(), out(page, 0)), (count(), out(each, 1))];
    let collect = flow.control(
        "collect",
        ROOT,
        leave(scope),
        &inputs,
        std::slice::from_ref(&made),
    );
    flow.result("pages", made.or_none(), &[out(collect, 0)]);
    flow
}

/// A loop over one text with two roles; nodes: loop, next, until.
pub fn cycle(max_rounds: u32) -> Arc<Graph> {
    cycle_of(max_rounds, text())
}

/// The same, with a state that may be left out.
pub fn cycle_or_none(max_rounds: u32) -> Arc<Graph> {
    cycle_of(max_rounds, text().or_none())
}

fn cycle_of(max_rounds: u32, state: ValueType) -> Arc<Graph> {
    let mut flow = FlowBuilder::new();
    let start = flow.input("start", text());
    let scope = flow.scope("rounds", ROOT, true);
    let kind = NodeKind::Loop {
        scope,
        carried: 1,
        emitted: 0,
        max_rounds,
    };
    let node = flow.control(
        "loop",
        ROOT,
        kind.clone(),
        &[(text(), start)],
        &[text(), text()],
    );
    let next = flow.node("next", &[("state", text(), out(node, 0))], &[state]);
    let until = flow.node("until", &[("state", text(), out(next, 0))], &[truth()]);
    flow.place(next, scope);
    flow.place(until, scope);
    flow.rebuild_loop(node, out(next, 0), out(until, 0), &[], kind);
    flow.result("last", text().or_none(), &[out(node, 1)]);
    flow.graph()
}

pub fn words(count: u64) -> Carried {
    Carried::Many((0..count).map(Word).collect())
}

/// Runs a job in order of arrival, measuring what it holds after each step.
pub fn measured(graph: Arc<Graph>, inputs: &[Carried]) -> Cluster {
    let mut cluster = Cluster::new(graph, 2, 7);
    cluster.wild = false;
    cluster.feed(inputs);
    while cluster.step() {
        cluster.measure();
    }
    cluster
}
