//! The scheduler of a job, as far as its places need one: its resolver, binds on demand, moves, and what it relays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use omniflow_flow::{
    EdgeId, Effect, Fault, Graph, Item, Key, NodeId, PortIx, Reader, Resolver, ScopeId,
};
use omniflow_wire::v1::node_progress::State;
use omniflow_wire::{Frame, LinkMessage, v1};

use super::support::cluster::Seen;
use super::support::role::Carried;
use super::words::{decode, encode};
use super::{JOB, WORKERS};

type At = (NodeId, Key);

pub(super) struct Scheduler {
    pub(super) graph: Arc<Graph>,
    pub(super) resolver: Resolver<Bytes>,
    /// Worker and epoch.
    pub(super) bound: BTreeMap<At, (usize, u32)>,
    /// Nodes to bind.
    pub(super) asked: Vec<At>,
    known: BTreeSet<At>,
    retained: Vec<(EdgeId, Key, u32, Item<Bytes>)>,
    /// To each worker.
    pub(super) out: Vec<(usize, LinkMessage)>,
    pub(super) seen: Seen,
    pub(super) moved: bool,
    pub(super) repairs: bool,
    /// How many binds workers have given back.
    pub(super) moves: usize,
    /// By edge into a result: how many frames have come, as far as is known.
    pub(super) came: BTreeMap<EdgeId, u64>,
    /// Activations that have ended, with their epochs.
    pub(super) ended: BTreeSet<(NodeId, Key)>,
    random: u64,
}

impl Scheduler {
    pub(super) fn new(graph: Arc<Graph>, seed: u64) -> Self {
        let mut scheduler = Self {
            resolver: Resolver::with_results(graph.clone()),
            graph: graph.clone(),
            bound: BTreeMap::new(),
            asked: Vec::new(),
            known: BTreeSet::new(),
            retained: Vec::new(),
            out: Vec::new(),
            seen: Seen::default(),
            moved: false,
            repairs: false,
            moves: 0,
            came: BTreeMap::new(),
            ended: BTreeSet::new(),
            random: seed,
        };
        let mut first = Vec::new();
        for (node, spec) in (0..).map(NodeId).zip(graph.nodes()) {
            if spec.kind.is_role() && graph.bind_depth(node) == 0 && spec.gates().next().is_none() {
                scheduler.known.insert((node, Key::ROOT));
                first.push((node, Key::ROOT));
            }
        }
        scheduler.bind(first);
        scheduler
    }

    pub(super) fn choose(&mut self, among: usize) -> usize {
        self.random = super::support::mix(&[self.random]);
        (self.random % among as u64) as usize
    }

    pub(super) fn feed(&mut self, inputs: &[Carried]) {
        let mut effects = Vec::new();
        let graph = self.graph.clone();
        for ((port, carried), spec) in (0..).map(PortIx).zip(inputs).zip(graph.inputs()) {
            let value = |word| encode(word, &spec.value_type.kind);
            let resolver = &mut self.resolver;
            let words = match carried {
                Carried::Nothing => {
                    resolver.close_input(port, &mut effects).expect("optional");
                    continue;
                }
                Carried::One(word) => vec![*word],
                Carried::Many(words) => words.clone(),
            };
            for word in words {
                resolver
                    .feed_input(port, value(word), &mut effects)
                    .expect("open");
            }
            if matches!(carried, Carried::Many(_)) {
                resolver.end_input(port, &mut effects).expect("a stream");
            }
        }
        self.carry_out(effects);
    }

    // --- binds --------------------------------------------------------------------------------------------------------

    fn ask(&mut self, node: NodeId, key: Key) {
        if self.known.insert((node, key.clone())) {
            self.asked.push((node, key));
        }
    }

    /// Binds one of the nodes that were asked for.
    pub(super) fn bind_asked(&mut self) {
        if !self.asked.is_empty() {
            let chosen = self.choose(self.asked.len());
            let at = self.asked.swap_remove(chosen);
            self.bind(vec![at]);
        }
    }

