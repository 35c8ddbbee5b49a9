//! Under which choices of routes something comes along an edge: as an OR of ANDs of branches.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::graph::Wiring;
use crate::ids::{EdgeId, NodeId, PortIx};
use crate::spec::{GraphSpec, NodeKind, Origin};

/// Beyond this many ANDs a condition counts as always true: better no problem than a wrong one.
const LIMIT: usize = 128;

/// A branch of a route: the node, and its output.
type Branch = (NodeId, u32);

/// An OR of ANDs of branches that are taken. One empty AND: always. No AND: never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition(Vec<BTreeSet<Branch>>);

impl Condition {
    fn always() -> Self {
        Self(vec![BTreeSet::new()])
    }

    fn never() -> Self {
        Self(Vec::new())
    }

    pub(super) fn is_always(&self) -> bool {
        self.0.iter().any(BTreeSet::is_empty)
    }

    pub(super) fn is_never(&self) -> bool {
        self.0.is_empty()
    }
}

/// Conditions of the edges of one graph. `optional` says how what may be missing counts: as there, to learn what can come
/// at all; as missing, to learn what comes for sure.
pub(super) struct Conditions<'a> {
    spec: &'a GraphSpec,
    wiring: &'a Wiring,
    optional: bool,
    /// `None`: being worked out; only a cycle asks for it again.
    nodes: FxHashMap<NodeId, Option<Condition>>,
}

impl<'a> Conditions<'a> {
    /// Under which branches something may come.
    pub(super) fn possible(spec: &'a GraphSpec, wiring: &'a Wiring) -> Self {
        Self::new(spec, wiring, true)
    }

    /// Under which branches something comes for sure.
    pub(super) fn sure(spec: &'a GraphSpec, wiring: &'a Wiring) -> Self {
        Self::new(spec, wiring, false)
    }

    fn new(spec: &'a GraphSpec, wiring: &'a Wiring, optional: bool) -> Self {
        Self {
            spec,
            wiring,
            optional,
            nodes: FxHashMap::default(),
        }
    }

    pub(super) fn of_edge(&mut self, edge: EdgeId) -> Condition {
        let (node, port) = match self.spec.edges[edge.index()].from {
            Origin::Input { port } => {
                let optional = self.spec.inputs[port.index()].value_type.optional;
                return self.leaf(optional);
            }
            Origin::Node { node, port } => (node, port),
        };
        let output = &self.spec.nodes[node.index()].outputs[port.index()];
        let own = self.leaf(output.value_type.optional);
        let fires = self.of_node(node);
        let passes = match self.spec.nodes[node.index()].kind {
            NodeKind::Route { .. } => Condition(vec![BTreeSet::from([(node, port.0)])]),
            NodeKind::Loop { carried, .. } if port.0 >= carried => {
                self.of_loop_output(node, port, carried)
            }
            _ => Condition::always(),
        };
        let fires = self.and(&fires, &passes);
        self.and(&own, &fires)
    }

    /// Under which branches something comes along any of these edges.
    pub(super) fn of_any(&mut self, edges: &[EdgeId]) -> Condition {
        let mut any = Condition::never();
        for edge in edges {
            let one = self.of_edge(*edge);
            any = self.or(any, one);
        }
        any
    }

    /// Under which branches a node fires.
    fn of_node(&mut self, node: NodeId) -> Condition {
        match self.nodes.get(&node) {
            Some(Some(known)) => return known.clone(),
            Some(None) => return Condition::always(),
            None => {}
        }
        self.nodes.insert(node, None);
        let alternatives = alternatives(self.spec, node);
        let mut condition = Condition::never();
        for ports in alternatives {
            let fires = self.of_ports(node, &ports);
            condition = self.or(condition, fires);
        }
        self.nodes.insert(node, Some(condition.clone()));
        condition
    }

    /// Under which branches all of these ports are filled, or may stay empty.
    pub(super) fn of_ports(&mut self, node: NodeId, ports: &[PortIx]) -> Condition {
        let mut all = Condition::always();
        for port in ports {
            let optional = self.spec.nodes[node.index()].inputs[port.index()]
                .value_type
                .optional;
            // An unfed port is a problem of its own, and no reason to speak of this one.
            let feeds = self.wiring.node_inputs[node.index()][port.index()].first();
            if let Some(edge) = feeds.filter(|_| !optional) {
                let filled = self.of_edge(*edge);
                all = self.and(&all, &filled);
            }
        }
        all
    }

