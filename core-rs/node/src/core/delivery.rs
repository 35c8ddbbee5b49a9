//! From a producer here to wherever the consumer is: first time, when that is bound, after a move, after a broken link.

use bytes::Bytes;
use omniflow_flow::{Arrival, EdgeId, Effect, Item, Key, Payload, Reader};
use omniflow_wire::{Frame, v1};

use crate::core::binds::NewPlace;
use crate::core::job::{At, Context, Job};
use crate::core::outputs::Target;
use crate::core::peers::SELF;
use crate::core::retention::Kept;
use crate::ids::PeerIx;

/// Where an edge leads now, for one key.
enum Route {
    Scheduler,
    Place(PeerIx),
    /// It was given back from here: what was sent is kept and follows the next bind.
    Leaving,
    /// Not bound yet: what was sent is kept and follows the bind.
    Unbound(At),
    /// To every place with a key of a scope: to these, and to those to come.
    Every(Vec<PeerIx>),
}

impl Job {
    /// Keeps the item and brings it to its consumer, if there is a way now.
    pub(crate) fn send(
        &mut self,
        edge: EdgeId,
        key: &Key,
        epoch: u32,
        item: Item<Bytes>,
        more: &mut Vec<Effect<Bytes>>,
        cx: &mut Context<'_>,
    ) {
        if self.failed || self.is_left(edge, key) {
            return;
        }
        self.note_rounds(edge, key, cx);
        if self.flow.wires.is_internal(edge)
            && matches!(self.route(edge, key), Some(Route::Place(SELF)))
        {
            // Who sends it, sends it again whenever its reader begins again.
            return self.bring(SELF, edge, key, Kept { epoch, item }, more, cx);
        }
        let kept = Kept { epoch, item };
        if let Err(stall) = self.keep(edge, key, &kept, cx) {
            return self.stall(edge, key, epoch, &stall, cx);
        }
        let mark = self.flow.graph.is_mark(edge, &kept.item);
        match self.route(edge, key) {
            None | Some(Route::Leaving) => {}
            Some(Route::Place(_) | Route::Scheduler) if self.flow.wires.is_paced(edge) => {
                self.pass_on(edge, key, more, cx);
            }
            Some(Route::Place(peer)) => self.bring(peer, edge, key, kept, more, cx),
            Some(Route::Scheduler) => self.transmit(Target::Scheduler, edge, key, &kept, cx),
            Some(Route::Unbound(_)) if mark => {
                self.transmit(Target::Scheduler, edge, key, &kept, cx);
            }
            Some(Route::Unbound(at)) => self.ask(edge, at, cx),
            Some(Route::Every(peers)) => {
                if mark {
                    // The scheduler closes those that are not bound (rule 7).
                    self.transmit(Target::Scheduler, edge, key, &kept, cx);
                }
                for peer in peers {
                    self.sent.give(edge, key, peer);
                    self.bring(peer, edge, key, kept.clone(), more, cx);
                }
            }
        }
    }

    /// Of a stream whose reader says how much may come: what may, and has not gone yet.
    pub(crate) fn pass_on(
        &mut self,
        edge: EdgeId,
        key: &Key,
        more: &mut Vec<Effect<Bytes>>,
        cx: &mut Context<'_>,
    ) {
        let target = match self.route(edge, key) {
            Some(Route::Place(peer)) => Target::Peer(peer),
            Some(Route::Scheduler) => Target::Scheduler,
            _ => return,
        };
        let allowed = self.credits.allowed(edge, key);
        let flow = std::sync::Arc::clone(&self.flow);
        let size = |payload: &Bytes| match flow.wires.producer(edge) {
            Some(node) if flow.graph.resumes(node) => payload.shown().len(),
            _ => payload.len(),
        };
        loop {
            let spill = &cx.site.keeping.spill;
            match self.sent.pass(edge, key, allowed, spill, size) {
                Ok(Some(kept)) => match target {
                    Target::Peer(peer) => self.bring(peer, edge, key, kept, more, cx),
                    Target::Scheduler => self.transmit(target, edge, key, &kept, cx),
                },
                Ok(None) => return,
                Err(error) => return self.unreadable(edge, key, &error, cx),
            }
        }
    }

