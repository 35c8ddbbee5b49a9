//! One job over several places, its nodes bound by key while it runs: resolvers, running roles, and a network that reorders
//! and doubles what it carries. Place 0 is the scheduler's.

mod binds;
mod events;
mod seen;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use omniflow_flow::{
    Delivered, EdgeId, Effect, Footprint, Graph, Item, Key, NodeId, PortIx, Resolver, ScopeId,
};

use super::role::{Carried, Running};
use super::{Word, mix};
pub use seen::Seen;

#[derive(Clone)]
enum Event {
    Bind(NodeId, Key),
    Host(usize, NodeId, Key, u32),
    /// To a place.
    Item(usize, EdgeId, Key, u32, Item<Word>),
    Unwanted(EdgeId, Key),
    /// To a place.
    Left(usize, ScopeId, Key, NodeId),
    Read(NodeId, Key),
}

type At = (NodeId, Key);

/// See the module.
pub struct Cluster {
    pub graph: Arc<Graph>,
    pub places: Vec<Resolver<Word>>,
    bound: BTreeMap<At, (usize, u32)>,
    pending: Vec<Event>,
    retained: Vec<(EdgeId, Key, u32, Item<Word>)>,
    running: BTreeMap<At, (Running, VecDeque<Effect<Word>>)>,
    ready: BTreeMap<At, VecDeque<Effect<Word>>>,
    random: u64,
    asked: BTreeSet<At>,
    /// Binds that were lost with what they had sent, and did not start again.
    gone: BTreeSet<At>,
    /// Binds that started again, or were cancelled, and have not sent everything.
    unfinished: BTreeSet<At>,
    /// What resumable binds go on from, with their epochs.
    resuming: BTreeMap<At, (u32, Delivered<Word>)>,
    /// Whether things come twice and in any order, as a broken network would have it.
    pub wild: bool,
    /// Whether a worker was.
    pub lost: bool,
    /// How often the job began again from its inputs.
    pub starts_over: usize,
    inputs: Vec<Carried>,
    pub largest: Footprint,
    pub most_facts: usize,
    pub seen: Seen,
}

impl Cluster {
    pub fn new(graph: Arc<Graph>, places: usize, seed: u64) -> Self {
        let mut resolvers = vec![Resolver::with_results(graph.clone())];
        resolvers.extend((1..places.max(2)).map(|_| Resolver::new(graph.clone())));
        let mut cluster = Self {
            graph: graph.clone(),
            places: resolvers,
            bound: BTreeMap::new(),
            pending: Vec::new(),
            retained: Vec::new(),
            running: BTreeMap::new(),
            ready: BTreeMap::new(),
            random: seed,
            asked: BTreeSet::new(),
            gone: BTreeSet::new(),
            unfinished: BTreeSet::new(),
            resuming: BTreeMap::new(),
            wild: true,
            lost: false,
            starts_over: 0,
            inputs: Vec::new(),
            largest: Footprint::default(),
            most_facts: 0,
            seen: Seen::default(),
        };
        for (node, spec) in (0..).map(NodeId).zip(graph.nodes()) {
            // At admission; what stands behind a gate is bound when that opens.
            if spec.kind.is_role() && graph.bind_depth(node) == 0 && spec.gates().next().is_none() {
                cluster.ask(node, Key::ROOT);
            }
        }
        cluster
    }

    pub fn feed(&mut self, inputs: &[Carried]) {
        self.inputs = inputs.to_vec();
        let mut effects = Vec::new();
        let place = &mut self.places[0];
        for (port, carried) in (0..).map(PortIx).zip(inputs) {
            match carried {
                Carried::Nothing => place.close_input(port, &mut effects).unwrap(),
                Carried::One(word) => place.feed_input(port, *word, &mut effects).unwrap(),
                Carried::Many(words) => {
                    for word in words {
                        place.feed_input(port, *word, &mut effects).unwrap();
                    }
                    place.end_input(port, &mut effects).unwrap();
                }
            }
        }
        self.carry_out(effects);
    }

    /// One random step; false when nothing is left to happen, or the job has failed.
    pub fn step(&mut self) -> bool {
        if self.pending.is_empty() || self.seen.failed.is_some() {
            return false;
        }
        let event = match self.wild {
            true => {
                let chosen = self.choose(self.pending.len());
                self.pending.swap_remove(chosen)
            }
            false => self.pending.remove(0),
        };
        self.happen(event);
        if self.wild {
            self.places.iter().for_each(|place| place.check().unwrap());
        }
        true
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Bind(node, key) => self.bind(node, key),
            Event::Host(place, node, key, epoch) => self.host(place, node, key, epoch),
            Event::Item(place, edge, key, epoch, item) => {
                self.arrive(place, edge, key, epoch, item)
            }
            Event::Unwanted(edge, key) => self.tell_producer(edge, &key),
            Event::Left(place, scope, key, by) => {
                self.hear_of_binds(place);
                let mut effects = Vec::new();
                self.places[place].scope_left(scope, &key, by, &mut effects);
                self.carry_out(effects);
            }
            Event::Read(node, key) => self.read(node, key),
        }
    }

    pub fn run(&mut self) {
        while self.step() {}
    }

    /// How much it holds now, at all places.
    pub fn measure(&mut self) {
        let sum = |all: Footprint, more: Footprint| Footprint {
            frames: all.frames + more.frames,
            bytes: all.bytes + more.bytes,
            open: all.open + more.open,
        };
        let now = self
            .places
            .iter()
            .map(Resolver::footprint)
            .fold(Footprint::default(), sum);
        self.largest.frames = self.largest.frames.max(now.frames);
        self.largest.open = self.largest.open.max(now.open);
        let facts = self.places.iter().map(Resolver::facts).sum();
        self.most_facts = self.most_facts.max(facts);
    }

    /// Everything has ended: nothing is held anywhere.
    pub fn assert_over(&self) {
        self.assert_ended();
        let left: Vec<&At> = self.running.keys().chain(self.ready.keys()).collect();
        assert!(left.is_empty(), "activations never ended: {left:?}");
        for (index, place) in self.places.iter().enumerate() {
            let holds = (place.footprint(), place.open_runs());
            assert!(
                place.is_empty(),
                "place {index} holds {holds:?} of {}",
                self.describe()
            );
        }
    }

    /// The job is over. (What started again after a loss, and nobody reads any more, may not have been told so; it goes with
    /// the job.)
    pub fn assert_ended(&self) {
        let told = || format!("{:?} of {}", self.seen, self.describe());
        assert_eq!(self.seen.done, 1, "the job must end, once: {}", told());
    }

    /// The flow in a line for each node and edge.
    pub fn describe(&self) -> String {
        let mut lines = vec!["flow:".to_owned()];
        for (node, spec) in self.graph.nodes().iter().enumerate() {
            let (kind, home) = (&spec.kind, self.graph.home(NodeId(node as u32)));
            lines.push(format!(
                "  {node} {:?} in {:?} {kind:?} at {home:?} {:?}",
                spec.name, spec.scope, spec.trigger
            ));
        }
        for (edge, spec) in self.graph.spec().edges.iter().enumerate() {
            lines.push(format!(
                "  {edge} {:?} -> {:?} {}",
                spec.from, spec.to, spec.value_type
            ));
        }
        lines.push(format!("bound: {:?}", self.bound));
        lines.join("\n")
    }

    pub fn choose(&mut self, among: usize) -> usize {
        self.random = mix(&[self.random]);
        (self.random % among as u64) as usize
    }
}
