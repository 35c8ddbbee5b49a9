//! Where the nodes of one job are bound, and what the scheduler's own resolver has sent to them: it goes again to a place
//! that is new (rule 11).

use std::collections::BTreeMap;

use bytes::Bytes;
use omniflow_flow::{EdgeId, Graph, Home, Item, Key, NodeId, ScopeId};
use omniflow_placement::WorkerId;
use rustc_hash::{FxHashMap, FxHashSet};

/// What a kept item costs beside its payload.
const ITEM_BYTES: usize = 64;

/// Who runs a node for a key of a bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) worker: WorkerId,
    pub(crate) epoch: u32,
}

/// What a bind changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Nothing: it is known.
    Known,
    /// The node had no place.
    First,
    /// It runs again.
    Again,
}

/// One item that the scheduler's resolver has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) edge: EdgeId,
    pub(crate) key: Key,
    pub(crate) epoch: u32,
    pub(crate) item: Item<Bytes>,
}

impl Sent {
    fn cost(&self) -> usize {
        match &self.item {
            Item::Frame { payload, .. } => ITEM_BYTES + payload.len(),
            Item::End { .. } | Item::Closed => ITEM_BYTES,
        }
    }
}

/// A node by which values leave a scope is over: the scope, the key around it, the node.
pub(crate) type Left = (ScopeId, Key, NodeId);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// By node, of those that are bound once for the job.
    once: Box<[Option<Place>]>,
    keyed: BTreeMap<(NodeId, Key), Place>,
    /// Whether any of them has had another place before.
    moved: bool,
    /// Who has ever been given a node of the job.
    workers: Vec<WorkerId>,
    /// By whom it is for: a node's bind key, or the beginning of all its bind keys.
    kept: FxHashMap<(NodeId, Key), Vec<Sent>>,
    /// What is for all keys of a node, by edge and key: workers that have it.
    had: FxHashMap<(EdgeId, Key), Vec<WorkerId>>,
    /// What has left scopes, for workers to come.
    left: FxHashSet<Left>,
    bytes: usize,
}

