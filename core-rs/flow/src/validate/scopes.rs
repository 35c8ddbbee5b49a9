//! Whether what enters and leaves `each` and `loop` does so as it may (rules 3 and 4).

use crate::graph::Wiring;
use crate::ids::{EdgeId, NodeId, PortIx, ScopeId};
use crate::layout::Layout;
use crate::problem::{Problem, ProblemCode};
use crate::spec::{Destination, GraphSpec, NodeKind, Origin};

use super::conditions::alternatives;
use super::problem;

pub(super) fn check(
    spec: &GraphSpec,
    wiring: &Wiring,
    layout: &Layout,
    problems: &mut Vec<Problem>,
) {
    for index in 0..spec.edges.len() {
        if let Some(found) = check_edge(spec, layout, EdgeId(index as u32)) {
            problems.push(found);
        }
    }
    for (index, node) in spec.nodes.iter().enumerate() {
        if node.scope != ScopeId::ROOT {
            problems.extend(check_keyed(spec, wiring, layout, index));
        }
    }
    for (index, scope) in spec.scopes.iter().enumerate() {
        if layout.closers(ScopeId(index as u32 + 1)).is_empty() {
            let message = format!("nothing that `{}` makes leaves it", scope.name);
            let cure = "collect what its items become, or use it as a stream";
            let found = problem(ProblemCode::UncollectedEach, message, cure);
            problems.push(found.at_node(scope.node.index()));
        }
    }
}

fn check_edge(spec: &GraphSpec, layout: &Layout, id: EdgeId) -> Option<Problem> {
    let edge = &spec.edges[id.index()];
    let from = layout.edge_scope(id);
    let (to, target, node) = match edge.to {
        Destination::Result { port } => {
            let name = &spec.results[port.index()].name;
            (ScopeId::ROOT, format!("the result `{name}`"), None)
        }
        Destination::Node { node, port } => {
            let to = &spec.nodes[node.index()];
            (to.input_scope(port), to.name.clone(), Some(node))
        }
    };
    let found = if !layout.is_inside(to, from) {
        let name = &spec.scopes[from.index() - 1].name;
        problem(
            ProblemCode::LeavesScope,
            format!(
                "a value of `{name}` goes to {target}, which is outside of it and would get one for each item or round"
            ),
            "collect(...) it, or for a loop: return it from the body, or emit it",
        )
    } else if to != from && edge.value_type.stream {
        let name = &spec.scopes[to.index() - 1].name;
        problem(
            ProblemCode::StreamIntoScope,
            format!(
                "a stream from outside goes to {target} in `{name}`, whose every item or round would have to read all of it"
            ),
            "collect it first: collect(stream) is a list, which each of them can be given",
        )
    } else {
        return None;
    };
    let found = found.at_edge(id);
    Some(match node {
        Some(node) => found.at_node(node.index()),
        None => found,
    })
}

/// A node gets its keys from what comes of its own scope.
fn check_keyed(
    spec: &GraphSpec,
    wiring: &Wiring,
    layout: &Layout,
    index: usize,
) -> Option<Problem> {
    let node = &spec.nodes[index];
    let own = |port: &PortIx| {
        let edge = wiring.node_inputs[index][port.index()].first();
        edge.is_none_or(|edge| layout.edge_scope(*edge) == node.scope)
    };
    let keyed = |ports: &Vec<PortIx>| ports.iter().any(own);
    if alternatives(spec, NodeId(index as u32)).iter().all(keyed) {
        return None;
    }
    let scope = &spec.scopes[node.scope.index() - 1].name;
    let message = format!(
        "{} stands in `{scope}`, but can fire without anything of it, so that it is unknown how often it runs",
        node.name
    );
    let cure = "pass something of the item or round to it, or call it outside, once";
    Some(problem(ProblemCode::UnkeyedNode, message, cure).at_node(index))
}

/// `until` must be said by a role: no Python travels to workers (rule 6), and the loop runs at a role's side (rule 7).
pub(super) fn check_loops(spec: &GraphSpec, wiring: &Wiring, problems: &mut Vec<Problem>) {
    for (index, node) in spec.nodes.iter().enumerate() {
        let NodeKind::Loop {
            scope,
            carried,
            max_rounds,
            ..
        } = node.kind
        else {
            continue;
        };
        if max_rounds == 0 {
            let message = format!("{} has no bound, so it could go on for ever", node.name);
            let cure = "give it max_rounds of at least 1";
            problems.push(problem(ProblemCode::UnboundedLoop, message, cure).at_node(index));
        }
        let until = &wiring.node_inputs[index][2 * carried as usize];
        let by_role = |edge: &EdgeId| match spec.edges[edge.index()].from {
            Origin::Node { node, .. } => {
                let node = &spec.nodes[node.index()];
                node.kind.is_role() && node.scope == scope
            }
            Origin::Input { .. } => false,
        };
        let any_of_role = |edge: &EdgeId| match spec.edges[edge.index()].from {
            Origin::Node { node, .. } => {
                let node = &spec.nodes[node.index()];
                node.scope == scope && matches!(node.kind, NodeKind::AnyOf)
            }
            Origin::Input { .. } => false,
        };
        if !until.is_empty() && !until.iter().any(|edge| by_role(edge) || any_of_role(edge)) {
            let message = format!("`until` of {} is not said by a role of its body", node.name);
            let cure = "name an output of a role that the body calls";
            problems.push(problem(ProblemCode::UntilOutsideLoop, message, cure).at_node(index));
        }
    }
}
