//! What the job table needs to know of a flow, looked up once per flow instead of once per job.

mod exclusive;
mod links;
mod scopes;

use std::sync::Arc;

use omniflow_flow::{Graph, Home, Key, NodeId, NodeKind};
use omniflow_placement::RoleId;

use crate::fleet::Fleet;

pub(crate) use links::Link;
pub(crate) use scopes::PlannedScope;

/// A flow as the job table sees it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) graph: Arc<Graph>,
    /// By node index.
    pub(crate) nodes: Box<[PlannedNode]>,
    /// By index of the scope, which counts from 1: the first is of no use.
    pub(crate) scopes: Box<[PlannedScope]>,
    /// What is bound when a job is admitted, in the order of placing.
    pub(crate) at_once: Box<[u32]>,
    /// What may go to another worker as long as it has not started.
    pub(crate) movable: Box<[u32]>,
    pub(crate) results: usize,
    /// Whether it has fan-outs.
    pub(crate) fans_out: bool,
}

/// A node, with the control nodes that run at its side: those live and die with it.
#[derive(Debug)]
pub(crate) struct PlannedNode {
    /// None: a control node, which is never bound.
    pub(crate) role: Option<RoleId>,
    /// Indices of its bind keys.
    pub(crate) depth: usize,
    /// The scopes that it is in, outermost first.
    pub(crate) around: Box<[u32]>,
    /// One bind of it has an activation for each round of a loop.
    pub(crate) in_loop: bool,
    /// Bound only when a branch is taken.
    pub(crate) gated: bool,
    /// Who is bound together with it, when a key of its fan-out is asked for.
    pub(crate) mates: Box<[u32]>,
    /// Its place in the order of placing: after those that it wants to be near.
    pub(crate) rank: u32,
    /// Nodes that it wants to be near.
    pub(crate) near: Box<[u32]>,
    /// Who reads what leaves it.
    pub(crate) readers: Box<[Link]>,
    /// Whoever sends to it or reads from it: the node, and how many indices their keys have in common.
    pub(crate) related: Box<[(u32, usize)]>,
    /// Results that it feeds.
    pub(crate) results: Box<[u32]>,
    /// Control nodes at its side send to others: they may have sent before it has run.
    pub(crate) forwards: bool,
    /// Scopes that end at its side.
    pub(crate) closes: Box<[u32]>,
    /// Scopes inside of loops that it is in, feeds or closes: they end once a round.
    pub(crate) turns: Box<[u32]>,
    /// A new attempt sends what an earlier one sent.
    pub(crate) deterministic: bool,
    /// A new attempt goes on from what its readers hold (`Graph::resumes`).
    pub(crate) resumes: bool,
    /// 0: the cluster's default.
    pub(crate) max_attempts: u32,
    /// The part of the job's deadline that an attempt may take; 0: all of it.
    pub(crate) deadline_share: f64,
}

impl Plan {
    pub(crate) fn new(graph: Arc<Graph>, fleet: &mut Fleet) -> Self {
        let around: Vec<Box<[u32]>> = (graph.nodes().iter())
            .map(|node| scopes::around(&graph, node.scope).into())
            .collect();
        let ranks = ranks(&graph);
        let mut nodes: Box<[PlannedNode]> = graph
            .nodes()
            .iter()
            .enumerate()
            .map(|(index, node)| PlannedNode {
                role: match &node.kind {
                    NodeKind::Role { role, .. } => Some(fleet.role(role)),
                    _ => None,
                },
                depth: graph.bind_depth(NodeId(index as u32)),
                in_loop: around[index].iter().any(|s| scopes::is_loop(&graph, *s)),
                around: around[index].clone(),
                gated: node.gates().next().is_some(),
                mates: Box::default(),
                rank: ranks[index],
                near: node.options.near.iter().map(|node| node.0).collect(),
                readers: Box::default(),
                related: Box::default(),
                results: Box::default(),
                forwards: false,
                closes: Box::default(),
                turns: Box::default(),
                deterministic: node.options.deterministic
                    && !exclusive::is_a_race(&graph, NodeId(index as u32)),
                resumes: graph.resumes(NodeId(index as u32)),
                max_attempts: node.options.max_attempts,
                deadline_share: node.options.deadline_share,
            })
            .collect();
        links::join(&graph, &mut nodes);
        let scopes = scopes::plan(&graph, &mut nodes);
        mate(&graph, &mut nodes);
        let mut at_once: Vec<u32> = (0..nodes.len() as u32)
            .filter(|node| {
                let node = &nodes[*node as usize];
                node.role.is_some() && node.depth == 0 && !node.gated
            })
            .collect();
        at_once.sort_by_key(|node| nodes[*node as usize].rank);
        Self {
            fans_out: nodes.iter().any(|node| node.depth > 0),
            at_once: at_once.into(),
            movable: movable(&graph, &nodes),
            results: graph.results().len(),
            graph,
            nodes,
            scopes,
        }
    }

