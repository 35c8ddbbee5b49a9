//! One place of a job: a resolver, what it has sent and got, and where the others are. As workers do it, without links.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use omniflow_flow::{
    ActivationInput, Arrival, Delivered, EdgeId, Effect, Graph, Home, Item, Key, NodeId, Origin,
    PortIx, Reader, Resolver, ScopeId,
};

use super::value::Value;

/// What one place tells another.
#[derive(Clone, Debug)]
pub enum Message {
    /// Node, key, worker, epoch.
    Bind(Vec<(u32, Key, u32, u32)>),
    Item(Sent),
    Left(ScopeId, Key, NodeId),
    Wanted(Vec<(u32, Key)>),
    Report(NodeId, Key, u32, Said),
    Release,
    Released,
    /// Node, key, epoch.
    Recall(Vec<(u32, Key, u32)>),
    Moved(Vec<(u32, Key, u32)>),
    /// Of a resumable bind, with the epoch of the attempt to come: what is held; what is; what to go on from.
    Ask(NodeId, Key, u32),
    Contradiction(EdgeId, u64),
    Delivered(NodeId, Key, u32, Delivered<Value>),
    Resume(NodeId, Key, u32, Delivered<Value>),
}

/// How far an activation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Queued,
    Started,
    Done,
    Stopped,
}

#[derive(Clone, Debug)]
pub struct Sent {
    pub edge: EdgeId,
    pub key: Key,
    pub epoch: u32,
    pub item: Item<Value>,
}

/// An attempt's number, and what it reads.
type Ready = (u32, Vec<ActivationInput<Value>>);

/// The scheduler's number among places.
pub const SCHEDULER: u32 = 0;

pub struct Place {
    pub me: u32,
    pub graph: Arc<Graph>,
    pub resolver: Resolver<Value>,
    pub bound: BTreeMap<(NodeId, Key), (u32, u32)>,
    sent: Vec<Sent>,
    got: Vec<Sent>,
    asked: BTreeSet<(u32, Key)>,
    /// Bound here, and given back before they had started.
    given: BTreeSet<(NodeId, Key)>,
    /// Activations that can run, with their epochs.
    pub ready: BTreeMap<(NodeId, Key), Ready>,
    /// What resumable binds go on from, with their epochs.
    pub resuming: BTreeMap<(NodeId, Key), (u32, Delivered<Value>)>,
    /// To be carried to other places, in order.
    pub out: Vec<(u32, Message)>,
    /// Only of the scheduler's: what the job table and the client have to hear of.
    pub seen: Vec<Effect<Value>>,
}

impl Place {
    pub fn new(me: u32, graph: Arc<Graph>) -> Self {
        let resolver = match me {
            SCHEDULER => Resolver::with_results(graph.clone()),
            _ => Resolver::new(graph.clone()),
        };
        Self {
            me,
            resolver,
            graph,
            bound: BTreeMap::new(),
            sent: Vec::new(),
            got: Vec::new(),
            asked: BTreeSet::new(),
            given: BTreeSet::new(),
            ready: BTreeMap::new(),
            resuming: BTreeMap::new(),
            out: Vec::new(),
            seen: Vec::new(),
        }
    }

    // --- binds ------------------------------------------------------------------------------------------------------

