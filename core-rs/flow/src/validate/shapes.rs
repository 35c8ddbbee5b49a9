//! Whether scopes and control nodes are of the shape that the resolver relies on: the rest may index into it.

use crate::ids::{NodeId, PortIx, ScopeId};
use crate::problem::{Problem, ProblemCode};
use crate::spec::{GraphSpec, NodeKind, NodeSpec, PortSpec};
use crate::value_type::{ValueKind, ValueType};

use super::problem;

const CURE: &str = "compile the flow again with the same version of omniflow as the cluster's";

pub(super) fn check(spec: &GraphSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    check_scopes(spec, &mut problems);
    for (index, node) in spec.nodes.iter().enumerate() {
        let wrong = wrong_shape(spec, NodeId(index as u32), node);
        if let Some(wrong) = wrong {
            let message = format!("{} {wrong}", node.name);
            problems.push(problem(ProblemCode::BadControlNode, message, CURE).at_node(index));
        }
        if let Some(wrong) = wrong_option(spec, node) {
            let message = format!("{} {wrong}", node.name);
            let cure = "see the node's options in the flow";
            problems.push(problem(ProblemCode::BadOption, message, cure).at_node(index));
        }
    }
    problems
}

fn check_scopes(spec: &GraphSpec, problems: &mut Vec<Problem>) {
    for (index, scope) in spec.scopes.iter().enumerate() {
        let id = ScopeId(index as u32 + 1);
        let maker = spec.nodes.get(scope.node.index());
        let made = maker.is_some_and(|node| {
            let kind = match node.kind {
                NodeKind::Each { scope } => Some((scope, false)),
                NodeKind::Loop { scope, .. } => Some((scope, true)),
                _ => None,
            };
            kind == Some((id, scope.is_loop)) && node.scope == scope.parent
        });
        if scope.parent >= id || !made {
            let message = format!(
                "scope `{}` is not made by the node that it names",
                scope.name
            );
            problems.push(problem(ProblemCode::BrokenReference, message, CURE));
        }
    }
}

/// What is wrong with the ports of a node, or with the scopes that it names.
fn wrong_shape(spec: &GraphSpec, id: NodeId, node: &NodeSpec) -> Option<String> {
    let scopes = spec.scopes.len() as u32;
    if node.scope.0 > scopes
        || node
            .kind
            .inner_scope()
            .is_some_and(|scope| scope.0 > scopes)
    {
        return Some("names a scope that does not exist".into());
    }
    if let Some(scope) = node.kind.inner_scope() {
        let inner = &spec.scopes[scope.index() - 1];
        let makes = matches!(node.kind, NodeKind::Each { .. } | NodeKind::Loop { .. });
        if inner.parent != node.scope
            || (makes && inner.node != id)
            || (inner.is_loop != is_loop(node))
        {
            return Some("names a scope that is not its own".into());
        }
    }
    let values = node.inputs.iter().take_while(|port| !port.gate).count();
    if node.inputs[values..].iter().any(|port| !port.gate) {
        return Some("has gates that do not stand last".into());
    }
    let fits = ports_fit(node, &node.inputs[..values], &node.outputs);
    (!fits).then(|| "does not have the ports of its kind".into())
}

fn is_loop(node: &NodeSpec) -> bool {
    matches!(node.kind, NodeKind::Loop { .. })
}

