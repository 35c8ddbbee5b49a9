//! What happens at the places, and what follows from it.

use std::collections::{BTreeSet, VecDeque};

use omniflow_flow::{
    Delivered, Destination, EdgeId, Effect, Home, Item, Key, NodeId, NodeKind, Origin, PortIx,
    Reader,
};

use super::super::Word;
use super::super::role::{Carried, Running};
use super::{Cluster, Event};

impl Cluster {
    pub(super) fn host(&mut self, place: usize, node: NodeId, key: Key, epoch: u32) {
        if self.bound.get(&(node, key.clone())) != Some(&(place, epoch)) {
            return;
        }
        let mut effects = Vec::new();
        self.places[place]
            .host(node, &key, epoch, &mut effects)
            .unwrap();
        self.carry_out(effects);
        if epoch > 1 {
            // What came ahead of the bind may have been dropped as nobody's: it is given again.
            self.resend(node, &key, place, true);
        }
    }

    pub(super) fn arrive(
        &mut self,
        place: usize,
        edge: EdgeId,
        key: Key,
        epoch: u32,
        item: Item<Word>,
    ) {
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
        if let Reader::One(node, at) = self.graph.reader(edge, &key).unwrap()
            && self.gone.contains(&(node, at))
        {
            // It was over, and does not run again for now: what is new for it is kept.
            return;
        }
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

    pub(super) fn tell_producer(&mut self, edge: EdgeId, key: &Key) {
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

    pub(super) fn read(&mut self, node: NodeId, key: Key) {
        let bind = self.graph.bind_key(node, &key);
        let (place, _) = self.bound[&(node, bind)];
        let at = (node, key.clone());
        if !self.ready.contains_key(&at) && !self.running.contains_key(&at) {
            return;
        }
        let resolver = &mut self.places[place];
        let mut effects = Vec::new();
        if let Some(mut inbox) = self.ready.remove(&at) {
            let Some(Effect::Activate {
                key, epoch, inputs, ..
            }) = inbox.pop_front()
            else {
                panic!("no Activate came first")
            };
            let known = self.resuming.get(&at).filter(|(of, _)| *of == epoch);
            let delivered = known.map_or_else(Delivered::default, |(_, known)| known.clone());
            resolver
                .resume(node, &key, &delivered, &mut effects)
                .unwrap();
            let resumed = delivered.frames.len() as u64;
            let running = Running::start(resolver, node, key, &inputs, resumed, &mut effects);
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
            self.unfinished
                .remove(&(node, self.graph.bind_key(node, &key)));
        }
        self.carry_out(effects);
    }

    pub(super) fn carry_out(&mut self, effects: Vec<Effect<Word>>) {
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
                    self.seen.fire(at.clone(), alternative);
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
                    self.ready.remove(&(node, key.clone()));
                    // What it would have sent is not there, should its readers run again.
                    self.unfinished
                        .insert((node, self.graph.bind_key(node, &key)));
                }
                Effect::NodeClosed { node, key } => {
                    self.unfinished
                        .remove(&(node, self.graph.bind_key(node, &key)));
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
