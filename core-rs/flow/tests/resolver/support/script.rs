//! One job at one place, its roles told what to answer: what comes of it can be written down.

use std::collections::BTreeMap;
use std::sync::Arc;

use omniflow_flow::{
    Effect, Fault, Graph, InputValue, Item, Key, NodeId, PortIx, Reader, Resolver,
};

use super::Word;
use super::role::Carried;

/// What a role answers: one word on each output, or nothing.
pub type Answer = Vec<Option<Word>>;

/// See the module.
pub struct Script {
    pub resolver: Resolver<Word>,
    pub results: BTreeMap<PortIx, Vec<Item<Word>>>,
    /// Activations in order, with what they read.
    pub fired: Vec<(NodeId, Key, Vec<InputValue<Word>>)>,
    pub closed: Vec<(NodeId, Key)>,
    pub cancelled: Vec<(NodeId, Key)>,
    pub failed: Option<(NodeId, Key, Fault)>,
    pub contradictions: Vec<(Key, u64)>,
    pub done: bool,
}

impl Script {
    pub fn new(graph: &Arc<Graph>) -> Self {
        Self {
            resolver: Resolver::with_results(graph.clone()),
            results: BTreeMap::new(),
            fired: Vec::new(),
            closed: Vec::new(),
            cancelled: Vec::new(),
            failed: None,
            contradictions: Vec::new(),
            done: false,
        }
    }

    /// A whole job: `role` answers for each activation, at once.
    pub fn play(
        graph: &Arc<Graph>,
        inputs: &[Carried],
        mut role: impl FnMut(NodeId, &Key) -> Answer,
    ) -> Self {
        let mut script = Self::new(graph);
        for (port, carried) in (0..).map(PortIx).zip(inputs) {
            script.feed(port, carried);
        }
        let mut answered = 0;
        while let Some((node, key, _)) = script.fired.get(answered).cloned() {
            answered += 1;
            let answer = role(node, &key);
            script.answer(node, &key, &answer);
        }
        script.resolver.check().unwrap();
        script
    }

    pub fn feed(&mut self, port: PortIx, carried: &Carried) {
        let mut effects = Vec::new();
        match carried {
            Carried::Nothing => self.resolver.close_input(port, &mut effects).unwrap(),
            Carried::One(word) => self.resolver.feed_input(port, *word, &mut effects).unwrap(),
            Carried::Many(words) => {
                for word in words {
                    self.resolver.feed_input(port, *word, &mut effects).unwrap();
                }
                self.resolver.end_input(port, &mut effects).unwrap();
            }
        }
        self.carry_out(effects);
    }

    pub fn answer(&mut self, node: NodeId, key: &Key, answer: &[Option<Word>]) {
        let mut effects = Vec::new();
        for (port, word) in (0..).map(PortIx).zip(answer) {
            if let Some(word) = word {
                self.resolver
                    .emit(node, key, port, *word, &mut effects)
                    .unwrap();
            }
        }
        self.resolver.finish(node, key, &mut effects).unwrap();
        self.carry_out(effects);
    }

    /// Hosts what is sent to before it gets it.
    pub fn carry_out(&mut self, mut effects: Vec<Effect<Word>>) {
        while !effects.is_empty() {
            let mut next = Vec::new();
            for effect in effects {
                self.carry_out_one(effect, &mut next);
            }
            effects = next;
        }
    }

    fn carry_out_one(&mut self, effect: Effect<Word>, next: &mut Vec<Effect<Word>>) {
        match effect {
            Effect::Send {
                edge,
                key,
                epoch,
                item,
            } => {
                let reader = self.resolver.graph().reader(edge, &key).unwrap();
                if let Reader::One(node, bind) = &reader
                    && self.resolver.hosted(*node, bind).is_none()
                {
                    self.resolver.host(*node, bind, 1, next).unwrap();
                }
                self.resolver.accept(edge, &key, epoch, item, next).unwrap();
            }
            Effect::Activate {
                node, key, inputs, ..
            } => {
                let inputs = inputs.into_iter().map(|input| input.value).collect();
                self.fired.push((node, key, inputs));
            }
            Effect::ScopeLeft { scope, key, by } => {
                self.resolver.scope_left(scope, &key, by, next);
            }
            Effect::Unwanted { edge, key } => self.resolver.unwanted(edge, &key, next).unwrap(),
            Effect::NodeClosed { node, key } => self.closed.push((node, key)),
            Effect::Cancelled { node, key } => self.cancelled.push((node, key)),
            Effect::Failed { node, key, fault } => self.failed = Some((node, key, fault)),
            Effect::Result { port, item } => self.results.entry(port).or_default().push(item),
            Effect::Contradiction { key, seq, .. } => self.contradictions.push((key, seq)),
            Effect::Done => self.done = true,
            Effect::Wanted { .. }
            | Effect::Unneeded { .. }
            | Effect::Deliver { .. }
            | Effect::StreamEnd { .. } => {}
        }
    }

    /// The words of a result's frames.
    pub fn words(&self, port: u32) -> Vec<u64> {
        let items = self.results.get(&PortIx(port)).into_iter().flatten();
        items
            .filter_map(|item| match item {
                Item::Frame { payload, .. } => Some(payload.0),
                Item::End { .. } | Item::Closed => None,
            })
            .collect()
    }

    pub fn assert_over(&self) {
        assert!(self.done, "the job must end");
        let holds = (self.resolver.footprint(), self.resolver.open_runs());
        assert!(self.resolver.is_empty(), "{holds:?}");
    }
}
