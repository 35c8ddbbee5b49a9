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

/// `told = tell(plan(ask))` is a result, and `read(collect(told))` is one; nodes: 0 plan, 1 tell, 2 collect, 3 read. `tell` is
/// resumable, and each of its attempts says something else.
pub fn told() -> Arc<Graph> {
    let mut flow = FlowBuilder::new();
    let ask = flow.input("ask", text());
    let plan = flow.node("plan", &[("ask", text(), ask)], &[text()]);
    let tell = flow.node("tell", &[("plan", text(), out(plan, 0))], &[texts()]);
    let kind = NodeKind::Collect { scope: ROOT };
    let words = [(texts(), out(tell, 0))];
    let collect = flow.control("collect", ROOT, kind, &words, &[list()]);
    let read = flow.node("read", &[("words", list(), out(collect, 0))], &[text()]);
    flow.result("words", texts(), &[out(tell, 0)]);
    flow.result("read", text(), &[out(read, 0)]);
    for (index, node) in flow.spec.nodes.iter_mut().enumerate() {
        node.options.deterministic = index != tell.index();
        node.options.resumable = index == tell.index();
    }
    flow.graph()
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

/// Words of each line of each page; nodes: 0 split, 1 each, 2 lines, 3 each, 4 route, 5 read, 6 skip, 7 any_of, 8 collect,
/// 9 join, 10 ordered. Results are the pages in order.
pub fn nested() -> GraphSpec {
    let mut flow = FlowBuilder::new();
    let pdf = flow.input("pdf", text());
    let split = flow.node("split", &[("pdf", text(), pdf)], &[texts()]);
    let page = flow.scope("page", ROOT, false);
    let each = |flow: &mut FlowBuilder, around, scope, from| {
        let kind = NodeKind::Each { scope };
        let name = format!("each {}", scope.0);
        flow.control(&name, around, kind, &[(texts(), from)], &[text(), count()])
    };
    let pages = each(&mut flow, ROOT, page, out(split, 0));
    let lines = flow.node("lines", &[("page", text(), out(pages, 0))], &[texts()]);
    flow.place(lines, page);
    let line = flow.scope("line", page, false);
    let of_page = each(&mut flow, page, line, out(lines, 0));
    let kind = NodeKind::Route {
        branches: vec!["text".into(), "image".into()],
        exclusive: true,
    };
    let choice = [(text(), out(of_page, 0))];
    let route = flow.control("route", line, kind, &choice, &[text(), text()]);
    let branch = |flow: &mut FlowBuilder, name, port| {
        let node = flow.node(name, &[("line", text(), out(of_page, 0))], &[text()]);
        flow.place(node, line);
        flow.gate(node, out(route, port));
        node
    };
    let (read, skip) = (branch(&mut flow, "read", 0), branch(&mut flow, "skip", 1));
    let inputs = [(text(), out(read, 0)), (text(), out(skip, 0))];
    let any = flow.control("any_of", line, NodeKind::AnyOf, &inputs, &[text()]);
    let inputs = [(text(), out(any, 0)), (count(), out(of_page, 1))];
    let kind = NodeKind::Collect { scope: line };
    let collect = flow.control("collect", page, kind, &inputs, &[list()]);
    let join = flow.node("join", &[("lines", list(), out(collect, 0))], &[text()]);
    flow.place(join, page);
    let inputs = [(text(), out(join, 0)), (count(), out(pages, 1))];
    let kind = NodeKind::Ordered { scope: page };
    let ordered = flow.control("ordered", ROOT, kind, &inputs, &[texts()]);
    flow.result("pages", texts(), &[out(ordered, 0)]);
    flow.spec
}

/// A loop whose body fans out; nodes: 0 begin, 1 loop, 2 split, 3 each, 4 ocr, 5 collect, 6 next, 7 until, 8 end.
pub fn looped_fan() -> GraphSpec {
    let mut flow = FlowBuilder::new();
    let ask = flow.input("ask", text());
    let begin = flow.node("begin", &[("ask", text(), ask)], &[text()]);
    let rounds = flow.scope("rounds", ROOT, true);
    let kind = NodeKind::Loop {
        scope: rounds,
        carried: 1,
        emitted: 1,
        max_rounds: 100,
    };
    let start = [(text(), out(begin, 0))];
    let node = flow.control("loop", ROOT, kind.clone(), &start, &[text(), text()]);
    let split = flow.node("split", &[("state", text(), out(node, 0))], &[texts()]);
    flow.place(split, rounds);
    let page = flow.scope("page", rounds, false);
    let each = flow.control(
        "each",
        rounds,
        NodeKind::Each { scope: page },
        &[(texts(), out(split, 0))],
        &[text(), count()],
    );
    let ocr = flow.node("ocr", &[("page", text(), out(each, 0))], &[text()]);
    flow.place(ocr, page);
    let inputs = [(text(), out(ocr, 0)), (count(), out(each, 1))];
    let collected = NodeKind::Collect { scope: page };
    let collect = flow.control("collect", rounds, collected, &inputs, &[list()]);
    let next = flow.node("next", &[("pages", list(), out(collect, 0))], &[text()]);
    flow.place(next, rounds);
    let until = flow.node("until", &[("state", text(), out(next, 0))], &[truth()]);
    flow.place(until, rounds);
    flow.rebuild_loop(node, out(next, 0), out(until, 0), &[out(next, 0)], kind);
    let end = flow.node("end", &[("last", text(), out(node, 1))], &[text()]);
    flow.result("last", text(), &[out(end, 0)]);
    flow.result("parts", texts(), &[out(node, 2)]);
    flow.spec
}

/// A loop for each page; nodes: 0 split, 1 each, 2 loop, 3 read, 4 next, 5 until, 6 collect, 7 answer. The loop runs at the
/// side of `read`, and the collect at that of `answer`.
pub fn fanned_loop() -> GraphSpec {
    let mut flow = FlowBuilder::new();
    let pdf = flow.input("pdf", text());
    let split = flow.node("split", &[("pdf", text(), pdf)], &[texts()]);
    let page = flow.scope("page", ROOT, false);
    let each = flow.control(
        "each",
        ROOT,
        NodeKind::Each { scope: page },
        &[(texts(), out(split, 0))],
        &[text(), count()],
    );
    let rounds = flow.scope("rounds", page, true);
    let kind = NodeKind::Loop {
        scope: rounds,
        carried: 1,
        emitted: 0,
        max_rounds: 100,
    };
    let start = [(text(), out(each, 0))];
    let node = flow.control("loop", page, kind.clone(), &start, &[text(), text()]);
    let read = flow.node("read", &[("state", text(), out(node, 0))], &[text()]);
    let next = flow.node("next", &[("text", text(), out(read, 0))], &[text()]);
    let until = flow.node("until", &[("state", text(), out(next, 0))], &[truth()]);
    for inside in [read, next, until] {
        flow.place(inside, rounds);
    }
    flow.rebuild_loop(node, out(next, 0), out(until, 0), &[], kind);
    let inputs = [(text(), out(node, 1)), (count(), out(each, 1))];
    let collected = NodeKind::Collect { scope: page };
    let collect = flow.control("collect", ROOT, collected, &inputs, &[list()]);
    let answer = flow.node("answer", &[("pages", list(), out(collect, 0))], &[text()]);
    flow.result("answer", text(), &[out(answer, 0)]);
    flow.spec
}
