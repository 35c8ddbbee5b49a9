//! Resumable nodes: rule 12. Their attempts never say the same twice, and yet nobody hears two stories.

use std::sync::Arc;

use omniflow_flow::{
    Delivered, EdgeId, Effect, Graph, Item, Key, NodeId, Payload, PortIx, Resolver, ScopeId,
};
use proptest::prelude::*;

use crate::support::build::{FlowBuilder, list, out, text, texts};
use crate::support::{cases, mix};

const TELL: NodeId = NodeId(0);
const READ: NodeId = NodeId(1);
const ASK: EdgeId = EdgeId(0);
const ROOT: Key = Key::ROOT;

/// A frame: what is said, and the state that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    word: u64,
    state: u64,
}

impl Payload for Said {
    fn digest(&self) -> u64 {
        mix(&[self.word, self.state])
    }

    fn size(&self) -> usize {
        16
    }

    fn list(items: Vec<Self>) -> Self {
        let state = items.iter().map(|item| item.state).sum();
        let words: Vec<u64> = items.iter().map(|item| item.word).collect();
        Self {
            word: mix(&words),
            state,
        }
    }

    fn truth(&self) -> Option<bool> {
        None
    }

    fn names(&self) -> Option<Vec<String>> {
        None
    }

    fn shown(&self) -> Self {
        Self {
            word: self.word,
            state: 0,
        }
    }
}

/// `words = tell(ask); read(words)`, and the words are a result, too, as they are and all at once (`collect`).
fn told() -> Arc<Graph> {
    let mut flow = FlowBuilder::new();
    let ask = flow.input("ask", text());
    let tell = flow.node("tell", &[("ask", text(), ask)], &[texts()]);
    flow.spec.nodes[tell.index()].options.resumable = true;
    let read = flow.node("read", &[("words", texts(), out(tell, 0))], &[text()]);
    let kind = omniflow_flow::NodeKind::Collect {
        scope: ScopeId::ROOT,
    };
    let words = [(texts(), out(tell, 0))];
    let all = flow.control("all", ScopeId::ROOT, kind, &words, &[list()]);
    flow.result("words", texts(), &[out(tell, 0)]);
    flow.result("read", text(), &[out(read, 0)]);
    flow.result("all", list(), &[out(all, 0)]);
    flow.graph()
}

fn frame(seq: u64, word: u64) -> Item<Said> {
    let state = seq + 1;
    Item::Frame {
        seq,
        payload: Said { word, state },
    }
}

fn words(delivered: &Delivered<Said>) -> Vec<(u64, u64)> {
    let frames = delivered.frames.iter();
    frames.map(|said| (said.word, said.state)).collect()
}

/// The edge from `tell` to a node's first port, or to the first result.
fn edges(graph: &Graph) -> (EdgeId, EdgeId) {
    let read = graph.edge_into(READ, PortIx(0)).unwrap();
    (read, graph.edges_into_result(PortIx(0))[0])
}

#[test]
fn rule_12_readers_places_keep_what_was_delivered_with_its_state_and_show_none_of_that() {
    let graph = told();
    let (to_read, to_result) = edges(&graph);
    let mut reader: Resolver<Said> = Resolver::new(graph.clone());
    let mut scheduler: Resolver<Said> = Resolver::with_results(graph);
    let mut effects = Vec::new();
    reader.host(READ, &ROOT, 1, &mut effects).unwrap();
    for (place, edge) in [(&mut reader, to_read), (&mut scheduler, to_result)] {
        for (seq, word) in [(0, 7), (2, 9), (1, 8), (4, 11)] {
            let taken = place.accept(edge, &ROOT, 1, frame(seq, word), &mut effects);
            taken.unwrap();
        }
        place.check().unwrap();
        let delivered = place.delivered(TELL, &ROOT);
        assert_eq!(words(&delivered), [(7, 1), (8, 2), (9, 3)], "not the fifth");
        assert!(!delivered.ended);
    }
    let seen = effects.iter().filter_map(|effect| match effect {
        Effect::Deliver { payload, .. } => Some(*payload),
        Effect::Result {
            item: Item::Frame { payload, .. },
            ..
        } => Some(*payload),
        _ => None,
    });
    let seen: Vec<Said> = seen.collect();
    assert_eq!(seen.len(), 6);
    assert!(seen.iter().all(|said| said.state == 0));
    effects.clear();
    for place in [&mut reader, &mut scheduler] {
        place.producer_restarted(TELL, &ROOT, 2);
        assert_eq!(place.delivered(TELL, &ROOT).frames.len(), 3);
    }
    reader
        .emit(
            READ,
            &ROOT,
            PortIx(0),
            Said { word: 1, state: 0 },
            &mut effects,
        )
        .unwrap();
    reader.finish(READ, &ROOT, &mut effects).unwrap();
    assert!(
        reader.is_empty(),
        "it is over, and others may still need it"
    );
    assert_eq!(reader.delivered(TELL, &ROOT).frames.len(), 3);
    reader.unhost(READ, &ROOT);
    assert!(reader.delivered(TELL, &ROOT).is_empty());
    assert!(scheduler.delivered(READ, &ROOT).is_empty(), "not resumable");
}