    fn bring(
        &mut self,
        peer: PeerIx,
        edge: EdgeId,
        key: &Key,
        kept: Kept,
        more: &mut Vec<Effect<Bytes>>,
        cx: &mut Context<'_>,
    ) {
        if peer != SELF {
            return self.transmit(Target::Peer(peer), edge, key, &kept, cx);
        }
        let through = self.flow.wires.passes_through(edge).is_some();
        let item = through.then(|| kept.item.clone());
        let accepted = self.resolver.accept(edge, key, kept.epoch, kept.item, more);
        match accepted {
            Ok(Arrival::Taken | Arrival::Parked) => {
                if let Some(item) = item {
                    self.note_came(edge, key, &item, cx);
                }
            }
            Ok(_) => {}
            Err(error) => self.broken(edge, key, &error, cx),
        }
    }

    fn route(&self, edge: EdgeId, key: &Key) -> Option<Route> {
        Some(match self.flow.graph.reader(edge, key)? {
            Reader::Scheduler => Route::Scheduler,
            Reader::One(node, bind) => match self.places.get(node, &bind) {
                Some(place) if place.given_back => Route::Leaving,
                Some(place) => Route::Place(place.peer),
                None => Route::Unbound((node, bind)),
            },
            Reader::Every(node, prefix) => Route::Every(self.places.of_all(node, &prefix)),
        })
    }

    /// Whether what goes out on an edge now goes to that target.
    fn leads_to(&self, target: Target, edge: EdgeId, key: &Key) -> bool {
        match (self.route(edge, key), target) {
            (Some(Route::Scheduler), Target::Scheduler) => true,
            (Some(Route::Place(peer)), Target::Peer(to)) => peer == to,
            (Some(Route::Every(peers)), Target::Peer(to)) => peers.contains(&to),
            _ => false,
        }
    }

    fn transmit(&self, target: Target, edge: EdgeId, key: &Key, kept: &Kept, cx: &mut Context<'_>) {
        let way = match target {
            Target::Scheduler => cx.site.scheduler_up,
            Target::Peer(peer) => cx.site.reach(peer, cx.out),
        };
        // Without a way it is kept, and sent when the link is up.
        if way {
            let frame = self.frame(edge, key, kept);
            cx.site.counters.frames_out += 1;
            cx.site.counters.bytes_out += frame.payload.len() as u64;
            cx.out.send(target, frame);
        }
    }

    fn frame(&self, edge: EdgeId, key: &Key, kept: &Kept) -> Frame {
        let (mark, seq, count, payload) = match &kept.item {
            Item::Frame { seq, payload } => (v1::Mark::None, *seq, 0, payload.clone()),
            Item::End { count } => (v1::Mark::End, 0, *count, Bytes::new()),
            Item::Closed => (v1::Mark::Closed, 0, 0, Bytes::new()),
        };
        let header = v1::FrameHeader {
            job: self.info.id.0,
            edge: edge.0,
            key: key.path().to_vec(),
            seq,
            epoch: kept.epoch,
            mark: mark.into(),
            count,
            ..Default::default()
        };
        Frame { header, payload }
    }

    // --- again --------------------------------------------------------------------------------------------------------

    /// The consumer has a new place (or is new): everything that was kept for it, frames and marks.
    pub(crate) fn resend_into(&mut self, bind: &NewPlace, cx: &mut Context<'_>) {
        if bind.epoch > 1 {
            self.fail_if_gone(bind, cx);
            self.read_on(bind, cx);
        }
        let flow = std::sync::Arc::clone(&self.flow);
        for edge in flow.wires.incoming(bind.node) {
            for key in self.kept_for(*edge, bind) {
                self.resend(*edge, &key, bind, cx);
            }
        }
    }

    fn resend(&mut self, edge: EdgeId, key: &Key, bind: &NewPlace, cx: &mut Context<'_>) {
        let for_all = matches!(self.flow.graph.reader(edge, key), Some(Reader::Every(..)));
        if for_all && !self.sent.give(edge, key, bind.peer) && bind.epoch == 1 {
            return;
        }
        self.sent.revive(edge, key);
        self.received.revive(edge, key);
        if self.flow.wires.is_paced(edge) {
            self.sent.rewind(edge, key);
            let here = match bind.peer {
                SELF => self.received.of(edge, key),
                _ => Vec::new(),
            };
            for kept in here {
                let mut effects = Vec::new();
                self.bring(SELF, edge, key, kept, &mut effects, cx);
                self.settle(effects, cx);
            }
            let mut effects = Vec::new();
            self.pass_on(edge, key, &mut effects, cx);
            return self.settle(effects, cx);
        }
        if bind.peer != SELF {
            for kept in self.sent.of(edge, key) {
                self.transmit(Target::Peer(bind.peer), edge, key, kept, cx);
            }
            return;
        }
        let mut here = self.received.of(edge, key);
        here.extend(self.sent.of(edge, key).cloned());
        for kept in here {
            let mut effects = Vec::new();
            self.bring(SELF, edge, key, kept, &mut effects, cx);
            self.settle(effects, cx);
        }
    }

