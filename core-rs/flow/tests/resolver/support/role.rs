//! What nodes do in tests. The same role twice: as a function of whole inputs (for the oracle), and frame by frame.

use std::collections::BTreeMap;

use omniflow_flow::{
    ActivationInput, Effect, InputValue, Key, NodeId, NodeSpec, PortIx, Resolver, ValueKind,
};

use super::{SEVERAL, Word, mix};

/// What an edge carries in all: nothing (CLOSED), one frame, or a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    Nothing,
    One(Word),
    Many(Vec<Word>),
}

/// Some nodes finish without reading their streams.
fn hasty(node: NodeId) -> bool {
    mix(&[node.0.into(), 77]).is_multiple_of(5)
}

fn left_out(spec: &NodeSpec, node: NodeId, port: usize) -> bool {
    spec.outputs[port].value_type.optional
        && mix(&[node.0.into(), port as u64, 5]).is_multiple_of(3)
}

fn frame(spec: &NodeSpec, seed: u64, port: usize, seq: u64, read: u64) -> Word {
    let word = mix(&[seed, port as u64, seq, read]);
    Word(match spec.outputs[port].value_type.kind {
        ValueKind::List(_) => word | SEVERAL,
        _ => word & !SEVERAL,
    })
}

/// The role as a function: what each output carries, given what the ports of an alternative carried.
pub fn outputs(spec: &NodeSpec, node: NodeId, inputs: &[(PortIx, Carried)]) -> Vec<Carried> {
    let seed = inputs.iter().fold(
        mix(&[node.0.into()]),
        |seed, (port, carried)| match carried {
            Carried::One(word) => mix(&[seed, port.0.into(), word.0]),
            Carried::Nothing => mix(&[seed, port.0.into(), 1]),
            Carried::Many(_) => seed,
        },
    );
    let read: Vec<&Vec<Word>> = inputs
        .iter()
        .filter_map(|(_, carried)| match carried {
            Carried::Many(words) if !hasty(node) => Some(words),
            _ => None,
        })
        .collect();
    let fold = read.iter().fold(seed, |sum, words| {
        words
            .iter()
            .fold(sum.wrapping_add(1), |sum, word| sum.wrapping_add(word.0))
    });
    let lead: Vec<u64> = match read.first() {
        Some(words) => words.iter().map(|word| word.0).collect(),
        None => (0..seed % 4).collect(),
    };
    let output = |port: usize| {
        if left_out(spec, node, port) {
            Carried::Nothing
        } else if spec.outputs[port].value_type.stream {
            let words: Vec<Word> = (0..)
                .zip(&lead)
                .map(|(seq, read)| frame(spec, seed, port, seq, *read))
                .collect();
            // An optional stream without a frame is closed by `finish`.
            if words.is_empty() && spec.outputs[port].value_type.optional {
                Carried::Nothing
            } else {
                Carried::Many(words)
            }
        } else {
            Carried::One(frame(spec, fold, port, 0, 0))
        }
    };
    (0..spec.outputs.len()).map(output).collect()
}

/// The same role as an activation: reads and emits frame by frame.
pub struct Running {
    node: NodeId,
    key: Key,
    seed: u64,
    fold: u64,
    /// Streams it reads that have not ended, with the next sequence number of each.
    open: BTreeMap<PortIx, u64>,
    /// The stream whose frames its own answer.
    lead: Option<PortIx>,
    emitted: u64,
    /// Frames that an earlier attempt had delivered: they are not said again.
    resumed: u64,
}

impl Running {
    pub fn start(
        resolver: &mut Resolver<Word>,
        node: NodeId,
        key: Key,
        inputs: &[ActivationInput<Word>],
        resumed: u64,
        effects: &mut Vec<Effect<Word>>,
    ) -> Self {
        let seed = inputs
            .iter()
            .fold(mix(&[node.0.into()]), |seed, input| match input.value {
                InputValue::Plain(word) => mix(&[seed, input.port.0.into(), word.0]),
                InputValue::None => mix(&[seed, input.port.0.into(), 1]),
                InputValue::Stream => seed,
            });
        let streams = inputs
            .iter()
            .filter(|input| !hasty(node) && input.value == InputValue::Stream);
        let open: BTreeMap<PortIx, u64> = streams.clone().map(|input| (input.port, 0)).collect();
        let lead = streams.clone().next().map(|input| input.port);
        let fold = seed.wrapping_add(open.len() as u64);
        let mut running = Self {
            node,
            key,
            seed,
            fold,
            open,
            lead,
            emitted: 0,
            resumed,
        };
        if lead.is_none() {
            (0..seed % 4).for_each(|read| running.answer(resolver, read, effects));
            running.finish(resolver, effects);
        }
        running
    }

    pub fn read(
        &mut self,
        resolver: &mut Resolver<Word>,
        port: PortIx,
        seq: u64,
        word: Word,
        effects: &mut Vec<Effect<Word>>,
    ) {
        let Some(next) = self.open.get_mut(&port) else {
            return;
        };
        assert_eq!(
            seq, *next,
            "frames out of order at {:?}, {port:?}",
            self.node
        );
        *next += 1;
        self.fold = self.fold.wrapping_add(word.0);
        if self.lead == Some(port) {
            self.answer(resolver, word.0, effects);
        }
    }

    pub fn read_end(
        &mut self,
        resolver: &mut Resolver<Word>,
        port: PortIx,
        count: u64,
        effects: &mut Vec<Effect<Word>>,
    ) {
        let Some(next) = self.open.remove(&port) else {
            return;
        };
        assert_eq!(
            count, next,
            "END before the last frame at {:?}, {port:?}",
            self.node
        );
        if self.open.is_empty() {
            self.finish(resolver, effects);
        }
    }

    fn answer(
        &mut self,
        resolver: &mut Resolver<Word>,
        read: u64,
        effects: &mut Vec<Effect<Word>>,
    ) {
        let graph = resolver.graph().clone();
        let spec = &graph.nodes()[self.node.index()];
        for port in 0..spec.outputs.len() {
            let said = self.emitted < self.resumed;
            let stream = spec.outputs[port].value_type.stream;
            if stream && !said && !left_out(spec, self.node, port) {
                let word = frame(spec, self.seed, port, self.emitted, read);
                resolver
                    .emit(self.node, &self.key, PortIx(port as u32), word, effects)
                    .unwrap();
            }
        }
        self.emitted += 1;
    }

    fn finish(&mut self, resolver: &mut Resolver<Word>, effects: &mut Vec<Effect<Word>>) {
        let graph = resolver.graph().clone();
        let spec = &graph.nodes()[self.node.index()];
        for port in 0..spec.outputs.len() {
            if !spec.outputs[port].value_type.stream && !left_out(spec, self.node, port) {
                let word = frame(spec, self.fold, port, 0, 0);
                resolver
                    .emit(self.node, &self.key, PortIx(port as u32), word, effects)
                    .unwrap();
            }
        }
        resolver.finish(self.node, &self.key, effects).unwrap();
    }
}
