//! Flows with fan-outs, routes and loops.

#![allow(dead_code)]

use std::sync::Arc;

use omniflow_flow::{Graph, GraphSpec, NodeKind, ScopeId};

use super::build::{FlowBuilder, count, list, out, text, texts, truth};

const ROOT: ScopeId = ScopeId::ROOT;

pub fn deterministic(mut spec: GraphSpec, but: &[usize]) -> Arc<Graph> {
    for (index, node) in spec.nodes.iter_mut().enumerate() {
        node.options.deterministic = !but.contains(&index);
    }
    Arc::new(Graph::new(spec).unwrap())
}

/// `answer(collect(clean(ocr(page)) for page in each(split(pdf))))`; nodes: 0 split, 1 each, 2 ocr, 3 clean, 4 collect,
/// 5 answer.
pub fn pdf() -> GraphSpec {
    let mut flow = FlowBuilder::new();
    let pdf = flow.input("pdf", text());
    let split = flow.node("split", &[("pdf", text(), pdf)], &[texts()]);
    let scope = flow.scope("page", ROOT, false);
    let each = flow.control(
        "each",
        ROOT,
        NodeKind::Each { scope },
        &[(texts(), out(split, 0))],
        &[text(), count()],
    );
    let ocr = flow.node("ocr", &[("page", text(), out(each, 0))], &[text()]);
    let clean = flow.node("clean", &[("text", text(), out(ocr, 0))], &[text()]);
    flow.place(ocr, scope);
    flow.place(clean, scope);
    let inputs = [(text(), out(clean, 0)), (count(), out(each, 1))];
    let collect = flow.control(
        "collect",
        ROOT,
        NodeKind::Collect { scope },
        &inputs,
        &[list()],
    );
    let answer = flow.node("answer", &[("pages", list(), out(collect, 0))], &[texts()]);
    flow.result("answer", texts(), &[out(answer, 0)]);
    flow.spec
}

/// `any_of` over the branches of a route; nodes: 0 plan, 1 route, 2 write, 3 draw, 4 any_of, 5 tell.
pub fn routed() -> GraphSpec {
    let mut flow = FlowBuilder::new();
    let ask = flow.input("ask", text());
    let plan = flow.node("plan", &[("ask", text(), ask)], &[text(), text()]);
    let kind = NodeKind::Route {
        branches: vec!["text".into(), "image".into()],
        exclusive: true,
    };
    let route = flow.control(
        "route",
        ROOT,
        kind,
        &[(text(), out(plan, 0))],
        &[text(), text()],
    );
    let write = flow.node("write", &[("plan", text(), out(plan, 1))], &[text()]);
    flow.gate(write, out(route, 0));
    let draw = flow.node("draw", &[("plan", text(), out(plan, 1))], &[text()]);
    flow.gate(draw, out(route, 1));
    let inputs = [(text(), out(write, 0)), (text(), out(draw, 0))];
    let any = flow.control("any_of", ROOT, NodeKind::AnyOf, &inputs, &[text()]);
    let tell = flow.node("tell", &[("part", text(), out(any, 0))], &[text()]);
    flow.result("part", text(), &[out(tell, 0)]);
    flow.spec
}

/// A loop that gives out a part each round; nodes: 0 begin, 1 loop, 2 next, 3 until, 4 end.
pub fn agent() -> GraphSpec {
    let mut flow = FlowBuilder::new();
    let ask = flow.input("ask", text());
    let begin = flow.node("begin", &[("ask", text(), ask)], &[text()]);
    let scope = flow.scope("rounds", ROOT, true);
    let kind = NodeKind::Loop {
        scope,
        carried: 1,
        emitted: 1,
        max_rounds: 100,
    };
    let node = flow.control(
        "loop",
        ROOT,
        kind.clone(),
        &[(text(), out(begin, 0))],
        &[text(), text()],
    );
    let next = flow.node("next", &[("state", text(), out(node, 0))], &[text()]);
    let until = flow.node("until", &[("state", text(), out(next, 0))], &[truth()]);
    flow.place(next, scope);
    flow.place(until, scope);
    flow.rebuild_loop(node, out(next, 0), out(until, 0), &[out(next, 0)], kind);
    let end = flow.node("end", &[("last", text(), out(node, 1))], &[text()]);
    flow.result("last", text(), &[out(end, 0)]);
    flow.result("parts", texts(), &[out(node, 2)]);
    flow.spec
}