    pub fn bind(&mut self, binds: &[(u32, Key, u32, u32)]) {
        let newer = binds.iter().filter(|(node, key, _, epoch)| {
            let known = self.bound.get(&(NodeId(*node), key.clone()));
            known.is_none_or(|(_, known)| known < epoch)
        });
        let newer: Vec<_> = newer.cloned().collect();
        let mut parked = Vec::new();
        for (node, key, worker, epoch) in &newer {
            let (node, bind) = (NodeId(*node), (*worker, *epoch));
            self.asked.remove(&(node.0, key.clone()));
            self.given.remove(&(node, key.clone()));
            let known = self.bound.insert((node, key.clone()), bind);
            if known.is_some() || *epoch > 1 {
                let graph = self.graph.clone();
                let of_it =
                    |at: &(NodeId, Key)| at.0 == node && graph.bind_key(node, &at.1) == *key;
                self.ready.retain(|at, _| !of_it(at));
                self.sent
                    .retain(|sent| !by(&graph, sent, node, key) || sent.epoch >= *epoch);
                self.got
                    .retain(|sent| !by(&graph, sent, node, key) || sent.epoch >= *epoch);
            }
            if self.me == SCHEDULER && known.is_none() {
                let handed = self.resolver.hand_over(node, key).unwrap_or_default();
                parked.extend(handed.into_iter().map(|parked| (*worker, parked)));
            }
        }
        for (node, key, worker, epoch) in &newer {
            let mut effects = Vec::new();
            if *worker == self.me {
                let hosted = self.resolver.host(NodeId(*node), key, *epoch, &mut effects);
                hosted.unwrap();
            } else if *epoch > 1 {
                self.resolver.unhost(NodeId(*node), key);
                self.resolver.producer_restarted(NodeId(*node), key, *epoch);
            }
            self.carry_out(effects);
        }
        for (worker, parked) in parked {
            let sent = Sent {
                edge: parked.edge,
                key: parked.key,
                epoch: parked.epoch,
                item: parked.item,
            };
            self.out.push((worker, Message::Item(sent)));
        }
        for (node, key, worker, _) in &newer {
            self.resend(NodeId(*node), key, *worker);
        }
    }

    pub fn give_back(&mut self, binds: Vec<(u32, Key, u32)>) {
        let mut given = Vec::new();
        for (node, key, epoch) in binds {
            let at = (NodeId(node), key.clone());
            let here = self.bound.get(&at) == Some(&(self.me, epoch));
            let waits = || {
                let hosted = self.resolver.hosted(at.0, &key).is_some();
                hosted && !self.resolver.is_over(at.0, &key)
            };
            if here && (self.ready.contains_key(&at) || waits()) {
                self.ready.remove(&at);
                self.resolver.unhost(at.0, &key);
                self.given.insert(at);
                given.push((node, key, epoch));
            }
        }
        if !given.is_empty() {
            self.out.push((SCHEDULER, Message::Moved(given)));
        }
    }

    /// Whether what is for it waits for its next bind.
    fn is_given(&self, edge: EdgeId, key: &Key) -> bool {
        match self.graph.reader(edge, key) {
            Some(Reader::One(node, at)) => self.given.contains(&(node, at)),
            _ => false,
        }
    }

    fn resend(&mut self, node: NodeId, key: &Key, worker: u32) {
        let graph = self.graph.clone();
        let for_it = |sent: &&Sent| match graph.reader(sent.edge, &sent.key) {
            Some(Reader::One(reader, at)) => reader == node && at == *key,
            Some(Reader::Every(reader, prefix)) => reader == node && key.extends(&prefix),
            _ => false,
        };
        let mut again: Vec<Sent> = Vec::new();
        if worker == self.me {
            again.extend(self.got.iter().filter(for_it).cloned());
        }
        again.extend(self.sent.iter().filter(for_it).cloned());
        for sent in again {
            self.bring(worker, sent);
        }
    }

    fn bring(&mut self, to: u32, sent: Sent) {
        if to == self.me {
            self.accept(sent);
        } else {
            self.out.push((to, Message::Item(sent)));
        }
    }

    // --- items ------------------------------------------------------------------------------------------------------

    pub fn arrive(&mut self, sent: Sent) {
        if self.me == SCHEDULER
            && let Some(Reader::One(node, at)) = self.graph.reader(sent.edge, &sent.key)
            && self.bound.contains_key(&(node, at))
        {
            // Whoever sent it sends it again when the bind comes to it.
            return;
        }
        if self.is_given(sent.edge, &sent.key) || self.accept(sent.clone()) != Arrival::Stale {
            self.got.push(sent);
        }
    }

    fn accept(&mut self, sent: Sent) -> Arrival {
        let mut effects = Vec::new();
        let Sent {
            edge,
            key,
            epoch,
            item,
        } = sent;
        let arrival = self.resolver.accept(edge, &key, epoch, item, &mut effects);
        self.carry_out(effects);
        arrival.unwrap()
    }

