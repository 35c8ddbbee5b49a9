//! Which scopes have ended, for which keys: what came from outside is kept until then, and what comes late is dropped
//! (rule 3).

use rustc_hash::{FxHashMap, FxHashSet};

use crate::effect::Effect;
use crate::graph::Graph;
use crate::ids::{NodeId, ScopeId};
use crate::key::Key;
use crate::layout::Home;
use crate::payload::Payload;
use crate::spec::{NodeKind, NodeSpec};

use super::Resolver;
use super::key_set::KeySet;

/// See the module.
pub(super) struct Scopes {
    /// By scope: the keys around it for which it has ended.
    ended: Vec<KeySet>,
    any_ended: bool,
    /// Of those: the binds that run again after a loss. What is for others is dropped as before.
    again: FxHashMap<Around, FxHashSet<Bind>>,
    /// The nodes that have closed a scope that has more of them.
    left: FxHashMap<Around, Vec<NodeId>>,
}

/// A scope and the key around it.
type Around = (ScopeId, Key);

/// A role node and the key of its bind.
type Bind = (NodeId, Key);

impl Scopes {
    pub(super) fn new(scopes: usize) -> Self {
        Self {
            ended: (0..=scopes).map(|_| KeySet::default()).collect(),
            any_ended: false,
            again: FxHashMap::default(),
            left: FxHashMap::default(),
        }
    }

    /// Whether the scope, or one around it, has ended for this key, which may be one from outside of it, and nothing in it
    /// that `again` says yes to runs again.
    fn has_ended(
        &self,
        graph: &Graph,
        scope: ScopeId,
        key: &Key,
        again: impl Fn(&FxHashSet<Bind>) -> bool,
    ) -> bool {
        if !self.any_ended {
            return false;
        }
        let layout = graph.layout();
        layout.around(scope).iter().any(|scope| {
            let outer = layout.depth(*scope) - 1;
            if outer > key.depth() {
                return false;
            }
            let outer = key.prefix(outer);
            if !self.ended[scope.index()].contains(&outer) {
                return false;
            }
            let binds = self.again.get(&(*scope, outer));
            !binds.is_some_and(&again)
        })
    }

    /// Whether any has: else nobody need ask which.
    pub(super) fn any_ended(&self) -> bool {
        self.any_ended
    }

    /// An attempt is repeated here: for what this bind is about, the scopes around the node and what runs at its side begin
    /// again, and those that are left by what runs at its side.
    pub(super) fn begin_again(&mut self, graph: &Graph, node: NodeId, bind: &Key) {
        self.forget_left(graph, node, bind);
        if !self.any_ended {
            return;
        }
        let (layout, nodes) = (graph.layout(), graph.nodes());
        let home = nodes[node.index()].scope;
        for side in std::iter::once(&node).chain(graph.companions(node)) {
            let spec = &nodes[side.index()];
            for scope in layout.around(spec.scope).iter().chain(&closes(spec)) {
                let about_it = |key: &Key| bind.extends(&layout.bind_key(home, key).0);
                for key in self.ended[scope.index()].keys().filter(about_it) {
                    let binds = self.again.entry((*scope, key)).or_default();
                    binds.insert((node, bind.clone()));
                }
            }
        }
    }

    /// An attempt is repeated somewhere: what was left by what runs at its side, and not by others yet, is not.
    pub(super) fn forget_left(&mut self, graph: &Graph, node: NodeId, bind: &Key) {
        if self.left.is_empty() {
            return;
        }
        let home = graph.nodes()[node.index()].scope;
        let companions = graph.companions(node);
        self.left.retain(|(_, key), left| {
            if bind.extends(&graph.layout().bind_key(home, key).0) {
                left.retain(|by| !companions.contains(by));
            }
            !left.is_empty()
        });
    }

    pub(super) fn facts(&self) -> usize {
        let again = self.again.values().map(FxHashSet::len).sum::<usize>();
        self.ended.iter().map(KeySet::size).sum::<usize>() + again + self.left.len()
    }
}

/// The scope whose values leave by the node.
fn closes(spec: &NodeSpec) -> Option<ScopeId> {
    let makes_only = matches!(spec.kind, NodeKind::Each { .. });
    spec.kind.inner_scope().filter(|_| !makes_only)
}

impl<P: Payload> Resolver<P> {
    /// Whether a scope, or one around it, has ended for what is inside of this key, so that nobody reads there any more.
    pub fn has_ended(&self, scope: ScopeId, key: &Key) -> bool {
        let any = |_: &FxHashSet<Bind>| true;
        self.scopes.has_ended(&self.graph, scope, key, any)
    }

    /// Whether what comes for this key of a node is nobody's any more: a scope around it has ended, and the node does not run
    /// again. From outside of its scope, a key is for many runs.
    pub(super) fn is_past(&self, node: NodeId, key: &Key) -> bool {
        let scope = self.graph.nodes()[node.index()].scope;
        let again = |binds: &FxHashSet<Bind>| {
            let Home::Node(home) = self.graph.home(node) else {
                return false;
            };
            let (bind, whole) = self.bind_at(home, key);
            match whole {
                true => binds.contains(&(home, bind)),
                false => binds
                    .iter()
                    .any(|(node, key)| *node == home && key.extends(&bind)),
            }
        };
        self.scopes.has_ended(&self.graph, scope, key, again)
    }

    /// What a bind was repeated for in scopes that have ended is over: what was kept for it there goes.
    pub(super) fn end_again(&mut self, node: NodeId, bind: &Key) {
        if self.scopes.again.is_empty() {
            return;
        }
        let layout = self.graph.layout();
        for scope in layout.around(self.graph.nodes()[node.index()].scope) {
            let around = (*scope, bind.prefix(layout.depth(*scope) - 1));
            let Some(binds) = self.scopes.again.get_mut(&around) else {
                continue;
            };
            binds.remove(&(node, bind.clone()));
            if binds.is_empty() {
                self.scopes.again.remove(&around);
                for (inner, runs) in self.graph.nodes().iter().zip(&mut self.nodes) {
                    if layout.is_inside(inner.scope, *scope) {
                        runs.forget_outer(&around.1);
                    }
                }
            }
        }
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
        let scopes = &self.scopes;
        let over = || {
            let again = scopes.again.contains_key(&(scope, key.clone()));
            scopes.ended[scope.index()].contains(key) && !again
        };
        if !known || over() {
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
        let inside =
            |(other, inner): &Around| layout.is_inside(*other, scope) && inner.extends(key);
        scopes.left.retain(|at, _| !inside(at));
        scopes.again.retain(|at, _| !inside(at));
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