#[test]
fn rule_12_a_new_attempt_sends_what_was_delivered_to_all_and_goes_on_after_it() {
    let graph = told();
    let mut teller: Resolver<Said> = Resolver::new(graph.clone());
    let mut effects = Vec::new();
    teller.host(TELL, &ROOT, 2, &mut effects).unwrap();
    let ask = Said { word: 1, state: 0 };
    let ask = Item::Frame {
        seq: 0,
        payload: ask,
    };
    teller.accept(ASK, &ROOT, 0, ask, &mut effects).unwrap();
    assert!(matches!(effects[..], [Effect::Activate { epoch: 2, .. }]));
    effects.clear();
    let said = |seq: u64| Said {
        word: 10 + seq,
        state: seq + 1,
    };
    let delivered = Delivered {
        frames: vec![said(0), said(1)],
        ended: false,
    };
    teller
        .resume(TELL, &ROOT, &delivered, &mut effects)
        .unwrap();
    teller
        .emit(TELL, &ROOT, PortIx(0), said(2), &mut effects)
        .unwrap();
    teller.finish(TELL, &ROOT, &mut effects).unwrap();
    for edge in graph.edges_from(out(TELL, 0)) {
        let sent = effects.iter().filter_map(|effect| match effect {
            Effect::Send {
                edge: on,
                epoch: 2,
                item,
                ..
            } if on == edge => Some(item.clone()),
            _ => None,
        });
        let frames = (0..3).map(|seq| frame(seq, 10 + seq));
        let whole: Vec<_> = frames.chain([Item::End { count: 3 }]).collect();
        assert_eq!(sent.collect::<Vec<_>>(), whole, "{edge:?}");
    }
}

#[test]
fn rule_12_what_runs_in_a_loop_or_is_fanned_out_beside_it_does_not_resume() {
    let resumes = |build: fn(&mut FlowBuilder) -> NodeId| {
        let mut flow = FlowBuilder::new();
        let node = build(&mut flow);
        flow.spec.nodes[node.index()].options.resumable = true;
        flow.graph().resumes(node)
    };
    assert!(resumes(|flow| {
        let ask = flow.input("ask", text());
        let tell = flow.node("tell", &[("ask", text(), ask)], &[texts()]);
        flow.result("words", texts(), &[out(tell, 0)]);
        tell
    }));
    // One value, or more than one output.
    for outputs in [&[text()][..], &[texts(), texts()]] {
        let mut flow = FlowBuilder::new();
        let ask = flow.input("ask", text());
        let tell = flow.node("tell", &[("ask", text(), ask)], outputs);
        for (port, kind) in (0..).zip(outputs) {
            flow.result(&format!("r{port}"), kind.clone(), &[out(tell, port)]);
        }
        flow.spec.nodes[tell.index()].options.resumable = true;
        assert!(!flow.graph().resumes(tell));
    }
    assert!(!resumes(|flow| {
        let fan = crate::support::scoped::fan(false);
        *flow = fan;
        let ask = flow.input("ask", text());
        let tell = flow.node("tell", &[("ask", text(), ask)], &[texts()]);
        // The `each` of the fan-out reads what it says, at its side.
        for edge in &mut flow.spec.edges {
            let to = omniflow_flow::Destination::Node {
                node: NodeId(0),
                port: PortIx(0),
            };
            if edge.to == to {
                edge.from = out(tell, 0);
            }
        }
        tell
    }));
}