    pub(crate) fn name(&self, node: usize) -> &str {
        self.graph.nodes().get(node).map_or("?", |node| &node.name)
    }

    /// The role node at whose side a node runs; none: the scheduler.
    pub(crate) fn home(&self, node: usize) -> Option<usize> {
        home(&self.graph, NodeId(node as u32))
    }

    /// The key of the bind that an activation is of.
    pub(crate) fn bind_key(&self, node: usize, key: &Key) -> Key {
        if key.is_root() {
            return Key::ROOT;
        }
        self.graph.bind_key(NodeId(node as u32), key)
    }
}

fn home(graph: &Graph, node: NodeId) -> Option<usize> {
    match graph.home(node) {
        Home::Scheduler => None,
        Home::Node(home) => Some(home.index()),
    }
}

/// Nodes that lose nothing when they go elsewhere before they have started: nothing at their side has sent or told anything
/// by then, whatever comes first decides nothing, and nobody chose their worker for being near another.
fn movable(graph: &Graph, nodes: &[PlannedNode]) -> Box<[u32]> {
    let follows = |beside: &NodeId| {
        let kind = graph.node(*beside).map(|spec| &spec.kind);
        matches!(kind, Some(NodeKind::Each { .. } | NodeKind::Route { .. }))
    };
    let is_neighbour = |node: u32| nodes.iter().any(|other| other.near.contains(&node));
    let is_movable = |node: &u32| {
        let (planned, spec) = (&nodes[*node as usize], &graph.nodes()[*node as usize]);
        planned.role.is_some()
            && !planned.in_loop
            && !planned.forwards
            && planned.closes.is_empty()
            && planned.turns.is_empty()
            && planned.near.is_empty()
            && !is_neighbour(*node)
            && spec.trigger.len() <= 1
            && graph.companions(NodeId(*node)).iter().all(follows)
    };
    (0..nodes.len() as u32).filter(is_movable).collect()
}

/// Whoever stands behind no gate is bound with every key of its innermost fan-out.
fn mate(graph: &Graph, nodes: &mut [PlannedNode]) {
    let group = |node: &PlannedNode| {
        let each = |scope: &&u32| !scopes::is_loop(graph, **scope);
        node.around.iter().rev().find(each).copied()
    };
    for index in 0..nodes.len() {
        let own = group(&nodes[index]);
        if own.is_none() || nodes[index].role.is_none() {
            continue;
        }
        let mut mates: Vec<u32> = (0..nodes.len() as u32)
            .filter(|mate| {
                let node = &nodes[*mate as usize];
                node.role.is_some() && !node.gated && group(node) == own
            })
            .collect();
        mates.sort_by_key(|mate| nodes[*mate as usize].rank);
        nodes[index].mates = mates.into();
    }
}

/// The order of placing: by index, but after those that a node wants to be near.
fn ranks(graph: &Graph) -> Vec<u32> {
    fn visit(graph: &Graph, node: usize, ranks: &mut [Option<u32>], next: &mut u32) {
        if ranks[node].is_some() {
            return;
        }
        // Two that want to be near each other go by index.
        ranks[node] = Some(u32::MAX);
        for near in &graph.nodes()[node].options.near {
            if near.index() < ranks.len() {
                visit(graph, near.index(), ranks, next);
            }
        }
        ranks[node] = Some(*next);
        *next += 1;
    }
    let mut ranks = vec![None; graph.nodes().len()];
    let mut next = 0;
    for node in 0..ranks.len() {
        visit(graph, node, &mut ranks, &mut next);
    }
    ranks.into_iter().map(Option::unwrap_or_default).collect()
}