    /// A loop ends with a value when no round lacks what it is decided by. Choices inside of it are made each round.
    fn of_loop_output(&mut self, node: NodeId, port: PortIx, carried: u32) -> Condition {
        let inputs = carried..2 * carried + 1;
        let needed: Vec<PortIx> = match self.optional && port.0 < 2 * carried {
            true => vec![PortIx(port.0)],
            false => inputs.map(PortIx).collect(),
        };
        let inner = self.of_ports(node, &needed);
        let scope = self.spec.nodes[node.index()].scope;
        let outside = |branch: &Branch| {
            let mut around = self.spec.nodes[branch.0.index()].scope;
            while around > scope {
                around = self.spec.scopes[around.index() - 1].parent;
                if around == scope {
                    return false;
                }
            }
            true
        };
        match self.optional {
            true if !inner.is_never() => Condition::always(),
            _ if inner.is_always() => inner,
            _ => Condition(
                inner
                    .0
                    .into_iter()
                    .filter(|and| and.iter().all(outside))
                    .collect(),
            ),
        }
    }

    fn leaf(&self, optional: bool) -> Condition {
        match optional && !self.optional {
            true => Condition::never(),
            false => Condition::always(),
        }
    }

    fn is_exclusive(&self, route: NodeId) -> Option<u32> {
        match &self.spec.nodes[route.index()].kind {
            NodeKind::Route {
                branches,
                exclusive: true,
            } => Some(branches.len() as u32),
            _ => None,
        }
    }

    fn and(&self, left: &Condition, right: &Condition) -> Condition {
        let mut all = Vec::new();
        for one in &left.0 {
            for other in &right.0 {
                let both: BTreeSet<Branch> = one.union(other).copied().collect();
                let excluded = both.iter().zip(both.iter().skip(1)).any(|(first, second)| {
                    first.0 == second.0 && self.is_exclusive(first.0).is_some()
                });
                if !excluded {
                    all.push(both);
                }
            }
        }
        self.simplify(all)
    }

    fn or(&self, left: Condition, right: Condition) -> Condition {
        self.simplify(left.0.into_iter().chain(right.0).collect())
    }

    /// Joins what holds under every branch of an exclusive route, and drops what a weaker AND covers.
    fn simplify(&self, mut ands: Vec<BTreeSet<Branch>>) -> Condition {
        if ands.len() > LIMIT {
            return Condition::always();
        }
        loop {
            ands.sort_by_key(BTreeSet::len);
            let mut kept: Vec<BTreeSet<Branch>> = Vec::new();
            for and in ands {
                if !kept.iter().any(|weaker| weaker.is_subset(&and)) {
                    kept.push(and);
                }
            }
            ands = kept;
            let Some(joined) = self.join(&ands) else {
                return Condition(ands);
            };
            ands.push(joined);
        }
    }

    fn join(&self, ands: &[BTreeSet<Branch>]) -> Option<BTreeSet<Branch>> {
        ands.iter().find_map(|and| {
            and.iter().find_map(|branch| {
                let branches = self.is_exclusive(branch.0)?;
                let mut rest = and.clone();
                rest.remove(branch);
                let covered = |other: u32| {
                    let with = (branch.0, other);
                    ands.iter().any(|one| {
                        one.contains(&with)
                            && one.iter().all(|each| *each == with || rest.contains(each))
                    })
                };
                (0..branches).all(covered).then_some(rest)
            })
        })
    }
}

/// What a node can be fired by.
pub(super) fn alternatives(spec: &GraphSpec, node: NodeId) -> Vec<Vec<PortIx>> {
    let node = &spec.nodes[node.index()];
    let own = (0..node.inputs.len() as u32)
        .map(PortIx)
        .filter(|port| node.input_scope(*port) == node.scope);
    match node.kind {
        NodeKind::Role { .. } if node.trigger.is_empty() => vec![Vec::new()],
        NodeKind::Role { .. } => node.trigger.clone(),
        NodeKind::Merge | NodeKind::AnyOf => own
            .filter(|port| !node.inputs[port.index()].gate)
            .map(|port| std::iter::once(port).chain(node.gates()).collect())
            .collect(),
        _ => vec![own.collect()],
    }
}
