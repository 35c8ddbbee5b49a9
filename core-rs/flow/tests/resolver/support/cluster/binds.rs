//! Where nodes run, and what becomes of a worker that is lost.

use omniflow_flow::{
    Delivered, Destination, EdgeId, Home, Key, NodeId, NodeKind, Origin, PortIx, Reader, Resolver,
    ScopeId,
};

use super::{At, Cluster, Event};

impl Cluster {
    pub(super) fn ask(&mut self, node: NodeId, key: Key) {
        if self.asked.insert((node, key.clone())) {
            self.pending.push(Event::Bind(node, key));
        }
    }

    pub(super) fn bind(&mut self, node: NodeId, key: Key) {
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
    pub(super) fn resend(&mut self, node: NodeId, key: &Key, place: usize, marks: bool) {
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

    /// A worker is lost, and what it kept of what was sent from there. What ran there starts again, maybe elsewhere, under a
    /// higher epoch; what was over does, if its readers start again (rule 11).
    pub fn lose(&mut self, place: usize) {
        self.lost = true;
        self.hear_of_scopes();
        self.places[place] = Resolver::new(self.graph.clone());
        let to_it = |event: &Event| match event {
            Event::Item(to, ..) | Event::Host(to, ..) => *to == place,
            _ => false,
        };
        self.pending.retain(|event| !to_it(event));
        for (scope, key, by) in self.seen.left.clone() {
            self.places[place].scope_left(scope, &key, by, &mut Vec::new());
        }
        let bound = self.bound.iter().filter(|(_, (at, _))| *at == place);
        let lost: Vec<At> = bound.map(|(at, _)| at.clone()).collect();
        for (node, key) in &lost {
            self.forget_sent(*node, key);
            self.gone.insert((*node, key.clone()));
        }
        // What runs at its side may be outside of the scope that has ended.
        let over = |(node, key): &&At| {
            let side = self.graph.companions(*node);
            std::iter::once(node).chain(side).all(|node| {
                let scope = self.graph.node(*node).unwrap().scope;
                self.seen.unneeded(&self.graph, scope, key)
            })
        };
        let mut again: Vec<At> = lost.iter().filter(|at| !over(at)).cloned().collect();
        let mut known = 0;
        while let Some(at) = again.get(known).cloned() {
            known += 1;
            let dropped = self.unfinished.iter().filter(|at| self.is_dropped(at));
            let missing = self.gone.iter().chain(dropped);
            let needed = missing.filter(|missing| self.feeds(missing, &at));
            let needed: Vec<At> = needed.filter(|at| !again.contains(at)).cloned().collect();
            again.extend(needed);
        }
        self.add_rounds(&mut again);
        if self.must_start_over(&again) {
            return self.start_over();
        }
        for (node, key) in again.iter().filter(|at| !lost.contains(at)) {
            // It lives, and is taken from where it is.
            let (place, _) = self.bound[&(*node, key.clone())];
            self.forget_sent(*node, key);
            self.places[place].unhost(*node, key);
        }
        for (node, key) in again {
            self.gone.remove(&(node, key.clone()));
            self.unfinished.insert((node, key.clone()));
            let (_, epoch) = self.bound[&(node, key.clone())];
            self.restart(node, &key, epoch + 1);
        }
    }

    /// A loop that starts again begins with its first round, of which the others have let go: they start again, too.
    fn add_rounds(&self, again: &mut Vec<At>) {
        let mut known = 0;
        while let Some((node, key)) = again.get(known).cloned() {
            known += 1;
            for scope in self.loops_beside(node) {
                let inside = self.bound.keys();
                let inside = inside
                    .filter(|(other, bind)| self.is_within(*other, scope) && bind.extends(&key));
                let inside: Vec<At> = inside.filter(|at| !again.contains(at)).cloned().collect();
                again.extend(inside);
            }
        }
    }

    /// Whether something starts again that would need what is gone: the rounds of a loop that is over, or a scope in a loop
    /// of which a round is over.
    fn must_start_over(&self, again: &[At]) -> bool {
        let turned = self.seen.left.iter().any(|(scope, ..)| {
            let parent = self.graph.spec().scopes[scope.index() - 1].parent;
            self.is_in_loop(parent)
        });
        let over = again.iter().any(|(node, key)| {
            self.loops_beside(*node).any(|scope| {
                let mut left = self.seen.left.iter();
                left.any(|(of, at, _)| *of == scope && (at.extends(key) || key.extends(at)))
            })
        });
        !again.is_empty() && (turned || over)
    }

    /// Loops that run at the side of a node.
    fn loops_beside(&self, node: NodeId) -> impl Iterator<Item = ScopeId> {
        let side = self.graph.companions(node).iter();
        let kinds = side.map(|beside| &self.graph.node(*beside).unwrap().kind);
        kinds.filter_map(|kind| match kind {
            NodeKind::Loop { scope, .. } => Some(*scope),
            _ => None,
        })
    }

    fn is_within(&self, node: NodeId, outer: ScopeId) -> bool {
        let mut scope = self.graph.node(node).unwrap().scope;
        while scope != ScopeId::ROOT && scope != outer {
            scope = self.graph.spec().scopes[scope.index() - 1].parent;
        }
        scope == outer
    }

    fn is_in_loop(&self, mut scope: ScopeId) -> bool {
        while scope != ScopeId::ROOT {
            let spec = &self.graph.spec().scopes[scope.index() - 1];
            if spec.is_loop {
                return true;
            }
            scope = spec.parent;
        }
        false
    }

    /// The job runs again from its inputs; nothing of its earlier run is heard any more.
    fn start_over(&mut self) {
        let mut fresh = Self::new(self.graph.clone(), self.places.len(), self.random);
        fresh.wild = self.wild;
        fresh.lost = true;
        fresh.starts_over = self.starts_over + 1;
        fresh.feed(&self.inputs);
        *self = fresh;
    }

    /// Whether its scope has ended before it had begun again.
    fn is_dropped(&self, (node, key): &At) -> bool {
        let (place, _) = self.bound[&(*node, key.clone())];
        self.places[place].has_ended(self.graph.node(*node).unwrap().scope, key)
    }

    /// The scheduler's messages keep their order: what it has told of scopes comes before what it decides now.
    fn hear_of_scopes(&mut self) {
        let is_left = |event: &Event| matches!(event, Event::Left(..));
        let (left, rest) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(is_left);
        self.pending = rest;
        for event in left {
            self.happen(event);
        }
    }

    /// The same the other way round.
    pub(super) fn hear_of_binds(&mut self, place: usize) {
        let is_bind = |event: &Event| matches!(event, Event::Host(at, _, _, epoch) if *at == place && *epoch > 1);
        let (binds, rest) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(is_bind);
        self.pending = rest;
        for event in binds {
            self.happen(event);
        }
    }

    /// Whether something that this bind sends is read by what runs because of the other.
    fn feeds(&self, (producer, key): &At, (reader, other): &At) -> bool {
        let readers = std::iter::once(reader).chain(self.graph.companions(*reader));
        let home = |edge: EdgeId| match self.graph.edge(edge).unwrap().from {
            Origin::Input { .. } => None,
            Origin::Node { node, .. } => Some(self.graph.home(node)),
        };
        let mut edges = readers.flat_map(|node| {
            let ports = 0..self.graph.node(*node).unwrap().inputs.len() as u32;
            ports.filter_map(|port| self.graph.edge_into(*node, PortIx(port)))
        });
        (key.extends(other) || other.extends(key))
            && edges.any(|edge| home(edge) == Some(Home::Node(*producer)))
    }

    /// What a bind has sent, and its control nodes, is not there to be sent again.
    fn forget_sent(&mut self, node: NodeId, key: &Key) {
        let by_it = |edge: EdgeId, frame_key: &Key| match self.graph.edge(edge).unwrap().from {
            Origin::Input { .. } => false,
            Origin::Node { node: from, .. } => {
                let run = frame_key.prefix(self.depth(from));
                self.graph.home(from) == Home::Node(node) && self.graph.bind_key(node, &run) == *key
            }
        };
        let kept = self.retained.iter();
        let kept = kept.filter(|(edge, frame_key, ..)| !by_it(*edge, frame_key));
        self.retained = kept.cloned().collect();
        let graph = self.graph.clone();
        let bound = |at: &At| at.0 == node && graph.bind_key(node, &at.1) == *key;
        self.running.retain(|at, _| !bound(at));
        self.ready.retain(|at, _| !bound(at));
    }

    fn restart(&mut self, node: NodeId, key: &Key, epoch: u32) {
        let graph = self.graph.clone();
        let bound = |at: &At| at.0 == node && graph.bind_key(node, &at.1) == *key;
        self.seen.lose(bound);
        let again = graph.companions(node);
        let left_again = |(_, at, by): &(ScopeId, Key, NodeId)| {
            again.contains(by) && graph.bind_key(node, at).extends(key)
        };
        self.seen.left.retain(|left| !left_again(left));
        self.forget_refusals(node, key);
        let place = 1 + self.choose(self.places.len() - 1);
        self.bound.insert((node, key.clone()), (place, epoch));
        let mut delivered = Delivered::default();
        for other in &mut self.places {
            other.producer_restarted(node, key, epoch);
            delivered = delivered.longer(other.delivered(node, key));
        }
        self.resuming
            .insert((node, key.clone()), (epoch, delivered));
        self.pending
            .push(Event::Host(place, node, key.clone(), epoch));
    }

    /// What the attempt that was lost did not want, the next one may: it is not told to producers any more.
    fn forget_refusals(&mut self, node: NodeId, key: &Key) {
        let graph = self.graph.clone();
        let by_it = |event: &Event| {
            let Event::Unwanted(edge, at) = event else {
                return false;
            };
            let Destination::Node { node: reader, .. } = graph.edge(*edge).unwrap().to else {
                return false;
            };
            let of_it = reader == node || graph.companions(node).contains(&reader);
            of_it && graph.bind_key(node, at).extends(key)
        };
        self.pending.retain(|event| !by_it(event));
    }

    pub(super) fn depth(&self, node: NodeId) -> usize {
        let mut scope = self.graph.node(node).unwrap().scope;
        let mut depth = 0;
        while scope != ScopeId::ROOT {
            scope = self.graph.spec().scopes[scope.index() - 1].parent;
            depth += 1;
        }
        depth
    }
}
