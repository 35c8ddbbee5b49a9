//! Random valid flows with fan-outs, loops, routes and streams. A tape of small numbers decides; where it has run out, all
//! decisions are 0, so that a shorter tape is a smaller flow.

mod control;

use omniflow_flow::{GraphSpec, NodeId, NodeKind, Origin, ScopeId, ValueKind, ValueType};

use super::build::{FlowBuilder, list, out, text, texts};
use super::role::Carried;
use super::{Word, mix};

/// Something that a node may read.
#[derive(Clone, Debug)]
struct Known {
    origin: Origin,
    value_type: ValueType,
    scope: ScopeId,
}

/// Makes one flow of a tape.
pub struct Weaver<'a> {
    tape: std::slice::Iter<'a, u8>,
    flow: FlowBuilder,
    /// Whether arrival order may decide anything.
    free: bool,
    inputs: Vec<ValueType>,
    /// Gates of the branch that is being made.
    gate: Option<(Origin, ScopeId)>,
}

/// A flow, and what its inputs are.
pub struct Woven {
    pub spec: GraphSpec,
    inputs: Vec<ValueType>,
}

pub fn weave(tape: &[u8], free: bool) -> Woven {
    let mut weaver = Weaver {
        tape: tape.iter(),
        flow: FlowBuilder::new(),
        free,
        inputs: Vec::new(),
        gate: None,
    };
    let mut known = Vec::new();
    for kind in [text(), texts(), list(), texts().or_none(), text().or_none()] {
        let name = format!("in{}", weaver.inputs.len());
        let origin = weaver.flow.input(&name, kind.clone());
        weaver.inputs.push(kind);
        known.push(weaver.known(origin, ScopeId::ROOT));
    }
    weaver.statements(ScopeId::ROOT, &mut known, 0);
    for (index, left) in weaver.unread(0, ScopeId::ROOT).into_iter().enumerate() {
        let kind = weaver.flow.value_type(left).or_none();
        weaver.flow.result(&format!("result{index}"), kind, &[left]);
    }
    if weaver.flow.spec.results.is_empty() {
        let first = known[0].clone();
        weaver
            .flow
            .result("first", first.value_type, &[first.origin]);
    }
    Woven {
        spec: weaver.flow.spec,
        inputs: weaver.inputs,
    }
}

impl Woven {
    pub fn job_inputs(&self, seed: u64) -> Vec<Carried> {
        let input = |(index, kind): (u64, &ValueType)| {
            let random = mix(&[seed, index]);
            let word = |word: u64| match kind.kind {
                ValueKind::List(_) => Word(word | super::SEVERAL),
                _ => Word(word & !super::SEVERAL),
            };
            match (kind.stream, kind.optional) {
                (_, true) if random.is_multiple_of(2) => Carried::Nothing,
                (true, _) => Carried::Many(
                    (0..random % 4)
                        .map(|seq| word(mix(&[random, seq])))
                        .collect(),
                ),
                (false, _) => Carried::One(word(random)),
            }
        };
        (0..).zip(&self.inputs).map(input).collect()
    }
}

