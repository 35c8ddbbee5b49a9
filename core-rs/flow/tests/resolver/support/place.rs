//! One resolver and what it asked for, the words for effects, and the small flows that the rules are shown on.

use std::sync::Arc;

use omniflow_flow::{
    ActivationInput, Arrival, EdgeId, Effect, Graph, InputValue, Item, Key, NodeId, PortIx,
    Resolver,
};

use super::Word;
use super::build::{FlowBuilder, out, text, texts};

pub const NODE: NodeId = NodeId(0);
pub const ROOT: Key = Key::ROOT;

/// A resolver that hosts node 0, with what its calls asked for.
pub struct Place {
    pub resolver: Resolver<Word>,
    pub effects: Vec<Effect<Word>>,
}

impl Place {
    pub fn hosting(graph: &Arc<Graph>, nodes: &[NodeId]) -> Self {
        let mut place = Self {
            resolver: Resolver::new(graph.clone()),
            effects: Vec::new(),
        };
        for node in nodes {
            place
                .resolver
                .host(*node, &ROOT, 1, &mut place.effects)
                .unwrap();
        }
        place
    }

    pub fn results(graph: &Arc<Graph>) -> Self {
        Self {
            resolver: Resolver::with_results(graph.clone()),
            effects: Vec::new(),
        }
    }

    pub fn accept(&mut self, edge: u32, epoch: u32, item: Item<Word>) -> Arrival {
        let arrival = self
            .resolver
            .accept(EdgeId(edge), &ROOT, epoch, item, &mut self.effects)
            .unwrap();
        self.resolver.check().unwrap();
        arrival
    }

    pub fn frame(&mut self, edge: u32, seq: u64, word: u64) -> Arrival {
        self.accept(
            edge,
            1,
            Item::Frame {
                seq,
                payload: Word(word),
            },
        )
    }

    pub fn end(&mut self, edge: u32, count: u64) -> Arrival {
        self.accept(edge, 1, Item::End { count })
    }

    pub fn close(&mut self, edge: u32) -> Arrival {
        self.accept(edge, 1, Item::Closed)
    }

    pub fn finish(&mut self, node: NodeId) {
        self.resolver
            .finish(node, &ROOT, &mut self.effects)
            .unwrap();
    }

    pub fn took(&mut self) -> Vec<Effect<Word>> {
        std::mem::take(&mut self.effects)
    }
}

pub fn activate(alternative: usize, inputs: &[(u32, InputValue<Word>)]) -> Effect<Word> {
    let input = |(port, value): &(u32, InputValue<Word>)| ActivationInput {
        port: PortIx(*port),
        value: value.clone(),
    };
    let inputs = inputs.iter().map(input).collect();
    Effect::Activate {
        node: NODE,
        key: ROOT,
        epoch: 1,
        alternative,
        inputs,
    }
}

pub fn deliver(port: u32, seq: u64, word: u64) -> Effect<Word> {
    Effect::Deliver {
        node: NODE,
        key: ROOT,
        port: PortIx(port),
        seq,
        payload: Word(word),
    }
}

pub fn stream_end(port: u32, count: u64) -> Effect<Word> {
    Effect::StreamEnd {
        node: NODE,
        key: ROOT,
        port: PortIx(port),
        count,
    }
}

pub fn send(edge: u32, item: Item<Word>) -> Effect<Word> {
    Effect::Send {
        edge: EdgeId(edge),
        key: ROOT,
        epoch: 1,
        item,
    }
}

pub fn unwanted(edge: u32) -> Effect<Word> {
    Effect::Unwanted {
        edge: EdgeId(edge),
        key: ROOT,
    }
}

pub fn result(port: u32, item: Item<Word>) -> Effect<Word> {
    Effect::Result {
        port: PortIx(port),
        item,
    }
}

pub fn plain(word: u64) -> InputValue<Word> {
    InputValue::Plain(Word(word))
}

pub fn first(word: u64) -> Item<Word> {
    Item::Frame {
        seq: 0,
        payload: Word(word),
    }
}

/// Two plain inputs, both needed.
pub fn join() -> Arc<Graph> {
    let mut flow = FlowBuilder::new();
    let (a, b) = (flow.input("a", text()), flow.input("b", text()));
    let node = flow.node("join", &[("a", text(), a), ("b", text(), b)], &[text()]);
    flow.result("r", text(), &[out(node, 0)]);
    flow.graph()
}

/// `any_of(a, b)`, a stream each, and `c`, which both alternatives need.
pub fn choice() -> Arc<Graph> {
    let mut flow = FlowBuilder::new();
    let (a, b, c) = (
        flow.input("a", texts()),
        flow.input("b", texts()),
        flow.input("c", text()),
    );
    let inputs = [("x", texts(), a), ("x", texts(), b), ("c", text(), c)];
    let node = flow.node_with_trigger("choice", &inputs, vec![vec![0, 2], vec![1, 2]], &[text()]);
    flow.result("r", text(), &[out(node, 0)]);
    flow.graph()
}

/// One optional plain input and one stream.
pub fn optional() -> Arc<Graph> {
    let mut flow = FlowBuilder::new();
    let (image, words) = (
        flow.input("image", text().or_none()),
        flow.input("words", texts()),
    );
    let inputs = [
        ("image", text().or_none(), image),
        ("words", texts(), words),
    ];
    let node = flow.node("optional", &inputs, &[texts(), text().or_none()]);
    flow.result("r", texts(), &[out(node, 0)]);
    flow.result("s", text().or_none(), &[out(node, 1)]);
    flow.graph()
}