    fn bind(&mut self, nodes: Vec<At>) {
        let mut handed = Vec::new();
        let mut binds = Vec::new();
        for (node, key) in nodes {
            let Some(parked) = self.resolver.hand_over(node, &key) else {
                continue;
            };
            let worker = self.choose(WORKERS);
            self.bound.insert((node, key.clone()), (worker, 1));
            let frames = parked.into_iter();
            handed.extend(frames.map(|one| (worker, one.edge, one.key, one.epoch, one.item)));
            binds.push((node, key));
        }
        self.tell_binds(&binds);
        for (worker, edge, key, epoch, item) in handed {
            self.send_frame(worker, edge, &key, epoch, item);
        }
        for (node, key) in binds {
            self.resend(node, &key);
        }
    }

    fn tell_binds(&mut self, nodes: &[At]) {
        let bind = |at: &At| {
            let (worker, epoch) = self.bound[at];
            v1::Bind {
                node: at.0.0,
                key: at.1.path().to_vec(),
                worker: worker as u32 + 1,
                epoch,
            }
        };
        let message = v1::BindJob {
            term: 1,
            job: JOB,
            flow: 1,
            binds: nodes.iter().map(bind).collect(),
            ..Default::default()
        };
        for worker in 0..WORKERS {
            self.out.push((worker, message.clone().into()));
        }
        self.grant_again(nodes);
    }

    /// Binds a node again, maybe elsewhere, as if its attempt were lost. What else has to run again with one at whose side
    /// a scope is gathered, or with one of a loop, is the job table's to decide.
    pub(super) fn move_one(&mut self) {
        let movable = |at: &&At| {
            let scope = self.graph.nodes()[at.0.index()].scope;
            let unneeded = self.seen.unneeded(&self.graph, scope, &at.1);
            let alone = self.graph.companions(at.0).is_empty();
            !unneeded && alone && !self.is_in_loop(scope)
        };
        let movable: Vec<At> = self.bound.keys().filter(movable).cloned().collect();
        if !movable.is_empty() {
            let chosen = self.choose(movable.len());
            self.move_nodes(&movable[chosen..=chosen]);
        }
    }

    pub(super) fn move_nodes(&mut self, nodes: &[At]) {
        for at in nodes {
            let worker = self.choose(WORKERS);
            let epoch = self.bound[at].1 + 1;
            self.bound.insert(at.clone(), (worker, epoch));
            self.resolver.producer_restarted(at.0, &at.1, epoch);
            let again =
                |node: NodeId, key: &Key| node == at.0 && self.graph.bind_key(node, key) == at.1;
            let companions = self.graph.companions(at.0);
            let left_again = |(_, key, by): &(ScopeId, Key, NodeId)| {
                companions.contains(by) && self.graph.bind_key(at.0, key).extends(&at.1)
            };
            self.seen.left.retain(|left| !left_again(left));
            self.moved = true;
            self.seen.lose(|(node, key)| again(*node, key));
            self.ended.retain(|(node, key)| !again(*node, key));
        }
        self.tell_binds(nodes);
        for (node, key) in nodes {
            self.resend(*node, key);
        }
    }

    /// What was sent from here to a bind.
    fn resend(&mut self, node: NodeId, key: &Key) {
        let worker = self.bound[&(node, key.clone())].0;
        for (edge, at, epoch, item) in self.retained.clone() {
            let for_it = match self.graph.reader(edge, &at) {
                Some(Reader::One(reader, bind)) => reader == node && bind == *key,
                Some(Reader::Every(reader, prefix)) => reader == node && key.extends(&prefix),
                _ => false,
            };
            if for_it {
                self.send_frame(worker, edge, &at, epoch, item);
            }
        }
    }