    fn send(&mut self, sent: Sent) {
        self.sent.push(sent.clone());
        if self.is_given(sent.edge, &sent.key) {
            return;
        }
        let mark = self.graph.is_mark(sent.edge, &sent.item);
        match self.graph.reader(sent.edge, &sent.key).unwrap() {
            Reader::Scheduler => self.bring(SCHEDULER, sent),
            Reader::One(node, at) => match self.bound.get(&(node, at.clone())).copied() {
                Some((worker, _)) => self.bring(worker, sent),
                None if mark => self.bring(SCHEDULER, sent),
                None => {
                    let gated = self.graph.node(node).unwrap().gates().next().is_some();
                    let asks = !gated && self.graph.bind_depth(node) > 0;
                    if asks && self.asked.insert((node.0, at.clone())) {
                        self.out
                            .push((SCHEDULER, Message::Wanted(vec![(node.0, at)])));
                    }
                }
            },
            Reader::Every(node, prefix) => {
                let under = self
                    .bound
                    .iter()
                    .filter(|((bound, key), _)| *bound == node && key.extends(&prefix));
                let mut places: BTreeSet<u32> = under.map(|(_, (worker, _))| *worker).collect();
                if mark {
                    places.insert(SCHEDULER);
                }
                places
                    .into_iter()
                    .for_each(|to| self.bring(to, sent.clone()));
            }
        }
    }

    /// Says what is held of a resumable bind.
    pub fn tell_delivered(&mut self, node: NodeId, key: Key, epoch: u32) {
        self.resolver.producer_restarted(node, &key, epoch);
        let delivered = self.resolver.delivered(node, &key);
        let told = Message::Delivered(node, key, epoch, delivered);
        self.out.push((SCHEDULER, told));
    }

    pub fn left(&mut self, scope: ScopeId, key: &Key, by: NodeId) {
        let mut effects = Vec::new();
        self.resolver.scope_left(scope, key, by, &mut effects);
        self.carry_out(effects);
        let spec = self.graph.spec().clone();
        let mut around = spec.scopes[scope.index() - 1].parent;
        let mut once = !spec.scopes[scope.index() - 1].is_loop;
        while around != ScopeId::ROOT {
            once &= !spec.scopes[around.index() - 1].is_loop;
            around = spec.scopes[around.index() - 1].parent;
        }
        let closers = spec.nodes.iter().filter(|node| {
            let closes = !matches!(node.kind, omniflow_flow::NodeKind::Each { .. });
            closes && node.kind.inner_scope() == Some(scope)
        });
        if once && closers.count() == 1 {
            // What is inside is let go of, and the binds.
            let graph = self.graph.clone();
            let within = |node: NodeId| is_within(&graph, node, scope);
            self.bound
                .retain(|(node, at), _| !(within(*node) && at.extends(key)));
            let inside = |sent: &Sent| {
                let to = graph.edge(sent.edge).unwrap().to;
                let to = match to {
                    // What has left it is kept, for whoever has to read it again.
                    omniflow_flow::Destination::Node { node, .. } => match graph.home(node) {
                        Home::Node(home) => within(home),
                        Home::Scheduler => false,
                    },
                    omniflow_flow::Destination::Result { .. } => false,
                };
                to && sent.key.extends(key) && sent.key.depth() > key.depth()
            };
            self.sent.retain(|sent| !inside(sent));
            self.got.retain(|sent| !inside(sent));
        }
    }

    // --- activations ------------------------------------------------------------------------------------------------

