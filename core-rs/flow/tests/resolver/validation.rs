//! Every reason why a flow can never work is found, named and placed.

use omniflow_flow::{
    Destination, EdgeId, Graph, NodeId, Origin, PortIx, Problem, ProblemCode, ValueKind, ValueType,
};

use crate::support::build::{FlowBuilder, out, text, texts};

fn problems(flow: FlowBuilder) -> Vec<Problem> {
    Graph::new(flow.spec)
        .map(|_| vec![])
        .unwrap_or_else(|problems| problems)
}

fn codes(flow: FlowBuilder) -> Vec<&'static str> {
    problems(flow)
        .iter()
        .map(|problem| problem.code.as_str())
        .collect()
}

/// `a -> upper -> r`, which works.
fn chain() -> FlowBuilder {
    let mut flow = FlowBuilder::new();
    let a = flow.input("a", text());
    let node = flow.node("upper", &[("a", text(), a)], &[text()]);
    flow.result("r", text(), &[out(node, 0)]);
    flow
}

#[test]
fn a_flow_that_works_has_no_problem_and_an_order() {
    let mut flow = FlowBuilder::new();
    let a = flow.input("a", text().or_none());
    let late = flow.node(
        "late",
        &[("x", text(), out(NodeId(1), 0)), ("a", text().or_none(), a)],
        &[text()],
    );
    flow.node("early", &[], &[text()]);
    flow.result("r", text(), &[out(late, 0)]);
    assert_eq!(flow.graph().order(), [NodeId(1), NodeId(0)]);
}

#[test]
fn an_optional_value_may_go_into_a_required_port() {
    let mut flow = FlowBuilder::new();
    let image = flow.input("image", text().or_none());
    let read = flow.node("ocr.read", &[("image", text(), image)], &[text()]);
    flow.result("r", text().or_none(), &[out(read, 0)]);
    assert_eq!(codes(flow), [""; 0]);
}

#[test]
fn broken_references_are_found_before_anything_else() {
    let mut flow = chain();
    flow.spec.edges[0].to = Destination::Node {
        node: NodeId(7),
        port: PortIx(0),
    };
    flow.spec.nodes[0].trigger = vec![vec![PortIx(3)]];
    let found = problems(flow);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0].node, Some(NodeId(0)));
    assert_eq!(found[1].edge, Some(EdgeId(0)));
    assert!(
        found
            .iter()
            .all(|problem| problem.code == ProblemCode::BrokenReference)
    );
}

#[test]
fn names_must_differ() {
    let mut flow = chain();
    let a = flow.input("a", text());
    let again = flow.node("upper", &[("x", text(), a)], &[text()]);
    flow.result("r", text(), &[out(again, 0)]);
    assert_eq!(codes(flow), ["duplicate-name"; 3]);
}

#[test]
fn kinds_must_match() {
    let mut flow = FlowBuilder::new();
    let a = flow.input("photo", ValueType::plain(ValueKind::Image));
    let node = flow.node("llm.chat", &[("question", text(), a)], &[text()]);
    flow.result("r", ValueType::plain(ValueKind::Audio), &[out(node, 0)]);
    let found = problems(flow);
    assert_eq!(found[0].code, ProblemCode::TypeMismatch);
    assert_eq!(
        found[0].message,
        "parameter `question` of llm.chat takes Text, but the flow's input `photo` gives Image"
    );
    assert_eq!(
        (found[0].node, found[0].edge),
        (Some(NodeId(0)), Some(EdgeId(0)))
    );
    assert_eq!(
        (found[1].code, found[1].node, found[1].edge),
        (ProblemCode::TypeMismatch, None, Some(EdgeId(1)))
    );
}

#[test]
fn records_match_by_their_fields() {
    let record = |field: ValueType| {
        ValueType::plain(ValueKind::Record {
            name: "Draft".into(),
            fields: vec![("body".into(), field)],
        })
    };
    let mut flow = FlowBuilder::new();
    let a = flow.input("draft", record(text()));
    let node = flow.node("edit", &[("draft", record(texts()), a)], &[text()]);
    flow.result("r", text(), &[out(node, 0)]);
    assert_eq!(codes(flow), ["type-mismatch"]);
}

#[test]
fn streams_and_plain_values_do_not_mix() {
    let mut flow = FlowBuilder::new();
    let (many, one) = (flow.input("many", texts()), flow.input("one", text()));
    let node = flow.node(
        "mix",
        &[("one", text(), many), ("many", texts(), one)],
        &[text()],
    );
    flow.result("r", text(), &[out(node, 0)]);
    assert_eq!(codes(flow), ["stream-into-plain", "plain-into-stream"]);
}

