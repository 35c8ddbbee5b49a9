//! Scopes that were left, and rounds that are over: what was kept for them goes (rules 3 and 11).

use bytes::Bytes;
use omniflow_flow::{EdgeId, Effect, Key, NodeId, ScopeId};
use omniflow_wire::v1;
use rustc_hash::FxHashMap;

use crate::core::job::{Context, Job};
use crate::core::lanes::Lanes;

/// What is known of scopes that have not ended.
#[derive(Debug, Default)]
pub(crate) struct OpenScopes {
    /// By scope and the key around it: the nodes that it was left by, of those that are several.
    left: FxHashMap<(ScopeId, Key), Vec<NodeId>>,
    /// By scope and the key around it: what the scheduler was told from here.
    told: Lanes<Vec<NodeId>>,
    /// By loop and the key around it: the latest round.
    rounds: FxHashMap<(ScopeId, Key), u32>,
}

impl OpenScopes {
    /// The loop runs again from its first round.
    pub(crate) fn begin_again(&mut self, scope: ScopeId) {
        self.rounds.retain(|(of, _), _| *of != scope);
    }

    /// Whether all of its closers are over now.
    fn left_by(&mut self, scope: ScopeId, key: &Key, by: NodeId, closers: &[NodeId]) -> bool {
        let left = self.left.entry((scope, key.clone())).or_default();
        if closers.contains(&by) && !left.contains(&by) {
            left.push(by);
        }
        left.len() == closers.len()
    }

    /// What is known of a scope and those inside of it goes, but for what the scheduler was told of the scope itself.
    fn forget(&mut self, scope: ScopeId, inner: &[ScopeId], key: &Key) {
        let inside =
            |(of, at): &(ScopeId, Key)| (*of == scope || inner.contains(of)) && at.extends(key);
        self.left.retain(|at, _| !inside(at));
        self.rounds.retain(|at, _| !inside(at));
        for inner in inner {
            self.told.remove_inside(inner.0, key);
        }
    }
}

impl Job {
    /// A node here by which values leave a scope is over: everybody hears of it.
    pub(crate) fn leave_scope(
        &mut self,
        scope: ScopeId,
        key: &Key,
        by: NodeId,
        more: &mut Vec<Effect<Bytes>>,
        cx: &mut Context<'_>,
    ) {
        self.scopes.told.entry(scope.0, key).push(by);
        let message = self.scope_left_message(scope, key, by);
        if cx.site.scheduler_up {
            cx.out
                .send(crate::core::outputs::Target::Scheduler, message);
        }
        self.scope_left(scope, key, by, more, cx);
    }

    /// The same, here or elsewhere. Once all such nodes of the scope are over, nothing in it is needed any more, unless
    /// something runs again.
    pub(crate) fn scope_left(
        &mut self,
        scope: ScopeId,
        key: &Key,
        by: NodeId,
        more: &mut Vec<Effect<Bytes>>,
        cx: &mut Context<'_>,
    ) {
        if self.resolver.has_ended(scope, key) {
            return;
        }
        self.resolver.scope_left(scope, key, by, more);
        let flow = std::sync::Arc::clone(&self.flow);
        let wires = &flow.wires;
        if !self.scopes.left_by(scope, key, by, wires.closers(scope)) {
            return;
        }
        for edge in wires.edges_inside(scope) {
            self.spend_inside(*edge, key, cx);
        }
        self.cut.forget_inside(wires.edges_inside(scope), key);
        self.scopes.forget(scope, wires.scopes_inside(scope), key);
        // The nodes of a loop, and those of what is in one, are bound for rounds to come, too.
        let once = !wires.is_loop(scope) && flow.bind_key_around(scope, key) == *key;
        for node in wires.nodes_inside(scope) {
            if once {
                self.places.forget_inside(*node, key);
            }
            let bind = flow.bind_key_around(scope, key);
            self.asked
                .retain(|(asked, at)| asked != node || !at.extends(&bind) || !once);
        }
    }

    /// A scheduler is there (again), and may not have heard by what nodes scopes were left.
    pub(crate) fn tell_left_again(&self, cx: &mut Context<'_>) {
        for (scope, key, nodes) in self.scopes.told.iter() {
            for by in nodes {
                let message = self.scope_left_message(ScopeId(scope), key, *by);
                cx.out
                    .send(crate::core::outputs::Target::Scheduler, message);
            }
        }
    }

    fn scope_left_message(&self, scope: ScopeId, key: &Key, by: NodeId) -> v1::ScopeLeft {
        v1::ScopeLeft {
            job: self.info.id.0,
            scope: scope.0,
            key: key.path().to_vec(),
            by: by.0,
            term: 0,
        }
    }

    /// Something of a round was sent or came, so those before it are over: a loop begins a round when it has all of the one
    /// before.
    pub(crate) fn note_rounds(&mut self, edge: EdgeId, key: &Key, cx: &mut Context<'_>) {
        if self.flow.wires.rounds(edge).is_empty() {
            return;
        }
        let flow = std::sync::Arc::clone(&self.flow);
        for round in flow.wires.rounds(edge) {
            let Some(now) = key.path().get(round.index).copied() else {
                continue;
            };
            let outer = key.prefix(round.index);
            let latest = self
                .scopes
                .rounds
                .entry((round.scope, outer.clone()))
                .or_default();
            if now <= *latest {
                continue;
            }
            *latest = now;
            for inner in flow.wires.scopes_inside(round.scope) {
                self.scopes.told.take_rounds_before(inner.0, &outer, now);
            }
            for inside in flow.wires.edges_inside(round.scope) {
                let freed = self.sent.drop_rounds_before(*inside, &outer, now);
                cx.site.take_back(freed);
                self.received.drop_rounds_before(*inside, &outer, now);
            }
            let edges = flow.wires.edges_inside(round.scope);
            self.credits.drop_rounds_before(edges, &outer, now);
            self.cut.drop_rounds_before(edges, &outer, now);
        }
    }
}