    /// Keys under which something was kept on an edge for a bind.
    fn kept_for(&self, edge: EdgeId, bind: &NewPlace) -> Vec<Key> {
        let for_it = |key: &&Key| match self.flow.graph.reader(edge, key) {
            Some(Reader::One(node, at)) => node == bind.node && at == bind.key,
            Some(Reader::Every(node, prefix)) => node == bind.node && bind.key.extends(&prefix),
            _ => false,
        };
        let wires = &self.flow.wires;
        let outer = match wires.rounds(edge).is_empty() {
            true => bind.key.prefix(wires.depth(edge)),
            // Rounds stand between the indices of the bind's key.
            false => Key::ROOT,
        };
        let sent = self.sent.keys_inside(edge, &outer).filter(for_it);
        let mut keys: Vec<Key> = sent.cloned().collect();
        let received = self.received.keys_inside(edge, &outer).filter(for_it);
        let more: Vec<Key> = received
            .filter(|key| !keys.contains(key))
            .cloned()
            .collect();
        keys.extend(more);
        keys
    }

    /// The way to `target` is open (again): everything that was sent that way.
    pub(crate) fn resend_to(&mut self, target: Target, cx: &mut Context<'_>) {
        let mut unreadable = None;
        for (edge, key) in self.sent.edges() {
            let leads = self.leads_to(target, edge, key);
            if leads && self.flow.wires.is_paced(edge) {
                let read = match target {
                    // What it has read is with a client; it may still lack some of that itself.
                    Target::Scheduler => 0,
                    Target::Peer(_) => self.credits.read(edge, key),
                };
                for stored in self.sent.passed(edge, key, read) {
                    match stored.load(&cx.site.keeping.spill) {
                        Ok(kept) => self.transmit(target, edge, key, &kept, cx),
                        Err(error) => unreadable = Some((edge, key.clone(), error)),
                    }
                }
                continue;
            }
            for kept in self.sent.of(edge, key) {
                let marked = target == Target::Scheduler && self.goes_to_scheduler(edge, key, kept);
                if leads || marked {
                    self.transmit(target, edge, key, kept, cx);
                }
            }
        }
        if let Some((edge, key, error)) = unreadable {
            self.unreadable(edge, &key, &error, cx);
        }
        if target == Target::Scheduler {
            self.pass_results_on(cx);
            self.ask_again(cx);
            self.tell_left_again(cx);
        }
    }

    /// Whether it is a mark for somebody who is not bound.
    fn goes_to_scheduler(&self, edge: EdgeId, key: &Key, kept: &Kept) -> bool {
        self.flow.graph.is_mark(edge, &kept.item)
            && matches!(
                self.route(edge, key),
                Some(Route::Unbound(_) | Route::Every(_))
            )
    }

    /// Whether something was sent to the peer, which a broken link may have lost.
    pub(crate) fn needs(&self, peer: PeerIx) -> bool {
        let mut edges = self.sent.edges();
        edges.any(|(edge, key)| self.leads_to(Target::Peer(peer), edge, key)) || self.has_told(peer)
    }

    /// Rule 11: the attempt cannot be repeated when frames that it had read were given up.
    fn fail_if_gone(&mut self, bind: &NewPlace, cx: &mut Context<'_>) {
        let wires = &self.flow.wires;
        let mut incoming = wires.incoming(bind.node).iter();
        let gone = incoming
            .find(|edge| wires.rounds(**edge).is_empty() && self.sent.is_gone(**edge, &bind.key));
        if let Some(edge) = gone {
            let edge = self.flow.edge_name(*edge);
            let message = format!(
                "edge {edge}: frames that an earlier attempt had read are kept no longer, so that it cannot run again"
            );
            self.refuse(bind, v1::ErrorCode::NotReplayable, message, cx);
        }
    }
}