/// A job whose teller is lost again and again, on a network that reorders and doubles. Every attempt has words of its own.
struct World {
    graph: Arc<Graph>,
    random: u64,
    epoch: u32,
    teller: Resolver<Said>,
    /// What the attempt has said, with what it goes on from; none: it is over.
    said: Option<u64>,
    generated: u64,
    /// The scheduler, and the place of `read`.
    places: [Resolver<Said>; 2],
    network: Vec<(usize, EdgeId, u32, Item<Said>)>,
    heard: [Vec<u64>; 2],
    counts: [Option<u64>; 2],
    all: Option<u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let graph = told();
        let mut reader = Resolver::new(graph.clone());
        reader.host(READ, &ROOT, 1, &mut Vec::new()).unwrap();
        let mut world = Self {
            random: seed,
            epoch: 0,
            teller: Resolver::new(graph.clone()),
            said: None,
            generated: 0,
            places: [Resolver::with_results(graph.clone()), reader],
            network: Vec::new(),
            heard: [Vec::new(), Vec::new()],
            counts: [None, None],
            all: None,
            graph,
        };
        world.begin(Delivered::default());
        world
    }

    fn choose(&mut self, among: usize) -> usize {
        self.random = mix(&[self.random]);
        (self.random % among as u64) as usize
    }

    fn begin(&mut self, delivered: Delivered<Said>) {
        self.epoch += 1;
        self.teller = Resolver::new(self.graph.clone());
        let mut effects = Vec::new();
        self.teller
            .host(TELL, &ROOT, self.epoch, &mut effects)
            .unwrap();
        let ask = Said { word: 1, state: 0 };
        let ask = Item::Frame {
            seq: 0,
            payload: ask,
        };
        self.teller
            .accept(ASK, &ROOT, 0, ask, &mut effects)
            .unwrap();
        effects.clear();
        let states = delivered.frames.iter().map(|said| said.state);
        assert!(states.eq(1..=delivered.frames.len() as u64));
        self.teller
            .resume(TELL, &ROOT, &delivered, &mut effects)
            .unwrap();
        self.said = Some(delivered.frames.len() as u64).filter(|_| !delivered.ended);
        if delivered.ended {
            self.teller.finish(TELL, &ROOT, &mut effects).unwrap();
        }
        self.send(effects);
    }

    fn send(&mut self, effects: Vec<Effect<Said>>) {
        for effect in effects {
            let Effect::Send {
                edge, epoch, item, ..
            } = effect
            else {
                continue;
            };
            let place = usize::from(edge == edges(&self.graph).0);
            self.network.push((place, edge, epoch, item));
        }
    }

    fn lose(&mut self) {
        let mut delivered = Delivered::default();
        for place in &mut self.places {
            place.producer_restarted(TELL, &ROOT, self.epoch + 1);
            delivered = delivered.longer(place.delivered(TELL, &ROOT));
        }
        let most = self.heard.iter().map(Vec::len).max().unwrap();
        assert!(
            delivered.frames.len() >= most,
            "nothing that was heard is lost"
        );
        self.begin(delivered);
    }

    fn tell(&mut self) {
        let Some(said) = self.said else { return };
        let mut effects = Vec::new();
        if said >= 6 && self.choose(4) == 0 {
            self.said = None;
            self.teller.finish(TELL, &ROOT, &mut effects).unwrap();
        } else {
            self.said = Some(said + 1);
            self.generated += 1;
            let frame = Said {
                word: mix(&[said, self.epoch.into()]),
                state: said + 1,
            };
            self.teller
                .emit(TELL, &ROOT, PortIx(0), frame, &mut effects)
                .unwrap();
        }
        self.send(effects);
    }

    fn arrive(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let chosen = self.choose(self.network.len());
        let (place, edge, epoch, item) = match self.choose(4) {
            0 => self.network[chosen].clone(),
            _ => self.network.swap_remove(chosen),
        };
        let mut effects = Vec::new();
        let taken = self.places[place].accept(edge, &ROOT, epoch, item, &mut effects);
        taken.unwrap();
        self.places[place].check().unwrap();
        for effect in effects {
            match effect {
                Effect::Deliver { seq, payload, .. } => self.hear(1, seq, payload),
                Effect::StreamEnd { count, .. } => self.counts[1] = Some(count),
                Effect::Result {
                    port: PortIx(0),
                    item,
                } => match item {
                    Item::Frame { seq, payload } => self.hear(0, seq, payload),
                    Item::End { count } => self.counts[0] = Some(count),
                    Item::Closed => panic!("words are closed"),
                },
                Effect::Result {
                    port: PortIx(2),
                    item: Item::Frame { payload, .. },
                } => {
                    assert_eq!(payload.state, 0);
                    self.all = Some(payload.word);
                }
                Effect::Send {
                    edge, epoch, item, ..
                } => self.network.push((0, edge, epoch, item)),
                Effect::Contradiction { seq, .. } => panic!("two stories at {seq}"),
                _ => {}
            }
        }
    }

    fn hear(&mut self, place: usize, seq: u64, said: Said) {
        assert_eq!(said.state, 0, "states are nobody's to see");
        assert_eq!(seq, self.heard[place].len() as u64);
        self.heard[place].push(said.word);
    }

    fn is_over(&self) -> bool {
        self.counts.iter().all(Option::is_some) && self.all.is_some()
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn rule_12_readers_of_a_resumable_node_hear_one_story_whoever_tells_it(
        seed in any::<u64>(), losses in 0usize..6,
    ) {
        let mut world = World::new(seed);
        let mut steps: Vec<usize> = (0..losses).map(|_| world.choose(60)).collect();
        steps.sort_unstable();
        for step in 0..10_000 {
            if world.is_over() {
                break;
            }
            while steps.first() == Some(&step) {
                steps.remove(0);
                world.lose();
            }
            match world.choose(3) {
                0 => world.tell(),
                _ => world.arrive(),
            }
        }
        prop_assert!(world.is_over());
        let [scheduler, reader] = &world.heard;
        prop_assert_eq!(scheduler, reader);
        prop_assert_eq!(world.counts, [Some(reader.len() as u64); 2]);
        prop_assert_eq!(world.all, Some(mix(reader)));
    }
}