    fn send_frame(
        &mut self,
        worker: usize,
        edge: EdgeId,
        key: &Key,
        epoch: u32,
        item: Item<Bytes>,
    ) {
        let (mark, seq, count, payload) = match item {
            Item::Frame { seq, payload } => (v1::Mark::None, seq, 0, payload),
            Item::End { count } => (v1::Mark::End, 0, count, Bytes::new()),
            Item::Closed => (v1::Mark::Closed, 0, 0, Bytes::new()),
        };
        let header = v1::FrameHeader {
            job: JOB,
            edge: edge.0,
            key: key.path().to_vec(),
            seq,
            epoch,
            mark: mark.into(),
            count,
            term: 1,
        };
        self.out.push((worker, Frame { header, payload }.into()));
    }

    // --- what it hears --------------------------------------------------------------------------------------------------

    pub(super) fn hear(&mut self, worker: usize, message: LinkMessage) {
        match message {
            LinkMessage::Frame(frame) => self.frame(frame),
            LinkMessage::Events(events) => {
                for event in events.events {
                    self.event(worker, &event);
                }
            }
            LinkMessage::BindsWanted(wanted) => {
                for one in wanted.wanted {
                    self.ask(NodeId(one.node), Key::new(&one.key));
                }
            }
            LinkMessage::ScopeLeft(left) => {
                let (scope, key, by) = (ScopeId(left.scope), Key::new(&left.key), NodeId(left.by));
                self.scope_left(Some(worker), scope, key, by);
            }
            LinkMessage::Unwanted(unwanted) => {
                let (edge, key) = (EdgeId(unwanted.edge), Key::new(&unwanted.key));
                let mut effects = Vec::new();
                self.resolver
                    .unwanted(edge, &key, &mut effects)
                    .expect("an edge");
                self.carry_out(effects);
            }
            LinkMessage::Moved(moved) => self.moved_back(worker, &moved),
            other => panic!("unexpected: {other:?}"),
        }
    }

    fn event(&mut self, worker: usize, event: &v1::NodeEvent) {
        let at = (NodeId(event.node), Key::new(&event.key));
        if event.state() == State::Failed {
            let error = event.error.clone().unwrap_or_default();
            if error.code() == v1::ErrorCode::NotReplayable {
                return self.run_producers_again(at, event.epoch);
            }
            assert!(
                [v1::ErrorCode::LoopLimit, v1::ErrorCode::BadRoute].contains(&error.code()),
                "{error:?}"
            );
            let name = error.message;
            let fault = Fault::LoopLimit {
                name,
                max_rounds: 0,
            };
            self.seen.failed = Some((at.0, at.1, fault));
            return;
        }
        let bind = (at.0, self.graph.bind_key(at.0, &at.1));
        if self.bound.get(&bind) != Some(&(worker, event.epoch)) {
            return self.fired_before(at, event);
        }
        match event.state() {
            State::Queued => {
                self.seen.fire(at, 0);
            }
            State::Done => drop(self.ended.insert(at)),
            State::Stopped => {
                if !self.seen.fired.contains_key(&at) {
                    self.seen.closed.insert(at.clone());
                }
                self.ended.insert(at);
            }
            _ => {}
        }
    }

    fn frame(&mut self, frame: Frame) {
        let header = frame.header;
        let item = match header.mark() {
            v1::Mark::None => Item::Frame {
                seq: header.seq,
                payload: frame.payload,
            },
            v1::Mark::End => Item::End {
                count: header.count,
            },
            v1::Mark::Closed => Item::Closed,
        };
        let (edge, key) = (EdgeId(header.edge), Key::new(&header.key));
        if let Some(Reader::One(node, bind)) = self.graph.reader(edge, &key)
            && self.bound.contains_key(&(node, bind))
        {
            // It was bound meanwhile: whoever sent this sends it there, too.
            return;
        }
        self.grant(edge, &item);
        self.accept(edge, &key, header.epoch, item);
    }

