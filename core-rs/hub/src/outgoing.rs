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
            Some(_) => Placed::Again,
        }
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
mod tests {
    use super::*;

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
}