#[test]
fn every_port_is_fed_once() {
    let mut flow = chain();
    flow.edge(
        Origin::Input { port: PortIx(0) },
        Destination::Node {
            node: NodeId(0),
            port: PortIx(0),
        },
    );
    assert_eq!(codes(flow), ["fed-twice"]);
    let mut flow = chain();
    flow.spec.edges.remove(0);
    assert_eq!(codes(flow), ["unfed-port"]);
}

#[test]
fn triggers_wait_for_every_port_and_for_something() {
    let mut flow = chain();
    flow.spec.nodes[0].trigger = vec![];
    assert_eq!(codes(flow), ["empty-trigger"]);
    let mut flow = chain();
    flow.spec.nodes[0].trigger = vec![vec![PortIx(0)], vec![]];
    assert_eq!(codes(flow), ["empty-trigger"]);
    let mut flow = FlowBuilder::new();
    let (a, b) = (flow.input("a", text()), flow.input("b", text()));
    let inputs = [("a", text(), a), ("b", text().or_none(), b)];
    let node = flow.node_with_trigger("half", &inputs, vec![vec![0]], &[text()]);
    flow.result("r", text(), &[out(node, 0)]);
    assert_eq!(codes(flow), ["unused-port"]);
}

fn any_of(value_type: ValueType, trigger: Vec<Vec<u32>>) -> FlowBuilder {
    let mut flow = FlowBuilder::new();
    let (a, b, c) = (
        flow.input("a", text()),
        flow.input("b", text()),
        flow.input("c", text()),
    );
    let inputs = [
        ("x", value_type.clone(), a),
        ("x", value_type, b),
        ("c", text(), c),
    ];
    let node = flow.node_with_trigger("pick", &inputs, trigger, &[text()]);
    flow.result("r", text(), &[out(node, 0)]);
    flow
}

#[test]
fn alternatives_exclude_each_other() {
    assert_eq!(codes(any_of(text(), vec![vec![0, 2], vec![1, 2]])), [""; 0]);
    assert_eq!(
        codes(any_of(text(), vec![vec![0, 1, 2]])),
        ["exclusive-join"]
    );
    assert_eq!(
        codes(any_of(text(), vec![vec![0, 2], vec![1]])),
        ["missing-parameter"]
    );
    assert_eq!(
        codes(any_of(text(), vec![vec![0, 2], vec![1, 2], vec![0, 2]])),
        ["shadowed-alternative"]
    );
    assert_eq!(
        codes(any_of(text().or_none(), vec![vec![0, 2], vec![1, 2]])),
        ["optional-choice"]
    );
}

#[test]
fn a_result_that_may_stay_empty_must_say_so() {
    let mut flow = FlowBuilder::new();
    let (image, words) = (
        flow.input("image", text().or_none()),
        flow.input("words", text()),
    );
    let seen = flow.node("see", &[("image", text(), image)], &[text()]);
    let heard = flow.node("hear", &[("words", text(), words)], &[text()]);
    flow.result("sure", text(), &[out(seen, 0), out(heard, 0)]);
    flow.result("unsure", text(), &[out(seen, 0)]);
    let found = problems(flow);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].code, ProblemCode::OptionalResult);
    assert!(
        found[0].message.contains("`unsure`") && found[0].cure.contains("Text | None"),
        "{}",
        found[0]
    );
}

#[test]
fn cycles_are_named_without_what_they_feed() {
    let mut flow = FlowBuilder::new();
    let one = flow.node("one", &[("x", text(), out(NodeId(1), 0))], &[text()]);
    flow.node("two", &[("x", text(), out(one, 0))], &[text()]);
    let after = flow.node("after", &[("x", text(), out(one, 0))], &[text()]);
    flow.result("r", text(), &[out(after, 0)]);
    let found = problems(flow);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].code, found[0].node),
        (ProblemCode::Cycle, Some(NodeId(0)))
    );
    assert!(
        found[0].message.starts_with("one, two wait for each other"),
        "{}",
        found[0].message
    );
}

#[test]
fn everything_leads_to_a_result() {
    let mut flow = chain();
    flow.spec.results.clear();
    flow.spec.edges.truncate(1);
    assert_eq!(codes(flow), ["dangling-node", "no-results"]);
    let mut flow = chain();
    flow.spec.edges.truncate(1);
    assert_eq!(codes(flow), ["dangling-node", "unreachable-result"]);
}

#[test]
fn problems_come_in_node_order_and_say_what_to_do() {
    let mut flow = FlowBuilder::new();
    let a = flow.input("a", texts());
    let first = flow.node("first", &[("x", text(), a)], &[text()]);
    flow.node("second", &[("x", texts(), out(first, 0))], &[text()]);
    let found = problems(flow);
    let nodes: Vec<Option<NodeId>> = found.iter().map(|problem| problem.node).collect();
    assert!(
        nodes.is_sorted_by_key(|node| (node.is_none(), *node)),
        "{found:?}"
    );
    assert!(
        found
            .iter()
            .all(|problem| !problem.cure.is_empty() && !problem.message.is_empty())
    );
}