    fn accept(&mut self, edge: EdgeId, key: &Key, epoch: u32, item: Item<Bytes>) {
        let mut effects = Vec::new();
        let taken = self.resolver.accept(edge, key, epoch, item, &mut effects);
        taken.expect("it fits");
        self.carry_out(effects);
    }

    fn scope_left(&mut self, from: Option<usize>, scope: ScopeId, key: Key, by: NodeId) {
        self.seen.left.insert((scope, key.clone(), by));
        let message = v1::ScopeLeft {
            job: JOB,
            scope: scope.0,
            key: key.path().to_vec(),
            by: by.0,
            term: 1,
        };
        for worker in (0..WORKERS).filter(|worker| Some(*worker) != from) {
            self.out.push((worker, message.clone().into()));
        }
        self.tell_crossed(from, scope, &key);
        let mut effects = Vec::new();
        self.resolver.scope_left(scope, &key, by, &mut effects);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect<Bytes>>) {
        for effect in effects {
            match effect {
                Effect::Send {
                    edge,
                    key,
                    epoch,
                    item,
                } => self.send(edge, key, epoch, item),
                Effect::Unwanted { edge, key } => {
                    // A place that runs its producer would be told; not telling costs work in vain.
                    let mut effects = Vec::new();
                    self.resolver
                        .unwanted(edge, &key, &mut effects)
                        .expect("an edge");
                    self.carry_out(effects);
                }
                Effect::NodeClosed { node, key } => drop(self.seen.closed.insert((node, key))),
                Effect::Wanted { node, key } => self.ask(node, key),
                Effect::ScopeLeft { scope, key, by } => self.scope_left(None, scope, key, by),
                Effect::Failed { node, key, fault } => self.seen.failed = Some((node, key, fault)),
                Effect::Result { port, item } => self.result(port, item),
                Effect::Done => self.seen.done += 1,
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    fn send(&mut self, edge: EdgeId, key: Key, epoch: u32, item: Item<Bytes>) {
        let mark = self.graph.is_mark(edge, &item);
        match self.graph.reader(edge, &key).expect("an edge") {
            Reader::Scheduler => return self.accept(edge, &key, epoch, item),
            Reader::One(node, bind) => match self.bound.get(&(node, bind.clone())) {
                Some((worker, _)) => self.send_frame(*worker, edge, &key, epoch, item.clone()),
                None if mark => self.accept(edge, &key, epoch, item.clone()),
                None => {
                    if crate::wires::Wires::new(&self.graph).asks(edge) {
                        self.ask(node, bind);
                    }
                }
            },
            Reader::Every(node, prefix) => {
                let bound = self.bound.iter();
                let of_all = bound.filter(|(at, _)| at.0 == node && at.1.extends(&prefix));
                let workers: BTreeSet<usize> = of_all.map(|(_, (worker, _))| *worker).collect();
                for worker in workers {
                    self.send_frame(worker, edge, &key, epoch, item.clone());
                }
                if mark {
                    self.accept(edge, &key, epoch, item.clone());
                }
            }
        }
        self.retained.push((edge, key, epoch, item));
    }

    fn result(&mut self, port: PortIx, item: Item<Bytes>) {
        let stream = self.graph.results()[port.index()].value_type.stream;
        let before = self.seen.results.remove(&port);
        let now = match (item, before) {
            (Item::Closed, None) => Carried::Nothing,
            (Item::Frame { payload, .. }, None) if !stream => Carried::One(decode(&payload)),
            (Item::Frame { payload, .. }, None) => Carried::Many(vec![decode(&payload)]),
            (Item::End { count: 0 }, None) => Carried::Many(vec![]),
            (Item::Frame { seq, payload }, Some(Carried::Many(mut words))) => {
                assert_eq!(seq, words.len() as u64, "result frames out of order");
                words.push(decode(&payload));
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
