//! One job over several places, its nodes bound by key while it runs: resolvers, running roles, and a network that reorders
//! and doubles what it carries. Place 0 is the scheduler's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use omniflow_flow::{
    Destination, EdgeId, Effect, Fault, Footprint, Graph, Home, Item, Key, NodeId, NodeKind,
    Origin, PortIx, Reader, Resolver, ScopeId,
};

use super::role::{Carried, Running};
use super::{Word, mix};

/// What was seen of a job from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Which alternative each activation fired, at its last attempt.
    pub fired: BTreeMap<(NodeId, Key), usize>,
    /// Runs closed without an activation.
    pub closed: BTreeSet<(NodeId, Key)>,
    /// What left the first output of nodes by which arrival order shows, in order.
    pub sent: BTreeMap<(NodeId, Key), Vec<Word>>,
    pub results: BTreeMap<PortIx, Carried>,
    pub done: usize,
    pub failed: Option<(NodeId, Key, Fault)>,
    /// What was left: scope, key around it, by which node.
    pub left: BTreeSet<(ScopeId, Key, NodeId)>,
}

impl Seen {
    /// Whether a scope around here has ended: all nodes that it is left by are over.
    pub fn unneeded(&self, graph: &Graph, mut scope: ScopeId, key: &Key) -> bool {
        let spec = graph.spec();
        while scope != ScopeId::ROOT {
            let closes = |node: &omniflow_flow::NodeSpec| {
                node.kind.inner_scope() == Some(scope)
                    && !matches!(node.kind, NodeKind::Each { .. })
            };
            let nodes = (0..).map(NodeId).zip(&spec.nodes);
            let closers: Vec<NodeId> = nodes
                .filter(|(_, node)| closes(node))
                .map(|(node, _)| node)
                .collect();
            let over = |outer: Key| {
                let by = |by: &NodeId| self.left.contains(&(scope, outer.clone(), *by));
                closers.iter().all(by)
            };
            if (0..=key.depth()).any(|depth| over(key.prefix(depth))) {
                return true;
            }
            scope = spec.scopes[scope.index() - 1].parent;
        }
        false
    }
}

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
    /// Whether things come twice and in any order, as a broken network would have it.
    pub wild: bool,
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
            wild: true,
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
        match event {
            Event::Bind(node, key) => self.bind(node, key),
            Event::Host(place, node, key, epoch) => self.host(place, node, key, epoch),
            Event::Item(place, edge, key, epoch, item) => {
                self.arrive(place, edge, key, epoch, item)
            }
            Event::Unwanted(edge, key) => self.tell_producer(edge, &key),
            Event::Left(place, scope, key, by) => {
                let mut effects = Vec::new();
                self.places[place].scope_left(scope, &key, by, &mut effects);
                self.carry_out(effects);
            }
            Event::Read(node, key) => self.read(node, key),
        }
        if self.wild {
            self.places.iter().for_each(|place| place.check().unwrap());
        }
        true
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
        let told = || format!("{:?} of {}", self.seen, self.describe());
        assert_eq!(self.seen.done, 1, "the job must end, once: {}", told());
        for (index, place) in self.places.iter().enumerate() {
            let holds = (place.footprint(), place.open_runs());
            assert!(
                place.is_empty(),
                "place {index} holds {holds:?}: {}",
                told()
            );
        }
        let left: Vec<&At> = self.running.keys().chain(self.ready.keys()).collect();
        assert!(left.is_empty(), "activations never ended: {left:?}");
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

    // --- binds ------------------------------------------------------------------------------------------------------

    fn ask(&mut self, node: NodeId, key: Key) {
        if self.asked.insert((node, key.clone())) {
            self.pending.push(Event::Bind(node, key));
        }
    }

    fn bind(&mut self, node: NodeId, key: Key) {
        let Some(handed) = self.places[0].hand_over(node, &key) else {
            return;
        };
        let place = 1 + self.choose(self.places.len() - 1);
        self.bound.insert((node, key.clone()), (place, 1));
        self.pending.push(Event::Host(place, node, key.clone(), 1));
        for parked in handed {
            let event = Event::Item(place, parked.edge, parked.key, parked.epoch, parked.item);
            self.pending.push(event);
        }
        self.resend(node, &key, place, false);
    }

    /// What was sent to a bind before goes to its place; marks went to the scheduler, which hands them over.
    fn resend(&mut self, node: NodeId, key: &Key, place: usize, marks: bool) {
        for (edge, frame_key, epoch, item) in &self.retained {
            let for_it = match self.graph.reader(*edge, frame_key).unwrap() {
                Reader::Scheduler => false,
                Reader::One(reader, at) => reader == node && at == *key,
                Reader::Every(reader, prefix) => reader == node && key.extends(&prefix),
            };
            if for_it && (marks || !self.graph.is_mark(*edge, item)) {
                let item = item.clone();
                let event = Event::Item(place, *edge, frame_key.clone(), *epoch, item);
                self.pending.push(event);
            }
        }
    }

    /// A worker is lost: what is bound there starts again, maybe elsewhere, under a higher epoch.
    pub fn lose(&mut self, place: usize) {
        self.places[place] = Resolver::new(self.graph.clone());
        let to_it = |event: &Event| match event {
            Event::Item(to, ..) | Event::Left(to, ..) | Event::Host(to, ..) => *to == place,
            _ => false,
        };
        self.pending.retain(|event| !to_it(event));
        for (scope, key, by) in self.seen.left.clone() {
            self.places[place].scope_left(scope, &key, by, &mut Vec::new());
        }
        let bound = self.bound.clone();
        for ((node, key), (at, epoch)) in bound {
            if at == place {
                self.restart(node, &key, epoch + 1);
            }
        }
    }

    fn restart(&mut self, node: NodeId, key: &Key, epoch: u32) {
        let graph = self.graph.clone();
        let bound = |at: &At| at.0 == node && graph.bind_key(node, &at.1) == *key;
        self.running.retain(|at, _| !bound(at));
        self.ready.retain(|at, _| !bound(at));
        let scope = self.graph.node(node).unwrap().scope;
        if self.seen.unneeded(&self.graph, scope, key) && graph.companions(node).is_empty() {
            return;
        }
        self.seen.fired.retain(|at, _| !bound(at));
        self.seen.closed.retain(|at| !bound(at));
        let by_it = |edge: EdgeId, frame_key: &Key| match self.graph.edge(edge).unwrap().from {
            Origin::Input { .. } => false,
            Origin::Node { node: from, .. } => {
                let run = frame_key.prefix(self.depth(from));
                self.graph.home(from) == Home::Node(node) && self.graph.bind_key(node, &run) == *key
            }
        };
        let kept = self
            .retained
            .iter()
            .filter(|(edge, frame_key, ..)| !by_it(*edge, frame_key));
        self.retained = kept.cloned().collect();
        let place = 1 + self.choose(self.places.len() - 1);
        self.bound.insert((node, key.clone()), (place, epoch));
        for other in &mut self.places {
            other.producer_restarted(node, key, epoch);
        }
        self.pending
            .push(Event::Host(place, node, key.clone(), epoch));
        self.resend(node, key, place, true);
    }

    fn depth(&self, node: NodeId) -> usize {
        let mut scope = self.graph.node(node).unwrap().scope;
        let mut depth = 0;
        while scope != ScopeId::ROOT {
            scope = self.graph.spec().scopes[scope.index() - 1].parent;
            depth += 1;
        }
        depth
    }

    // --- events -----------------------------------------------------------------------------------------------------

    fn host(&mut self, place: usize, node: NodeId, key: Key, epoch: u32) {
        if self.bound.get(&(node, key.clone())) != Some(&(place, epoch)) {
            return;
        }
        let mut effects = Vec::new();
        self.places[place]
            .host(node, &key, epoch, &mut effects)
            .unwrap();
        self.carry_out(effects);
    }

    fn arrive(&mut self, place: usize, edge: EdgeId, key: Key, epoch: u32, item: Item<Word>) {
        if self.wild && self.choose(6) == 0 {
            let again = Event::Item(place, edge, key.clone(), epoch, item.clone());
            self.pending.push(again);
        }
        match self.graph.reader(edge, &key).unwrap() {
            Reader::One(node, at) => {
                if let Some((other, _)) = self.bound.get(&(node, at))
                    && *other != place
                {
                    // Moved, or bound while it was on its way to the scheduler.
                    let event = Event::Item(*other, edge, key, epoch, item);
                    return self.pending.push(event);
                }
            }
            Reader::Every(..) if place == 0 => {
                for other in self.places_of(edge, &key) {
                    let event = Event::Item(other, edge, key.clone(), epoch, item.clone());
                    self.pending.push(event);
                }
            }
            Reader::Scheduler | Reader::Every(..) => {}
        }
        let mut effects = Vec::new();
        let taken = self.places[place].accept(edge, &key, epoch, item.clone(), &mut effects);
        taken.unwrap_or_else(|error| panic!("{error}: {item:?} at {place}"));
        self.carry_out(effects);
    }

    fn places_of(&self, edge: EdgeId, key: &Key) -> BTreeSet<usize> {
        let bound = self.bound.iter();
        match self.graph.reader(edge, key).unwrap() {
            Reader::Scheduler => BTreeSet::from([0]),
            Reader::One(node, at) => bound
                .filter(|((bound, key), _)| *bound == node && *key == at)
                .map(|(_, (place, _))| *place)
                .collect(),
            Reader::Every(node, prefix) => bound
                .filter(|((bound, key), _)| *bound == node && key.extends(&prefix))
                .map(|(_, (place, _))| *place)
                .collect(),
        }
    }

    fn send(&mut self, edge: EdgeId, key: Key, epoch: u32, item: Item<Word>) {
        self.retained.push((edge, key.clone(), epoch, item.clone()));
        let mut places = self.places_of(edge, &key);
        let mark = self.graph.is_mark(edge, &item);
        match self.graph.reader(edge, &key).unwrap() {
            Reader::One(..) if mark && places.is_empty() => {
                places.insert(0);
            }
            Reader::Every(..) if mark => {
                places.insert(0);
            }
            Reader::One(node, at) if places.is_empty() => {
                let spec = self.graph.node(node).unwrap();
                let own = |port: PortIx| match self.graph.edge_into(node, port) {
                    Some(edge) => match self.graph.edge(edge).unwrap().from {
                        Origin::Node { node, .. } => {
                            self.graph.node(node).unwrap().scope == spec.scope
                        }
                        Origin::Input { .. } => false,
                    },
                    None => false,
                };
                let to_it = matches!(
                    self.graph.edge(edge).unwrap().to,
                    Destination::Node { node: to, .. } if to == node
                );
                let waits = to_it && spec.gates().next().is_some() && spec.gates().all(own);
                if !waits {
                    self.ask(node, at);
                }
            }
            _ => {}
        }
        for place in places {
            let event = Event::Item(place, edge, key.clone(), epoch, item.clone());
            self.pending.push(event);
        }
    }

    fn tell_producer(&mut self, edge: EdgeId, key: &Key) {
        let place = match self.graph.edge(edge).unwrap().from {
            Origin::Input { .. } => 0,
            Origin::Node { node, .. } => match self.graph.home(node) {
                Home::Scheduler => 0,
                Home::Node(home) => {
                    let at = (home, self.graph.bind_key(home, key));
                    self.bound.get(&at).map_or(0, |(place, _)| *place)
                }
            },
        };
        let mut effects = Vec::new();
        self.places[place]
            .unwanted(edge, key, &mut effects)
            .unwrap();
        self.carry_out(effects);
    }

    fn read(&mut self, node: NodeId, key: Key) {
        let bind = self.graph.bind_key(node, &key);
        let (place, _) = self.bound[&(node, bind)];
        let at = (node, key.clone());
        if !self.ready.contains_key(&at) && !self.running.contains_key(&at) {
            return;
        }
        let resolver = &mut self.places[place];
        let mut effects = Vec::new();
        if let Some(mut inbox) = self.ready.remove(&at) {
            let Some(Effect::Activate { key, inputs, .. }) = inbox.pop_front() else {
                panic!("no Activate came first")
            };
            let running = Running::start(resolver, node, key, &inputs, &mut effects);
            self.running.insert(at.clone(), (running, inbox));
        } else if let Some((running, inbox)) = self.running.get_mut(&at) {
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
        let over = resolver.emit(node, &key, PortIx(u32::MAX), Word(0), &mut Vec::new());
        if matches!(over, Err(omniflow_flow::ResolverError::NotRunning { .. })) {
            self.running.remove(&at);
        }
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect<Word>>) {
        for effect in effects {
            match effect {
                Effect::Activate {
                    node,
                    ref key,
                    epoch,
                    alternative,
                    ..
                } => {
                    let at = (node, key.clone());
                    let bind = self.graph.bind_key(node, key);
                    assert_eq!(epoch, self.bound[&(node, bind)].1);
                    let before = self.seen.fired.insert(at.clone(), alternative);
                    assert!(before.is_none(), "{at:?} fired twice");
                    self.pending.push(Event::Read(node, key.clone()));
                    self.ready.insert(at, VecDeque::from([effect]));
                }
                Effect::Deliver { node, ref key, .. } | Effect::StreamEnd { node, ref key, .. } => {
                    let at = (node, key.clone());
                    self.pending.push(Event::Read(node, key.clone()));
                    let running = self.running.get_mut(&at).map(|(_, inbox)| inbox);
                    let inbox = self.ready.get_mut(&at).or(running);
                    inbox
                        .expect("frames only for an activation that has fired")
                        .push_back(effect);
                }
                Effect::Send {
                    edge,
                    key,
                    epoch,
                    item,
                } => {
                    self.note(edge, &key, &item);
                    self.send(edge, key, epoch, item);
                }
                Effect::Unwanted { edge, key } => self.pending.push(Event::Unwanted(edge, key)),
                Effect::Unneeded { .. } => {}
                Effect::Cancelled { node, key } => {
                    self.running.remove(&(node, key.clone()));
                    self.ready.remove(&(node, key));
                }
                Effect::NodeClosed { node, key } => {
                    self.seen.closed.insert((node, key));
                }
                Effect::Wanted { node, key } => self.ask(node, key),
                Effect::ScopeLeft { scope, key, by } => {
                    self.seen.left.insert((scope, key.clone(), by));
                    for place in 0..self.places.len() {
                        self.pending
                            .push(Event::Left(place, scope, key.clone(), by));
                    }
                }
                Effect::Failed { node, key, fault } => self.seen.failed = Some((node, key, fault)),
                Effect::Result { port, item } => self.result(port, item),
                Effect::Contradiction { edge, key, seq } => {
                    panic!("{edge:?} contradicted itself at {key}, {seq}")
                }
                Effect::Done => self.seen.done += 1,
            }
        }
    }

    fn note(&mut self, edge: EdgeId, key: &Key, item: &Item<Word>) {
        let Origin::Node { node, .. } = self.graph.edge(edge).unwrap().from else {
            return;
        };
        let by_arrival = matches!(
            self.graph.node(node).unwrap().kind,
            NodeKind::Merge | NodeKind::AnyOf | NodeKind::Unordered { .. }
        );
        if let Item::Frame { seq, payload } = item
            && by_arrival
        {
            let sent = self.seen.sent.entry((node, key.clone())).or_default();
            if *seq == sent.len() as u64 {
                sent.push(*payload);
            }
        }
    }

    fn result(&mut self, port: PortIx, item: Item<Word>) {
        let stream = self.graph.results()[port.index()].value_type.stream;
        let before = self.seen.results.remove(&port);
        let now = match (item, before) {
            (Item::Closed, None) => Carried::Nothing,
            (Item::Frame { payload, .. }, None) if !stream => Carried::One(payload),
            (Item::Frame { seq: 0, payload }, None) => Carried::Many(vec![payload]),
            (Item::End { count: 0 }, None) => Carried::Many(vec![]),
            (Item::Frame { seq, payload }, Some(Carried::Many(mut words))) => {
                assert_eq!(seq, words.len() as u64, "result frames out of order");
                words.push(payload);
                Carried::Many(words)
            }
            (Item::End { count }, Some(Carried::Many(words))) => {
                assert_eq!(count, words.len() as u64);
                Carried::Many(words)
            }
            (item, before) => panic!("a result got {item:?} after {before:?}"),
        };
        self.seen.results.insert(port, now);
    }
}