fn ports_fit(node: &NodeSpec, inputs: &[PortSpec], outputs: &[PortSpec]) -> bool {
    let kind = |port: &PortSpec| port.value_type.kind.clone();
    let is = |port: &PortSpec, stream: bool| port.value_type.stream == stream;
    let required = |ports: &[PortSpec]| ports.iter().all(|port| !port.value_type.optional);
    let same = |from: &[PortSpec], to: &[PortSpec], stream: bool| {
        from.len() == to.len()
            && from
                .iter()
                .zip(to)
                .all(|(from, to)| kind(from) == kind(to) && is(to, stream))
    };
    let streams = |ports: &[PortSpec]| ports.iter().all(|port| is(port, true));
    let list = |items: &PortSpec, list: &PortSpec| {
        let of = ValueType {
            optional: false,
            ..ValueType::plain(kind(items))
        };
        let matches = |item: &ValueType| item.kind == of.kind;
        is(list, false) && matches!(kind(list), ValueKind::List(item) if matches(&item))
    };
    let count = |port: &PortSpec| is(port, true) && kind(port) == ValueKind::Boolean;
    match (&node.kind, inputs, outputs) {
        (NodeKind::Role { .. }, ..) => true,
        (NodeKind::Each { .. }, [_, ..], [items @ .., number]) => {
            streams(inputs) && required(inputs) && same(inputs, items, false) && count(number)
        }
        (NodeKind::Collect { scope }, [items], [made]) if *scope == ScopeId::ROOT => {
            is(items, true) && required(inputs) && list(items, made)
        }
        (NodeKind::Collect { .. }, [items, number], [made]) => {
            is(items, false) && count(number) && list(items, made)
        }
        (NodeKind::Ordered { scope } | NodeKind::Unordered { scope }, [items, number], [_]) => {
            *scope != ScopeId::ROOT
                && is(items, false)
                && count(number)
                && same(&inputs[..1], outputs, true)
        }
        (NodeKind::Zip, [_, _, ..], _) => {
            streams(inputs) && required(inputs) && same(inputs, outputs, true)
        }
        (NodeKind::Merge, [_, ..], [made]) => {
            is(made, true) && inputs.iter().all(|input| kind(input) == kind(made))
        }
        (NodeKind::AnyOf, [_, ..], [made]) => inputs
            .iter()
            .all(|input| input.value_type.kind == kind(made) && is(input, made.value_type.stream)),
        (
            NodeKind::Route {
                branches,
                exclusive,
            },
            [choice],
            _,
        ) => {
            let text = match kind(choice) {
                ValueKind::Text => *exclusive,
                ValueKind::List(item) => !exclusive && item.kind == ValueKind::Text,
                _ => false,
            };
            text && is(choice, false) && required(inputs) && branches.len() == outputs.len()
        }
        (
            NodeKind::Loop {
                carried, emitted, ..
            },
            ..,
        ) => loop_fits(*carried as usize, *emitted as usize, inputs, outputs),
        _ => false,
    }
}

fn loop_fits(carried: usize, emitted: usize, inputs: &[PortSpec], outputs: &[PortSpec]) -> bool {
    if carried == 0
        || inputs.len() != 2 * carried + 1 + emitted
        || outputs.len() != 2 * carried + emitted
    {
        return false;
    }
    let (starts, inner) = inputs.split_at(carried);
    let (nexts, rest) = inner.split_at(carried);
    let (until, emits) = (&rest[0], &rest[1..]);
    let alike = |from: &[PortSpec], to: &[PortSpec]| {
        let pairs = from.iter().zip(to);
        pairs
            .into_iter()
            .all(|(from, to)| from.value_type.kind == to.value_type.kind)
    };
    let plain = |ports: &[PortSpec]| ports.iter().all(|port| !port.value_type.stream);
    plain(inputs)
        && plain(&outputs[..2 * carried])
        && starts.iter().all(|start| !start.value_type.optional)
        && alike(starts, nexts)
        && alike(starts, &outputs[..carried])
        && alike(starts, &outputs[carried..2 * carried])
        && until.value_type.kind == ValueKind::Boolean
        && alike(emits, &outputs[2 * carried..])
        && outputs[2 * carried..]
            .iter()
            .all(|port| port.value_type.stream)
}

fn wrong_option(spec: &GraphSpec, node: &NodeSpec) -> Option<String> {
    let share = node.options.deadline_share;
    if !(0.0..=1.0).contains(&share) {
        return Some(format!(
            "may use {share} of the job's deadline; it must be above 0 and at most 1"
        ));
    }
    let near = node.options.near.iter().find(|near| {
        spec.nodes
            .get(near.index())
            .is_none_or(|near| !near.kind.is_role())
    });
    near.map(|_| "is to be near something that is bound to no worker".into())
}

/// Whether every alternative of a role waits for all of its gates: else it would run in a branch that is not taken.
pub(super) fn ungated(node: &NodeSpec) -> Option<usize> {
    let gates: Vec<PortIx> = node.gates().collect();
    node.trigger
        .iter()
        .position(|ports| gates.iter().any(|gate| !ports.contains(gate)))
}
