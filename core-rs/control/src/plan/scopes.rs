//! Fan-outs and loops of a flow.

use omniflow_flow::{Destination, Graph, Home, NodeId, NodeKind, Origin, ScopeId};

use super::PlannedNode;

/// What runs once for each item or round.
#[derive(Debug, Default)]
pub(crate) struct PlannedScope {
    /// Control nodes by which values leave it.
    pub(crate) closers: Box<[u32]>,
    pub(crate) is_loop: bool,
    /// It is itself in a loop, and so begins again with each round of that; its binds stay.
    pub(crate) turns: bool,
    /// Scopes around it, outermost first, itself last.
    pub(crate) around: Box<[u32]>,
    /// Role nodes in it.
    pub(crate) inside: Box<[u32]>,
    /// Those whose values leave it.
    pub(crate) leaving: Box<[u32]>,
    /// Whether it has others in it.
    pub(crate) nests: bool,
}

pub(super) fn is_loop(graph: &Graph, scope: u32) -> bool {
    let spec = (scope as usize).checked_sub(1);
    let spec = spec.and_then(|index| graph.spec().scopes.get(index));
    spec.is_some_and(|spec| spec.is_loop)
}

/// The scope and those around it, outermost first; empty for the flow itself.
pub(super) fn around(graph: &Graph, scope: ScopeId) -> Vec<u32> {
    let mut scope = scope;
    let mut around = Vec::new();
    while let Some(spec) = (scope.index().checked_sub(1)).and_then(|s| graph.spec().scopes.get(s)) {
        around.push(scope.0);
        scope = spec.parent;
    }
    around.reverse();
    around
}

/// How many indices the bind keys of two nodes have in common, and the outermost fan-out that only `other` is in (or 0).
pub(super) fn relation(graph: &Graph, node: usize, other: usize) -> (usize, u32) {
    let of = |node: usize| around(graph, graph.nodes()[node].scope);
    let (own, others) = (of(node), of(other));
    let same = own.iter().zip(&others).take_while(|(a, b)| a == b).count();
    let each = |scope: &&u32| !is_loop(graph, **scope);
    let common = own[..same].iter().filter(each).count();
    let into = others[same..].iter().find(each).copied();
    (common, into.unwrap_or_default())
}

/// Fills in what the nodes have to do with scopes.
pub(super) fn plan(graph: &Graph, nodes: &mut [PlannedNode]) -> Box<[PlannedScope]> {
    let count = graph.spec().scopes.len();
    let mut scopes: Vec<PlannedScope> = Vec::with_capacity(count + 1);
    for scope in 0..=count as u32 {
        let around = around(graph, ScopeId(scope));
        let outer = around.split_last().map_or(&[][..], |(_, outer)| outer);
        let inside = (0..nodes.len() as u32).filter(|node| {
            let node = &nodes[*node as usize];
            scope > 0 && node.role.is_some() && node.around.contains(&scope)
        });
        scopes.push(PlannedScope {
            closers: closers(graph, scope).into(),
            is_loop: is_loop(graph, scope),
            turns: outer.iter().any(|outer| is_loop(graph, *outer)),
            inside: inside.collect(),
            leaving: leaving(graph, scope).into(),
            nests: (graph.spec().scopes.iter()).any(|inner| inner.parent.0 == scope),
            around: around.into(),
        });
    }
    for (index, node) in nodes.iter_mut().enumerate() {
        let at_its_side = |closer: &u32| {
            let home = graph.home(NodeId(*closer));
            home == Home::Node(NodeId(index as u32))
        };
        let numbered = || (1..).zip(&scopes[1..]);
        let closes = |scope: &PlannedScope| scope.closers.iter().any(at_its_side);
        let feeds = |number: u32, scope: &PlannedScope| {
            let reader = |link: &super::Link| scope.inside.contains(&link.node);
            !node.around.contains(&number) && node.readers.iter().any(reader)
        };
        let closing = numbered().filter(|(_, scope)| closes(scope));
        let turning = numbered().filter(|(number, scope)| {
            let touched = node.around.contains(number) || closes(scope) || feeds(*number, scope);
            scope.turns && touched
        });
        let closing: Box<[u32]> = closing.map(|(number, _)| number).collect();
        node.turns = turning.map(|(number, _)| number).collect();
        node.closes = closing;
    }
    scopes.into()
}

fn closers(graph: &Graph, scope: u32) -> Vec<u32> {
    let closes = |node: &NodeKind| {
        node.inner_scope() == Some(ScopeId(scope)) && !matches!(node, NodeKind::Each { .. })
    };
    let nodes = (0..).zip(graph.nodes());
    let closers = nodes.filter(|(_, node)| closes(&node.kind));
    closers.map(|(index, _)| index).collect()
}

/// Role nodes of a scope at which, or at whose side, runs what is read from outside of it.
fn leaving(graph: &Graph, scope: u32) -> Vec<u32> {
    let inside = |node: NodeId| match graph.home(node) {
        Home::Node(home) => {
            let around = around(graph, graph.nodes()[home.index()].scope);
            around.contains(&scope).then_some(home.0)
        }
        Home::Scheduler => None,
    };
    let mut leaving = Vec::new();
    for edge in &graph.spec().edges {
        let Origin::Node { node: from, .. } = edge.from else {
            continue;
        };
        let stays = match edge.to {
            Destination::Node { node, .. } => inside(node).is_some(),
            Destination::Result { .. } => false,
        };
        let home = inside(from).filter(|home| !stays && !leaving.contains(home));
        leaving.extend(home);
    }
    leaving
}