impl Outgoing {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            once: vec![None; nodes].into(),
            ..Self::default()
        }
    }

    /// Bytes of what is kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    // --- places -----------------------------------------------------------------------------------------------------

    pub(crate) fn place(&self, node: NodeId, key: &Key) -> Option<Place> {
        if key.is_root() {
            return *self.once.get(node.index())?;
        }
        self.keyed.get(&(node, key.clone())).copied()
    }

    /// The node has a place.
    pub(crate) fn bind(&mut self, node: NodeId, key: &Key, place: Place) -> Placed {
        let known = self.place(node, key);
        if known.is_some_and(|known| known.epoch >= place.epoch) {
            return Placed::Known;
        }
        if !key.is_root() {
            self.keyed.insert((node, key.clone()), place);
        } else if let Some(once) = self.once.get_mut(node.index()) {
            *once = Some(place);
        }
        match known {
            None => Placed::First,
            Some(_) => {
                self.moved = true;
                Placed::Again
            }
        }
    }

    /// Whether the worker has something in a scope, for a key around it, that was elsewhere before. Nodes of loops do not
    /// count: they are bound for rounds to come, too.
    pub(crate) fn has_moved_into(
        &self,
        graph: &Graph,
        (scope, key): (ScopeId, &Key),
        worker: WorkerId,
    ) -> bool {
        let nodes = (0..).map(NodeId).zip(graph.nodes());
        let mut inside = nodes.filter(|(_, node)| is_inside(graph, node.scope, scope));
        let moved = |(node, _): (NodeId, _)| {
            let under = self.keyed.range((node, key.clone())..);
            let mut under = under.take_while(|((other, at), _)| *other == node && at.extends(key));
            under.any(|(_, place)| place.worker == worker && place.epoch > 1)
        };
        self.moved && !in_a_loop(graph, scope) && inside.any(moved)
    }

    /// Where a node is bound under keys that extend this one; a worker comes as often as it has such a key.
    pub(crate) fn places_under(
        &self,
        node: NodeId,
        prefix: &Key,
    ) -> impl Iterator<Item = WorkerId> {
        let under = self.keyed.range((node, prefix.clone())..);
        under
            .take_while(move |((other, key), _)| *other == node && key.extends(prefix))
            .map(|(_, place)| place.worker)
    }

    /// Whoever has ever been given a node of the job.
    pub(crate) fn workers(&self) -> &[WorkerId] {
        &self.workers
    }

    /// The worker is told of the job. False when it was before.
    pub(crate) fn join(&mut self, worker: WorkerId) -> bool {
        let new = !self.workers.contains(&worker);
        if new {
            self.workers.push(worker);
        }
        new
    }

    // --- what was sent ----------------------------------------------------------------------------------------------

    /// Keeps what was sent to a node's bind key, or to all that begin so. Returns the bytes that this takes.
    pub(crate) fn keep(&mut self, node: NodeId, key: Key, sent: Sent) -> usize {
        let cost = sent.cost();
        self.bytes += cost;
        self.kept.entry((node, key)).or_default().push(sent);
        cost
    }

    /// What is for a bind: with whether it is for other keys of the node, too.
    pub(crate) fn kept(&self, node: NodeId, key: &Key) -> impl Iterator<Item = (&Sent, bool)> {
        let prefixes = (0..=key.depth()).map(|depth| (depth < key.depth(), key.prefix(depth)));
        prefixes.flat_map(move |(every, prefix)| {
            let kept = self.kept.get(&(node, prefix));
            kept.into_iter().flatten().map(move |sent| (sent, every))
        })
    }

    /// The worker is sent what is for all keys of a node. False when it has it already.
    pub(crate) fn must_have(&mut self, edge: EdgeId, key: &Key, worker: WorkerId) -> bool {
        let had = self.had.entry((edge, key.clone())).or_default();
        let new = !had.contains(&worker);
        if new {
            had.push(worker);
        }
        new
    }

    /// A node's attempt is repeated: what was sent to its worker for other attempts may be gone.
    pub(crate) fn must_have_again(&mut self, edge: EdgeId, key: &Key, worker: WorkerId) {
        if let Some(had) = self.had.get_mut(&(edge, key.clone())) {
            had.retain(|known| *known != worker);
        }
    }

    // --- scopes -----------------------------------------------------------------------------------------------------

    /// A node by which values leave a scope is over. False when that is known. Once all of them (`closers`) are, nothing is
    /// sent into the scope any more: what is kept for it is forgotten. Returns the bytes given back.
    pub(crate) fn leave(&mut self, graph: &Graph, closers: usize, left: Left) -> Option<usize> {
        let (scope, key) = (left.0, left.1.clone());
        if !self.left.insert(left) {
            return None;
        }
        let of_it = |(other, around, _): &&Left| *other == scope && *around == key;
        let ended = self.left.iter().filter(of_it).count() >= closers;
        Some(if ended {
            self.end_scope(graph, scope, &key)
        } else {
            0
        })
    }

    fn end_scope(&mut self, graph: &Graph, scope: ScopeId, key: &Key) -> usize {
        self.left
            .retain(|(inner, around, _)| !(is_inside(graph, *inner, scope) && around.extends(key)));
        let spec = graph.spec().scopes.get(scope.index() - 1);
        // Nodes in a loop are bound for rounds to come, too.
        if spec.is_none_or(|spec| spec.is_loop || in_a_loop(graph, spec.parent)) {
            return 0;
        }
        let nodes = (0..).map(NodeId).zip(graph.nodes());
        let inside: Vec<bool> = nodes
            .map(|(_, node)| is_inside(graph, node.scope, scope))
            .collect();
        let ended = |node: NodeId, at: &Key| inside[node.index()] && at.extends(key);
        self.keyed.retain(|(node, at), _| !ended(*node, at));
        let mut freed = 0;
        self.kept.retain(|(node, at), kept| {
            let ended = ended(*node, at);
            if ended {
                freed += kept.iter().map(Sent::cost).sum::<usize>();
            }
            !ended
        });
        self.bytes -= freed;
        freed
    }

    /// This one, and those of other nodes by which the same is left.
    pub(crate) fn words(&self, left: &Left) -> Vec<Left> {
        let of_it = |(scope, key, by): &&Left| *scope == left.0 && *key == left.1 && *by != left.2;
        let others = self.left.iter().filter(of_it).cloned();
        others.chain([left.clone()]).collect()
    }

    /// What a worker that is new to the job has to know of scopes.
    pub(crate) fn left(&self) -> impl Iterator<Item = &Left> {
        self.left.iter()
    }

    /// A node runs again: what leaves by its side, or by scopes around it, is to leave again.
    pub(crate) fn begin_again(&mut self, graph: &Graph, node: NodeId, bind: &Key) {
        if self.left.is_empty() {
            return;
        }
        let scope = graph.node(node).map_or(ScopeId::ROOT, |spec| spec.scope);
        self.left.retain(|(left, key, by)| {
            let beside = graph.home(*by) == Home::Node(node);
            let around = is_inside(graph, scope, *left);
            let outer = graph.bind_key(node, key);
            !((beside || around) && (bind.extends(&outer) || outer.extends(bind)))
        });
    }
}

fn in_a_loop(graph: &Graph, mut scope: ScopeId) -> bool {
    while scope != ScopeId::ROOT {
        let Some(spec) = graph.spec().scopes.get(scope.index() - 1) else {
            return false;
        };
        if spec.is_loop {
            return true;
        }
        scope = spec.parent;
    }
    false
}

fn is_inside(graph: &Graph, mut scope: ScopeId, outer: ScopeId) -> bool {
    while scope != ScopeId::ROOT {
        if scope == outer {
            return true;
        }
        scope = graph
            .spec()
            .scopes
            .get(scope.index() - 1)
            .map_or(ScopeId::ROOT, |spec| spec.parent);
    }
    false
}

#[cfg(test)]
mod tests;
