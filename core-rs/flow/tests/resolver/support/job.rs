//! One job over several places: resolvers, running roles, and a network that reorders and doubles what it carries.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use omniflow_flow::{
    Arrival, Destination, EdgeId, Effect, Graph, Item, Key, NodeId, Origin, PortIx, Resolver,
};

use super::role::{Carried, Running};
use super::{Word, mix};

/// What was seen of a job from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Which alternative each node fired, at its last attempt.
    pub fired: BTreeMap<NodeId, usize>,
    /// Nodes closed without an activation.
    pub closed: Vec<NodeId>,
    /// What each result carried.
    pub results: BTreeMap<PortIx, Carried>,
    pub done: usize,
}

enum Event {
    Host(NodeId, u32),
    Item(EdgeId, u32, Item<Word>),
    Unwanted(EdgeId),
    /// The activation of this node reads the next thing in its inbox.
    Read(NodeId),
}

/// See the module. Place 0 is the scheduler's: it has the inputs and results, and maybe nodes.
pub struct Job {
    graph: Arc<Graph>,
    places: Vec<Resolver<Word>>,
    place_of: Vec<usize>,
    epochs: Vec<u32>,
    pending: Vec<Event>,
    retained: Vec<Vec<(u32, Item<Word>)>>,
    running: BTreeMap<NodeId, (Running, VecDeque<Effect<Word>>)>,
    ready: BTreeMap<NodeId, VecDeque<Effect<Word>>>,
    random: u64,
    doubles: bool,
    pub seen: Seen,
}

impl Job {
    /// `place_of`: where each node runs.
    pub fn new(graph: Arc<Graph>, place_of: Vec<usize>, seed: u64) -> Self {
        let count = place_of.iter().max().map_or(1, |last| last + 1);
        let mut places = vec![Resolver::with_results(graph.clone())];
        places.extend((1..count).map(|_| Resolver::new(graph.clone())));
        let pending = (0..place_of.len())
            .map(|node| Event::Host(NodeId(node as u32), 1))
            .collect();
        Self {
            epochs: vec![1; place_of.len()],
            retained: vec![Vec::new(); graph.spec().edges.len()],
            graph,
            places,
            place_of,
            pending,
            running: BTreeMap::new(),
            ready: BTreeMap::new(),
            random: seed,
            doubles: true,
            seen: Seen::default(),
        }
    }

    pub fn feed(&mut self, inputs: &[Carried]) {
        let mut effects = Vec::new();
        for (port, carried) in inputs.iter().enumerate() {
            let port = PortIx(port as u32);
            match carried {
                Carried::Nothing => self.places[0].close_input(port, &mut effects).unwrap(),
                Carried::One(word) => self.places[0]
                    .feed_input(port, *word, &mut effects)
                    .unwrap(),
                Carried::Many(words) => {
                    words.iter().for_each(|word| {
                        self.places[0]
                            .feed_input(port, *word, &mut effects)
                            .unwrap()
                    });
                    self.places[0].end_input(port, &mut effects).unwrap();
                }
            }
        }
        self.carry_out(effects);
    }

    /// A new attempt of a node, at another place: what it had read is sent again, what it had sent may come late.
    pub fn restart(&mut self, node: NodeId) {
        let old = self.place_of[node.index()];
        self.places[old].unhost(node, &Key::ROOT);
        self.running.remove(&node);
        self.ready.remove(&node);
        self.seen.fired.remove(&node);
        self.seen.closed.retain(|closed| *closed != node);
        self.place_of[node.index()] = (old + 1) % self.places.len();
        self.epochs[node.index()] += 1;
        let epoch = self.epochs[node.index()];
        self.pending
            .retain(|event| !matches!(event, Event::Host(other, _) if *other == node));
        self.pending.push(Event::Host(node, epoch));
        for (index, edge) in self.graph.spec().edges.iter().enumerate() {
            if matches!(edge.from, Origin::Node { node: from, .. } if from == node) {
                self.retained[index].clear();
            }
            if matches!(edge.to, Destination::Node { node: to, .. } if to == node) {
                let edge = EdgeId(index as u32);
                let again = self.retained[index]
                    .iter()
                    .map(|(epoch, item)| Event::Item(edge, *epoch, item.clone()));
                self.pending.extend(again);
            }
        }
        for place in &mut self.places {
            place.producer_restarted(node, &Key::ROOT, epoch);
        }
    }

