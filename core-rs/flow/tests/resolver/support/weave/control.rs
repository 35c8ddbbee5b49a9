//! Fan-outs, loops and routes.

use omniflow_flow::{NodeId, NodeKind, Origin, ScopeId, ValueKind, ValueType};

use super::super::build::{count, list, out, text, texts, truth};
use super::{Known, Weaver, required, stream_of};

impl Weaver<'_> {
    pub(super) fn each(&mut self, scope: ScopeId, known: &mut Vec<Known>, depth: usize) {
        let wanted = |one: &Known| {
            one.scope == scope && one.value_type.stream && one.value_type.kind == ValueKind::Text
        };
        let mut streams: Vec<Origin> = Vec::new();
        for _ in 0..1 + self.draw(2) {
            streams.extend(self.pick(scope, known, wanted).map(|one| one.origin));
        }
        if streams.is_empty() {
            return self.role(scope, known);
        }
        let inner = self.flow.scope("each", scope, false);
        let inputs: Vec<_> = streams.iter().map(|stream| (texts(), *stream)).collect();
        let mut outputs = vec![text(); streams.len()];
        outputs.push(count());
        let kind = NodeKind::Each { scope: inner };
        let each = self.control("each", scope, kind, &inputs, &outputs);
        let items = streams.len() as u32;
        let first = self.flow.spec.nodes.len();
        let mut inside = known.clone();
        inside.extend((0..items).map(|port| self.known(out(each, port), inner)));
        let gate = self.gate.take();
        self.statements(inner, &mut inside, depth + 1);
        let mut leaving = self.unread_plain(first, inner);
        if leaving.is_empty() {
            leaving.push(out(each, 0));
        }
        self.gate = gate;
        for origin in leaving {
            let value_type = self.flow.value_type(origin);
            let (kind, made) = match self.draw(if self.free { 3 } else { 2 }) {
                0 if value_type.kind == ValueKind::Text => {
                    (NodeKind::Collect { scope: inner }, list())
                }
                2 => (NodeKind::Unordered { scope: inner }, stream_of(&value_type)),
                _ => (NodeKind::Ordered { scope: inner }, stream_of(&value_type)),
            };
            let inputs = [(value_type, origin), (count(), out(each, items))];
            // It is fed by the each of its own branch: no gate of its own.
            let node = self.flow.spec.nodes.len();
            let node = self
                .flow
                .control(&format!("leave{node}"), scope, kind, &inputs, &[made]);
            self.learn(node, scope, known);
        }
    }

    pub(super) fn cycle(&mut self, scope: ScopeId, known: &mut Vec<Known>, depth: usize) {
        let wanted = |one: &Known| one.scope == scope && required(&one.value_type) == text();
        let Some(start) = self.pick(scope, known, wanted) else {
            return self.role(scope, known);
        };
        let inner = self.flow.scope("loop", scope, true);
        let max_rounds = [8, 2, 1, 30][self.draw(4)];
        let kind = |emitted: u32| NodeKind::Loop {
            scope: inner,
            carried: 1,
            emitted,
            max_rounds,
        };
        let node = self.control(
            "loop",
            scope,
            kind(0),
            &[(text(), start.origin)],
            &[text(), text()],
        );
        let gate = self.gate.take();
        let first = self.flow.spec.nodes.len();
        let mut inside = known.clone();
        inside.push(self.known(out(node, 0), inner));
        self.statements(inner, &mut inside, depth + 1);
        let until = self.role_with(inner, &inside, &[truth()]);
        let mut emits = self.unread_plain(first, inner);
        emits.retain(|origin| *origin != out(until, 0));
        let next = |one: &Known| one.scope == inner && required(&one.value_type) == text();
        let next = self
            .pick(inner, &inside, next)
            .map_or(out(node, 0), |one| one.origin);
        emits.retain(|origin| *origin != next);
        self.gate = gate;
        // Inner inputs and emitted outputs stand before the gates, which were made with the node.
        self.flow
            .rebuild_loop(node, next, out(until, 0), &emits, kind(emits.len() as u32));
        known.push(self.known(out(node, 1), scope));
        for (emit, _) in emits.iter().enumerate() {
            known.push(self.known(out(node, 2 + emit as u32), scope));
        }
    }

    pub(super) fn route(&mut self, scope: ScopeId, known: &mut Vec<Known>, depth: usize) {
        let wanted = |one: &Known| {
            let plain = !one.value_type.stream && one.scope == scope;
            plain && !matches!(one.value_type.kind, ValueKind::Boolean)
        };
        let Some(choice) = self.pick(scope, known, wanted) else {
            return self.role(scope, known);
        };
        let value_type = required(&choice.value_type);
        let exclusive = value_type.kind == ValueKind::Text;
        if !exclusive && !self.free {
            return self.role(scope, known);
        }
        let kind = NodeKind::Route {
            branches: (0..3).map(|bit| format!("b{bit}")).collect(),
            exclusive,
        };
        let outputs = vec![value_type.clone(); 3];
        let route = self.control(
            "route",
            scope,
            kind,
            &[(value_type, choice.origin)],
            &outputs,
        );
        let outer = self.gate.take();
        let mut made = Vec::new();
        for branch in 0..3 {
            self.gate = Some((out(route, branch), scope));
            let first = self.flow.spec.nodes.len();
            let mut inside = known.clone();
            self.statements(scope, &mut inside, depth + 1);
            let mut left = self.unread(first, scope);
            left.retain(|origin| {
                matches!(origin, Origin::Node { node, .. } if self.flow.spec.nodes[node.index()].scope == scope)
            });
            // One role of the branch makes one text of all that the branch made.
            let reads: Vec<_> = left
                .iter()
                .map(|origin| (required(&self.flow.value_type(*origin)), *origin))
                .collect();
            let inputs: Vec<_> = reads
                .iter()
                .map(|(kind, from)| ("p", kind.clone(), *from))
                .collect();
            made.push((self.ending(scope, &inputs), first));
        }
        self.gate = None;
        let kind = if exclusive {
            NodeKind::AnyOf
        } else {
            NodeKind::Merge
        };
        let output = if exclusive { text() } else { texts() };
        let inputs: Vec<_> = made
            .iter()
            .map(|(node, _)| (text(), out(*node, 0)))
            .collect();
        let join = self.flow.spec.nodes.len();
        let join = self
            .flow
            .control(&format!("chosen{join}"), scope, kind, &inputs, &[output]);
        self.gate = outer;
        self.learn(join, scope, known);
    }

    fn ending(&mut self, scope: ScopeId, reads: &[(&str, ValueType, Origin)]) -> NodeId {
        let names: Vec<String> = (0..reads.len()).map(|index| format!("p{index}")).collect();
        let inputs: Vec<_> = reads
            .iter()
            .zip(&names)
            .map(|((_, kind, origin), name)| (name.as_str(), kind.clone().or_none(), *origin))
            .collect();
        let name = format!("ending{}", self.flow.spec.nodes.len());
        let node = self.flow.node(&name, &inputs, &[text()]);
        self.flow.place(node, scope);
        self.gated(node);
        node
    }
}
