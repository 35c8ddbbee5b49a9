use omniflow_flow::NodeKind;

use super::*;

// The resolver's tests write graphs with the same words.
#[allow(dead_code, clippy::unwrap_used, clippy::expect_used)]
#[path = "../../../flow/tests/resolver/support/build.rs"]
mod build;
use build::{FlowBuilder, count, out, text, texts};

const NODE: NodeId = NodeId(1);

fn place(worker: u32, epoch: u32) -> Place {
    let worker = WorkerId(worker);
    Place { worker, epoch }
}

#[test]
fn a_bind_is_new_once_and_again_under_a_higher_epoch() {
    let mut outgoing = Outgoing::new(2);
    for key in [Key::ROOT, Key::new(&[3])] {
        assert_eq!(outgoing.bind(NODE, &key, place(1, 1)), Placed::First);
        assert_eq!(outgoing.bind(NODE, &key, place(1, 1)), Placed::Known);
        assert_eq!(outgoing.bind(NODE, &key, place(2, 2)), Placed::Again);
        assert_eq!(outgoing.bind(NODE, &key, place(1, 1)), Placed::Known);
        assert_eq!(outgoing.place(NODE, &key), Some(place(2, 2)));
    }
}

#[test]
fn what_has_moved_into_a_scope_is_told_from_what_was_there_and_what_is_elsewhere() {
    let mut flow = FlowBuilder::new();
    let input = flow.input("pages", texts());
    let scope = flow.scope("page", ScopeId::ROOT, false);
    let kind = NodeKind::Each { scope };
    let made = [text(), count()];
    let each = flow.control("each", ScopeId::ROOT, kind, &[(texts(), input)], &made);
    let read = flow.node("read", &[("page", text(), out(each, 0))], &[text()]);
    flow.place(read, scope);
    let kind = NodeKind::Ordered { scope };
    let left = [(text(), out(read, 0)), (count(), out(each, 1))];
    let all = flow.control("all", ScopeId::ROOT, kind, &left, &[texts()]);
    flow.result("all", texts(), &[out(all, 0)]);
    let graph = flow.graph();
    let crossed = |worker, epoch| {
        let mut outgoing = Outgoing::new(graph.nodes().len());
        outgoing.bind(read, &Key::new(&[4]), place(1, 1));
        outgoing.bind(read, &Key::new(&[4]), place(worker, epoch));
        outgoing.has_moved_into(&graph, (scope, &Key::ROOT), WorkerId(2))
    };
    assert!(crossed(2, 2));
    assert!(!crossed(1, 1) && !crossed(3, 2));
}

#[test]
fn places_under_a_key_are_those_of_the_node_whose_keys_begin_so() {
    let mut outgoing = Outgoing::new(3);
    for (node, path, worker) in [
        (0, [1, 0], 9),
        (1, [0, 7], 9),
        (1, [1, 0], 2),
        (1, [1, 5], 3),
        (1, [2, 0], 9),
        (2, [1, 1], 9),
    ] {
        outgoing.bind(NodeId(node), &Key::new(&path), place(worker, 1));
    }
    let under = |path: &[u32]| -> Vec<u32> {
        let key = Key::new(path);
        let places = outgoing.places_under(NODE, &key);
        places.map(|worker| worker.0).collect()
    };
    assert_eq!(under(&[1]), [2, 3]);
    assert_eq!(under(&[]), [9, 2, 3, 9]);
    assert!(under(&[4]).is_empty());
}

#[test]
fn what_is_kept_for_a_bind_is_its_own_and_what_is_for_all_keys_around_it() {
    let mut outgoing = Outgoing::new(2);
    let mut sent = |path: &[u32]| {
        let key = Key::new(path);
        let sent = Sent {
            edge: EdgeId(path.len() as u32),
            key: key.clone(),
            epoch: 0,
            item: Item::Closed,
        };
        outgoing.keep(NODE, key, sent)
    };
    let bytes: usize = [&[][..], &[1], &[1, 2], &[1, 3]]
        .map(&mut sent)
        .iter()
        .sum();
    assert_eq!(outgoing.bytes(), bytes);
    let key = Key::new(&[1, 2]);
    let kept = outgoing.kept(NODE, &key);
    let kept: Vec<_> = kept.map(|(sent, every)| (sent.edge.0, every)).collect();
    assert_eq!(kept, [(0, true), (1, true), (2, false)]);
}
