//! Where a frame becomes an activation. The rules are numbers 1 to 9 and 12 of the exact rules.

mod accept;
mod control;
mod delivered;
mod digests;
mod few;
mod hosting;
mod inlet;
mod inspect;
mod key_set;
mod node_run;
mod node_runs;
mod outlet;
mod per_key;
mod place;
mod produce;
mod result_run;
mod scopes;
mod unbound;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::effect::Effect;
use crate::error::ResolverError;
use crate::graph::Graph;
use crate::ids::{EdgeId, NodeId, PortIx};
use crate::item::Item;
use crate::key::Key;
use crate::layout::Home;
use crate::payload::Payload;

pub use delivered::Delivered;
pub use inspect::Footprint;
use node_run::NodeRun;
use node_runs::NodeRuns;
use outlet::{Outlet, OutletError};
use place::Place;
use result_run::ResultRun;
use scopes::Scopes;

/// One job at one place: a worker with some of the job's nodes, or the scheduler with its inputs and results.
///
/// The driver brings arrivals (`accept`) and what activations do (`emit`, `end`, `finish`), and carries out the effects
/// that are appended to `effects`, in order. A frame to a node at the same place goes out as `Send` like any other, so
/// that retention sees it, and comes back through `accept`. Dropping the resolver cancels the job at this place.
///
/// Control nodes run inside: wherever the role node is hosted at whose side they are (`Graph::home`), under its epoch, or
/// in the scheduler's resolver. Nobody hosts them or hears of them, but for what they send.
pub struct Resolver<P> {
    graph: Arc<Graph>,
    /// By node.
    nodes: Vec<NodeRuns<P>>,
    /// By input of the flow.
    inputs: Vec<Outlet>,
    /// By result of the flow; `None` where results are not taken.
    results: Option<Vec<ResultRun<P>>>,
    results_open: usize,
    scopes: Scopes,
    /// Attempts of nodes that were announced, by bind: what earlier ones sent is stale.
    restarts: FxHashMap<(NodeId, Key), u32>,
    /// At the scheduler, by bind: what came for nodes that are not bound.
    parked: FxHashMap<(NodeId, Key), Vec<Parked<P>>>,
}

/// Something that came to the scheduler for a node that was not bound (rule 7): it goes along with the bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked<P> {
    /// On which edge.
    pub edge: EdgeId,
    /// For which key.
    pub key: Key,
    /// Of its producer.
    pub epoch: u32,
    /// The frame or mark.
    pub item: Item<P>,
}

impl<P: Payload> Resolver<P> {
    /// For a worker: takes frames for nodes that it hosts, now or later.
    pub fn new(graph: Arc<Graph>) -> Self {
        let nodes = (0..graph.nodes().len()).map(|node| NodeRuns::new(&graph, NodeId(node as u32)));
        Self {
            nodes: nodes.collect(),
            inputs: graph.inputs().iter().map(Outlet::new).collect(),
            results: None,
            results_open: 0,
            scopes: Scopes::new(graph.spec().scopes.len()),
            restarts: FxHashMap::default(),
            parked: FxHashMap::default(),
            graph,
        }
    }

    /// For the scheduler: takes results too, says when the job is `Done`, and acts for nodes that are not bound.
    pub fn with_results(graph: Arc<Graph>) -> Self {
        let runs = graph.results().iter().enumerate();
        let results: Vec<_> = runs
            .map(|(port, spec)| ResultRun::new(&graph, PortIx(port as u32), spec.value_type.stream))
            .collect();
        Self {
            results_open: results.len(),
            results: Some(results),
            ..Self::new(graph)
        }
    }

    /// The graph that it runs.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Whether every result has ended or closed. Always false without results.
    pub fn done(&self) -> bool {
        self.results.is_some() && self.results_open == 0
    }

    /// The epoch under which a node runs here for a key (of a run), `None` when it does not.
    fn epoch_of(&self, node: NodeId, key: &Key) -> Option<u32> {
        match self.graph.home(node) {
            Home::Scheduler => self.results.is_some().then_some(0),
            Home::Node(home) => {
                let (key, whole) = self.bind_at(home, key);
                self.nodes[home.index()]
                    .hosted
                    .get(&key)
                    .copied()
                    .filter(|_| whole)
            }
        }
    }

    /// At the scheduler: the epoch under which it closes a node that is not bound. After a loss it must not be that of an
    /// earlier attempt, which everyone drops.
    fn acts_under(&self, node: NodeId, key: &Key) -> Option<u32> {
        self.results.as_ref()?;
        if self.restarts.is_empty() {
            return Some(0);
        }
        let Home::Node(home) = self.graph.home(node) else {
            return Some(0);
        };
        let bind = (home, self.bind_at(home, key).0);
        Some(self.restarts.get(&bind).copied().unwrap_or(0))
    }

    /// The key of a role node's bind, as far as this key says it, and whether it says all of it.
    fn bind_at(&self, node: NodeId, key: &Key) -> (Key, bool) {
        let scope = self.graph.nodes()[node.index()].scope;
        self.graph.layout().bind_key(scope, key)
    }

    /// Does something with one run of a node, which is made if it isn't there. `None`: it is over, or its scope is.
    fn at_run<R>(
        &mut self,
        node: NodeId,
        key: &Key,
        effects: &mut Vec<Effect<P>>,
        act: impl FnOnce(&mut NodeRun<P>, Place<'_>, &mut Vec<Effect<P>>) -> R,
    ) -> Option<R> {
        let place = place(&self.graph, node, key, self.acts_under(node, key));
        let (done, over) = match self.nodes[node.index()].runs.get_mut(key) {
            Some(run) => (act(run, place, effects), run.over()),
            None => {
                if self.nodes[node.index()].is_over(key) {
                    return None;
                }
                let epoch = self.epoch_of(node, key);
                let run = self.nodes[node.index()].begin(place, epoch, effects);
                (act(run, place, effects), run.over())
            }
        };
        if over && !key.is_root() {
            self.settle(node, key);
        }
        Some(done)
    }

    /// Forgets a run that is over, but for the fact. Inside an `each` its bind was for it alone.
    fn settle(&mut self, node: NodeId, key: &Key) {
        let alone =
            self.graph.bind_depth(node) == key.depth() && self.graph.companions(node).is_empty();
        if alone {
            self.end_again(node, key);
        }
        let ended = self.is_past(node, key);
        let runs = &mut self.nodes[node.index()];
        let Some(run) = runs.runs.remove(key) else {
            return;
        };
        if alone {
            runs.hosted.remove(key);
        }
        if !ended {
            runs.over(key, run.epoch().unwrap_or_default());
        }
    }
}

fn place<'a>(graph: &'a Graph, node: NodeId, key: &'a Key, acts_under: Option<u32>) -> Place<'a> {
    Place {
        graph,
        spec: &graph.nodes()[node.index()],
        node,
        key,
        acts_under,
    }
}

fn violation(edge: EdgeId, key: &Key, what: &'static str) -> ResolverError {
    ResolverError::Violation {
        edge,
        key: key.clone(),
        what,
    }
}

fn output_error(error: OutletError, port: PortIx) -> ResolverError {
    match error {
        OutletError::Full => ResolverError::PortFull(port),
        OutletError::NotAStream => ResolverError::NotAStream(port),
        OutletError::Missing => ResolverError::MissingOutput(port),
    }
}
