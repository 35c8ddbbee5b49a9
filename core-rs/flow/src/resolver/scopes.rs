//! Which scopes have ended, for which keys: what came from outside is kept until then, and what comes late is dropped
//! (rule 3).

use rustc_hash::FxHashMap;

use crate::effect::Effect;
use crate::graph::Graph;
use crate::ids::{NodeId, ScopeId};
use crate::key::Key;
use crate::payload::Payload;

use super::Resolver;
use super::key_set::KeySet;

/// See the module.
pub(super) struct Scopes {
    /// By scope: the keys around it for which it has ended.
    ended: Vec<KeySet>,
    any_ended: bool,
    /// The nodes that have closed a scope that has more of them.
    left: FxHashMap<(ScopeId, Key), Vec<NodeId>>,
}

impl Scopes {
    pub(super) fn new(scopes: usize) -> Self {
        Self {
            ended: (0..=scopes).map(|_| KeySet::default()).collect(),
            any_ended: false,
            left: FxHashMap::default(),
        }
    }

    /// Whether the scope, or one around it, has ended for this key; the key may be one from outside of it.
    pub(super) fn has_ended(&self, graph: &Graph, scope: ScopeId, key: &Key) -> bool {
        let layout = graph.layout();
        self.any_ended
            && layout.around(scope).iter().any(|scope| {
                let outer = layout.depth(*scope) - 1;
                outer <= key.depth() && self.ended[scope.index()].contains(&key.prefix(outer))
            })
    }

    /// The scopes around a node begin again for what is bound by this key: an attempt is repeated.
    pub(super) fn begin_again(&mut self, graph: &Graph, scope: ScopeId, bind: &Key) {
        if !self.any_ended {
            return;
        }
        let layout = graph.layout();
        for scope in layout.around(scope) {
            let parent = layout.around(*scope).get(1).copied().unwrap_or_default();
            self.ended[scope.index()].forget(|key| bind.extends(&layout.bind_key(parent, key).0));
        }
    }

    pub(super) fn facts(&self) -> usize {
        self.ended.iter().map(KeySet::size).sum::<usize>() + self.left.len()
    }
}

impl<P: Payload> Resolver<P> {
    /// Whether a scope, or one around it, has ended for what is inside of this key, so that nobody reads there any more.
    pub fn has_ended(&self, scope: ScopeId, key: &Key) -> bool {
        self.scopes.has_ended(&self.graph, scope, key)
    }

    /// A node by which values leave a scope is over, here or elsewhere (`Effect::ScopeLeft`). Once all of them are, what
    /// the place kept for that scope is freed, what runs in it is cancelled, and what still comes for it is dropped.
    pub fn scope_left(
        &mut self,
        scope: ScopeId,
        key: &Key,
        by: NodeId,
        effects: &mut Vec<Effect<P>>,
    ) {
        let graph = std::sync::Arc::clone(&self.graph);
        let known = scope != ScopeId::ROOT && scope.index() <= graph.spec().scopes.len();
        if !known || self.scopes.ended[scope.index()].contains(key) {
            return;
        }
        let closers = graph.layout().closers(scope);
        if !closers.contains(&by) {
            return;
        }
        let left = self.scopes.left.entry((scope, key.clone())).or_default();
        if !left.contains(&by) {
            left.push(by);
        }
        if left.len() == closers.len() {
            self.end_scope(&graph, scope, key, effects);
        }
    }

    fn end_scope(
        &mut self,
        graph: &Graph,
        scope: ScopeId,
        key: &Key,
        effects: &mut Vec<Effect<P>>,
    ) {
        let layout = graph.layout();
        let parent = layout.around(scope).get(1).copied().unwrap_or_default();
        let (bind, _) = layout.bind_key(parent, key);
        // The nodes of a loop are bound for rounds to come, too.
        let once = bind == *key && !graph.spec().scopes[scope.index() - 1].is_loop;
        for (node, runs) in self.nodes.iter_mut().enumerate() {
            if layout.is_inside(graph.nodes()[node].scope, scope) {
                let running = runs.end(key, once, &bind).into_iter();
                let node = NodeId(node as u32);
                effects.extend(running.map(|key| Effect::Cancelled { node, key }));
            }
        }
        self.forget_parked(graph, scope, key);
        let scopes = &mut self.scopes;
        scopes
            .left
            .retain(|(other, inner), _| !(layout.is_inside(*other, scope) && inner.extends(key)));
        for inner in 1..=graph.spec().scopes.len() {
            let id = ScopeId(inner as u32);
            if id != scope && layout.is_inside(id, scope) {
                scopes.ended[inner].forget_inside(key);
            }
        }
        scopes.ended[scope.index()].insert(key);
        scopes.any_ended = true;
    }
}