    /// One random step; false when nothing is left to happen.
    pub fn step(&mut self) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        let chosen = self.choose(self.pending.len());
        match self.pending.swap_remove(chosen) {
            Event::Host(node, epoch) => self.host(node, epoch),
            Event::Item(edge, epoch, item) => self.arrive(edge, epoch, item),
            Event::Unwanted(edge) => self.tell_producer(edge),
            Event::Read(node) => self.read(node),
        }
        self.places.iter().for_each(|place| place.check().unwrap());
        true
    }

    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Everything has ended: nothing is held anywhere.
    pub fn assert_over(&self) {
        assert_eq!(self.seen.done, 1, "the job must end, once: {:?}", self.seen);
        assert!(self.places[0].done());
        for (index, place) in self.places.iter().enumerate() {
            assert!(
                place.is_empty(),
                "place {index} holds {:?}",
                place.footprint()
            );
        }
        assert!(
            self.running.is_empty() && self.ready.is_empty(),
            "an activation never ended"
        );
    }

    pub fn choose(&mut self, among: usize) -> usize {
        self.random = mix(&[self.random]);
        (self.random % among as u64) as usize
    }

    fn host(&mut self, node: NodeId, epoch: u32) {
        let mut effects = Vec::new();
        self.places[self.place_of[node.index()]]
            .host(node, &Key::ROOT, epoch, &mut effects)
            .unwrap();
        self.carry_out(effects);
    }

    fn arrive(&mut self, edge: EdgeId, epoch: u32, item: Item<Word>) {
        if self.doubles && self.choose(6) == 0 {
            self.pending.push(Event::Item(edge, epoch, item.clone()));
        }
        let place = match self.graph.edge(edge).unwrap().to {
            Destination::Node { node, .. } => self.place_of[node.index()],
            Destination::Result { .. } => 0,
        };
        let mut effects = Vec::new();
        let arrival = self.places[place]
            .accept(edge, &Key::ROOT, epoch, item, &mut effects)
            .unwrap();
        let may_act = match arrival {
            Arrival::Taken => true,
            // For a node that is not bound yet, the scheduler acts: it closes what is dead (rule 7).
            Arrival::Parked => place == 0 && effects.iter().all(closes),
            Arrival::Duplicate | Arrival::Stale | Arrival::Unwanted => false,
        };
        assert!(
            may_act || effects.is_empty(),
            "{arrival:?} had effects: {effects:?}"
        );
        self.carry_out(effects);
    }

    fn tell_producer(&mut self, edge: EdgeId) {
        let place = match self.graph.edge(edge).unwrap().from {
            Origin::Node { node, .. } => self.place_of[node.index()],
            Origin::Input { .. } => 0,
        };
        let mut effects = Vec::new();
        self.places[place]
            .unwanted(edge, &Key::ROOT, &mut effects)
            .unwrap();
        self.carry_out(effects);
    }

    fn read(&mut self, node: NodeId) {
        let resolver = &mut self.places[self.place_of[node.index()]];
        let mut effects = Vec::new();
        if let Some(mut inbox) = self.ready.remove(&node) {
            let Some(Effect::Activate { key, inputs, .. }) = inbox.pop_front() else {
                panic!("no Activate came first")
            };
            let running = Running::start(resolver, node, key, &inputs, 0, &mut effects);
            self.running.insert(node, (running, inbox));
        } else if let Some((running, inbox)) = self.running.get_mut(&node) {
            match inbox.pop_front() {
                Some(Effect::Deliver {
                    port, seq, payload, ..
                }) => running.read(resolver, port, seq, payload, &mut effects),
                Some(Effect::StreamEnd { port, count, .. }) => {
                    running.read_end(resolver, port, count, &mut effects)
                }
                _ => {}
            }
        }
        let over = resolver.emit(node, &Key::ROOT, PortIx(u32::MAX), Word(0), &mut Vec::new());
        if matches!(over, Err(omniflow_flow::ResolverError::NotRunning { .. })) {
            self.running.remove(&node);
        }
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect<Word>>) {
        for effect in effects {
            match effect {
                Effect::Activate {
                    node,
                    epoch,
                    alternative,
                    ..
                } => {
                    assert_eq!(epoch, self.epochs[node.index()]);
                    assert!(
                        self.seen.fired.insert(node, alternative).is_none(),
                        "{node:?} fired twice"
                    );
                    self.ready.insert(node, VecDeque::from([effect]));
                    self.pending.push(Event::Read(node));
                }
                Effect::Deliver { node, .. } | Effect::StreamEnd { node, .. } => {
                    let inbox = self
                        .ready
                        .get_mut(&node)
                        .or(self.running.get_mut(&node).map(|(_, inbox)| inbox));
                    inbox
                        .expect("frames only for an activation that has fired")
                        .push_back(effect);
                    self.pending.push(Event::Read(node));
                }
                Effect::Send {
                    edge, epoch, item, ..
                } => {
                    self.retained[edge.index()].push((epoch, item.clone()));
                    self.pending.push(Event::Item(edge, epoch, item));
                }
                Effect::Unwanted { edge, .. } => self.pending.push(Event::Unwanted(edge)),
                Effect::Unneeded { .. } => {}
                Effect::NodeClosed { node, .. } => self.seen.closed.push(node),
                Effect::Result { port, item } => self.result(port, item),
                Effect::Contradiction { edge, seq, .. } => {
                    panic!("{edge:?} contradicted itself at {seq}")
                }
                Effect::Done => self.seen.done += 1,
                Effect::Wanted { .. }
                | Effect::ScopeLeft { .. }
                | Effect::Cancelled { .. }
                | Effect::Failed { .. } => {
                    panic!("{effect:?} in a flow of roles only")
                }
            }
        }
    }

    fn result(&mut self, port: PortIx, item: Item<Word>) {
        let stream = self.graph.results()[port.index()].value_type.stream;
        match item {
            Item::Closed => assert!(self.seen.results.insert(port, Carried::Nothing).is_none()),
            Item::Frame { payload, .. } if !stream => {
                assert!(
                    self.seen
                        .results
                        .insert(port, Carried::One(payload))
                        .is_none()
                );
            }
            Item::Frame { seq, payload } => {
                let Carried::Many(words) = self
                    .seen
                    .results
                    .entry(port)
                    .or_insert(Carried::Many(vec![]))
                else {
                    panic!("a frame of a closed result");
                };
                assert_eq!(seq, words.len() as u64, "result frames out of order");
                words.push(payload);
            }
            Item::End { count } => {
                let carried = self
                    .seen
                    .results
                    .entry(port)
                    .or_insert(Carried::Many(vec![]));
                assert!(matches!(carried, Carried::Many(words) if words.len() as u64 == count));
            }
        }
    }
}

/// What closing a node asks for, and nothing else.
fn closes(effect: &Effect<Word>) -> bool {
    matches!(
        effect,
        Effect::NodeClosed { .. }
            | Effect::Unwanted { .. }
            | Effect::Send {
                item: Item::Closed,
                ..
            }
    )
}