    /// Runs something that is ready, to its end. `choose` picks one of so many.
    pub fn run(&mut self, choose: usize) {
        let at = self
            .ready
            .keys()
            .nth(choose % self.ready.len())
            .unwrap()
            .clone();
        let (epoch, inputs) = self.ready.remove(&at).unwrap();
        let (node, key) = at;
        let graph = self.graph.clone();
        let spec = graph.node(node).unwrap();
        self.report(node, &key, epoch, Said::Started);
        let mut effects = Vec::new();
        let mut outputs = super::value::outputs(spec, &key, &inputs);
        if graph.resumes(node) {
            let known = self.resuming.remove(&(node, key.clone()));
            let delivered = known.filter(|(of, _)| *of == epoch).unwrap_or_default().1;
            let resumed = self.resolver.resume(node, &key, &delivered, &mut effects);
            resumed.unwrap();
            outputs = vec![super::value::rest(&delivered, epoch)];
        }
        for (port, frames) in outputs.into_iter().enumerate() {
            for frame in frames {
                let port = PortIx(port as u32);
                let sent = self.resolver.emit(node, &key, port, frame, &mut effects);
                sent.unwrap();
            }
        }
        self.resolver.finish(node, &key, &mut effects).unwrap();
        self.carry_out(effects);
        self.report(node, &key, epoch, Said::Done);
    }

    fn report(&mut self, node: NodeId, key: &Key, epoch: u32, said: Said) {
        let report = Message::Report(node, key.clone(), epoch, said);
        self.out.push((SCHEDULER, report));
    }

    fn epoch(&self, node: NodeId, key: &Key) -> u32 {
        let at = (node, self.graph.bind_key(node, key));
        self.bound.get(&at).map_or(0, |(_, epoch)| *epoch)
    }

    fn tells_anew(&self) -> bool {
        let mut nodes = (0..self.graph.nodes().len() as u32).map(NodeId);
        nodes.any(|node| self.graph.resumes(node))
    }

    pub fn carry_out(&mut self, effects: Vec<Effect<Value>>) {
        for effect in effects {
            match effect {
                Effect::Activate {
                    node,
                    key,
                    epoch,
                    inputs,
                    ..
                } => {
                    self.report(node, &key, epoch, Said::Queued);
                    self.ready.insert((node, key), (epoch, inputs));
                }
                Effect::Send {
                    edge,
                    key,
                    epoch,
                    item,
                } => self.send(Sent {
                    edge,
                    key,
                    epoch,
                    item,
                }),
                Effect::ScopeLeft { scope, key, by } => {
                    self.out
                        .push((SCHEDULER, Message::Left(scope, key.clone(), by)));
                    if self.me != SCHEDULER {
                        self.left(scope, &key, by);
                    }
                }
                Effect::Cancelled { node, key } => {
                    if let Some((epoch, _)) = self.ready.remove(&(node, key.clone())) {
                        self.report(node, &key, epoch, Said::Stopped);
                    }
                }
                Effect::NodeClosed { node, key } if self.me != SCHEDULER => {
                    let epoch = self.epoch(node, &key);
                    self.report(node, &key, epoch, Said::Stopped);
                }
                Effect::Failed { node, key, fault } => panic!("{node:?} {key}: {fault}"),
                // Only what is drawn anew by each attempt may be.
                Effect::Contradiction { edge, seq, .. } if self.tells_anew() => match self.me {
                    SCHEDULER => self.seen.push(effect),
                    _ => self
                        .out
                        .push((SCHEDULER, Message::Contradiction(edge, seq))),
                },
                Effect::Contradiction { edge, key, seq } => {
                    panic!("{edge:?} contradicts itself at {key}, {seq}")
                }
                Effect::Deliver { .. } | Effect::StreamEnd { .. } => {
                    panic!("no role here reads a stream")
                }
                Effect::Unwanted { .. } | Effect::Unneeded { .. } => {}
                other => self.seen.push(other),
            }
        }
    }
}

/// Whether it was sent by that bind, or by a control node at its side.
fn by(graph: &Graph, sent: &Sent, node: NodeId, bind: &Key) -> bool {
    let Origin::Node { node: from, .. } = graph.edge(sent.edge).unwrap().from else {
        return false;
    };
    graph.home(from) == Home::Node(node) && graph.bind_key(node, &sent.key).extends(bind)
}

fn is_within(graph: &Graph, node: NodeId, outer: ScopeId) -> bool {
    let mut scope = graph.node(node).unwrap().scope;
    while scope != ScopeId::ROOT {
        if scope == outer {
            return true;
        }
        scope = graph.spec().scopes[scope.index() - 1].parent;
    }
    false
}