impl Weaver<'_> {
    fn draw(&mut self, among: usize) -> usize {
        usize::from(self.tape.next().copied().unwrap_or(0)) % among
    }

    fn known(&self, origin: Origin, scope: ScopeId) -> Known {
        Known {
            origin,
            value_type: self.flow.value_type(origin),
            scope,
        }
    }

    fn statements(&mut self, scope: ScopeId, known: &mut Vec<Known>, depth: usize) {
        let statements = 1 + self.draw(if depth == 0 { 6 } else { 3 });
        for _ in 0..statements {
            match self.draw(if depth < 2 { 12 } else { 8 }) {
                0..=3 => self.role(scope, known),
                4 => self.joined(scope, known, NodeKind::Zip),
                5 if self.free => self.joined(scope, known, NodeKind::Merge),
                6 if self.free => self.joined(scope, known, NodeKind::AnyOf),
                5..=7 => self.list_of_stream(scope, known),
                8 | 9 => self.each(scope, known, depth),
                10 => self.cycle(scope, known, depth),
                _ => self.route(scope, known, depth),
            }
        }
    }

    /// One of what a node of this scope may read that the filter likes.
    fn pick(
        &mut self,
        scope: ScopeId,
        known: &[Known],
        like: impl Fn(&Known) -> bool,
    ) -> Option<Known> {
        let may = |one: &&Known| one.scope == scope || !one.value_type.stream;
        let liked: Vec<&Known> = known.iter().filter(may).filter(|one| like(one)).collect();
        if liked.is_empty() {
            return None;
        }
        // The newest first: flows grow long rather than wide.
        let index = liked.len() - 1 - self.draw(liked.len());
        Some(liked[index].clone())
    }

    fn gated(&mut self, node: NodeId) {
        if let Some((branch, _)) = self.gate {
            self.flow.gate(node, branch);
        }
    }

    fn learn(&mut self, node: NodeId, scope: ScopeId, known: &mut Vec<Known>) {
        for port in 0..self.flow.spec.nodes[node.index()].outputs.len() {
            known.push(self.known(out(node, port as u32), scope));
        }
    }

    fn role(&mut self, scope: ScopeId, known: &mut Vec<Known>) {
        let outputs: Vec<ValueType> = (0..1 + self.draw(2))
            .map(|_| match self.draw(8) {
                0 | 1 => text(),
                2 | 3 => texts(),
                4 => text().or_none(),
                5 => texts().or_none(),
                _ => list(),
            })
            .collect();
        let node = self.role_with(scope, known, &outputs);
        self.learn(node, scope, known);
    }

    fn role_with(&mut self, scope: ScopeId, known: &[Known], outputs: &[ValueType]) -> NodeId {
        let mut reads = Vec::new();
        // What gives it its keys stands first and is required.
        let own = self.pick(scope, known, |one| one.scope == scope);
        reads.extend(own.map(|one| (required(&one.value_type), one.origin)));
        for _ in 0..self.draw(3) {
            let optional = self.draw(2) == 1;
            if let Some(one) = self.pick(scope, known, |_| true) {
                let kind = required(&one.value_type);
                reads.push((if optional { kind.or_none() } else { kind }, one.origin));
            }
        }
        let names: Vec<String> = (0..reads.len()).map(|index| format!("p{index}")).collect();
        let mut inputs: Vec<_> = reads
            .iter()
            .zip(&names)
            .map(|((kind, origin), name)| (name.as_str(), kind.clone(), *origin))
            .collect();
        let all: Vec<u32> = (0..inputs.len() as u32).collect();
        let mut trigger = if all.is_empty() {
            vec![]
        } else {
            vec![all.clone()]
        };
        if self.free
            && self.draw(3) == 2
            && let Some((kind, _)) = reads.first()
        {
            let alike = |one: &Known| one.scope == scope && required(&one.value_type) == *kind;
            if let Some(rival) = self.pick(scope, known, alike) {
                let other = inputs.len() as u32;
                inputs.push(("p0", kind.clone(), rival.origin));
                trigger.push([other].into_iter().chain(all.into_iter().skip(1)).collect());
            }
        }
        let name = format!("role{}", self.flow.spec.nodes.len());
        let node = self
            .flow
            .node_with_trigger(&name, &inputs, trigger, outputs);
        self.flow.place(node, scope);
        self.gated(node);
        node
    }

    fn joined(&mut self, scope: ScopeId, known: &mut Vec<Known>, kind: NodeKind) {
        let streams = !matches!(kind, NodeKind::AnyOf) || self.draw(2) == 0;
        let wanted = |one: &Known| {
            one.scope == scope
                && one.value_type.stream == streams
                && one.value_type.kind == ValueKind::Text
        };
        let (Some(one), Some(other)) = (
            self.pick(scope, known, wanted),
            self.pick(scope, known, wanted),
        ) else {
            return self.role(scope, known);
        };
        let value_type = required(&one.value_type);
        let outputs = match kind {
            NodeKind::Zip => vec![value_type.clone(); 2],
            _ => vec![value_type.clone()],
        };
        let inputs = [(value_type.clone(), one.origin), (value_type, other.origin)];
        let node = self.control("join", scope, kind, &inputs, &outputs);
        self.learn(node, scope, known);
    }

    fn control(
        &mut self,
        name: &str,
        scope: ScopeId,
        kind: NodeKind,
        inputs: &[(ValueType, Origin)],
        outputs: &[ValueType],
    ) -> NodeId {
        let name = format!("{name}{}", self.flow.spec.nodes.len());
        let node = self.flow.control(&name, scope, kind, inputs, outputs);
        self.gated(node);
        node
    }

    fn list_of_stream(&mut self, scope: ScopeId, known: &mut Vec<Known>) {
        let wanted = |one: &Known| {
            one.scope == scope && one.value_type.stream && one.value_type.kind == ValueKind::Text
        };
        let Some(stream) = self.pick(scope, known, wanted) else {
            return self.role(scope, known);
        };
        let node = self.listed(scope, stream.origin);
        self.learn(node, scope, known);
    }

    fn listed(&mut self, scope: ScopeId, stream: Origin) -> NodeId {
        let kind = NodeKind::Collect {
            scope: ScopeId::ROOT,
        };
        self.control("list", scope, kind, &[(texts(), stream)], &[list()])
    }

    /// First outputs of the nodes from `first` on, in this scope, of which nobody reads any.
    fn unread(&self, first: usize, scope: ScopeId) -> Vec<Origin> {
        let spec = &self.flow.spec;
        let read = |node: usize| {
            spec.edges.iter().any(|edge| match edge.from {
                Origin::Node { node: from, port } => {
                    let from_spec = &spec.nodes[from.index()];
                    from.index() == node && from_spec.output_scope(port) == from_spec.scope
                }
                Origin::Input { .. } => false,
            })
        };
        let unread = (first..spec.nodes.len())
            .filter(|node| spec.nodes[*node].scope == scope && !read(*node));
        let output = |node: usize| match spec.nodes[node].kind {
            NodeKind::Loop { .. } => out(NodeId(node as u32), 1),
            _ => out(NodeId(node as u32), 0),
        };
        unread.map(output).collect()
    }

    /// The same as plain values: streams are collected.
    fn unread_plain(&mut self, first: usize, scope: ScopeId) -> Vec<Origin> {
        let unread = self.unread(first, scope);
        let mut plain = Vec::new();
        for origin in unread {
            let value_type = self.flow.value_type(origin);
            plain.push(match value_type.stream {
                false => origin,
                true if value_type.kind == ValueKind::Text => out(self.listed(scope, origin), 0),
                true => {
                    let reads = [("p", value_type, origin)];
                    out(self.ending_keyed(scope, &reads), 0)
                }
            });
        }
        plain
    }

    fn ending_keyed(&mut self, scope: ScopeId, reads: &[(&str, ValueType, Origin)]) -> NodeId {
        let name = format!("ending{}", self.flow.spec.nodes.len());
        let reads: Vec<_> = reads
            .iter()
            .map(|(name, kind, origin)| (*name, required(kind), *origin))
            .collect();
        let node = self.flow.node(&name, &reads, &[text()]);
        self.flow.place(node, scope);
        node
    }
}

fn required(value_type: &ValueType) -> ValueType {
    ValueType {
        optional: false,
        ..value_type.clone()
    }
}

fn stream_of(value_type: &ValueType) -> ValueType {
    ValueType::stream(value_type.kind.clone())
}
