//! Who runs what: first binds, and nodes that move.

use omniflow_flow::{EdgeId, Home, Key, NodeId};
use omniflow_wire::v1;

use crate::core::job::{At, Context, Job, stop};
use crate::core::peers::SELF;
use crate::core::places::Place;
use crate::core::site::Subject;
use crate::ids::PeerIx;

/// One bind, its worker looked up.
#[derive(Clone, Debug)]
pub(crate) struct NewPlace {
    pub(crate) node: NodeId,
    pub(crate) key: Key,
    pub(crate) peer: PeerIx,
    pub(crate) epoch: u32,
}

impl Job {
    /// Takes over the binds that are newer than what is known. All places are known before anything is sent.
    pub(crate) fn bind(&mut self, binds: Vec<NewPlace>, cx: &mut Context<'_>) {
        let newer: Vec<NewPlace> = binds
            .into_iter()
            .filter(|bind| self.is_newer(bind))
            .collect();
        for bind in &newer {
            self.place(bind, cx);
        }
        for bind in &newer {
            self.host(bind, cx);
        }
        for bind in &newer {
            self.resend_into(bind, cx);
            if bind.epoch > 1 {
                self.tell_new_producer(bind.node, &bind.key, cx);
            }
        }
    }

    /// The epoch under which a node runs for a key (of a run), wherever that is; of a control node, that of its home.
    pub(crate) fn epoch_of(&self, node: NodeId, key: &Key) -> u32 {
        let Home::Node(home) = self.flow.graph.home(node) else {
            return 0;
        };
        let bind = self.flow.graph.bind_key(home, key);
        self.places.get(home, &bind).map_or(0, |place| place.epoch)
    }

    fn is_newer(&self, bind: &NewPlace) -> bool {
        let known = self.places.get(bind.node, &bind.key);
        known.is_none_or(|known| known.epoch < bind.epoch)
    }

    fn place(&mut self, bind: &NewPlace, cx: &mut Context<'_>) {
        let place = Place {
            peer: bind.peer,
            epoch: bind.epoch,
            given_back: false,
        };
        self.asked.remove(&(bind.node, bind.key.clone()));
        let known = self.places.set(bind.node, &bind.key, place);
        if known.is_some() || bind.epoch > 1 {
            self.withdraw(bind, cx);
            self.forget_grants_before(bind.node, &bind.key, bind.epoch, cx);
            self.forget_attempts_before(bind, cx);
        }
    }

    /// Ends the attempts of an earlier bind that are here.
    fn withdraw(&mut self, bind: &NewPlace, cx: &mut Context<'_>) {
        let graph = &self.flow.graph;
        let bound = |at: &&At| at.0 == bind.node && graph.bind_key(at.0, &at.1) == bind.key;
        let activations: Vec<At> = self.activations.keys().filter(bound).cloned().collect();
        for at in activations {
            if let Some(activation) = self.activations.remove(&at) {
                stop(&activation, cx.site);
            }
        }
    }

    /// The new attempt sends everything anew. What its consumers have been given stays with them.
    fn forget_attempts_before(&mut self, bind: &NewPlace, cx: &mut Context<'_>) {
        let flow = std::sync::Arc::clone(&self.flow);
        for edge in flow.wires.outgoing(bind.node) {
            let known = self.sent.keys(*edge).chain(self.received.keys(*edge));
            let of_bind = known.filter(|key| self.is_sent_by(*edge, key, bind));
            let keys: Vec<Key> = of_bind.cloned().collect();
            for key in keys {
                let freed = self.sent.forget_older(*edge, &key, bind.epoch);
                cx.site.take_back(freed);
                self.received.forget_older(*edge, &key, bind.epoch);
            }
            self.sent.begin_again(*edge, &bind.key);
            let of_bind = |key: &Key| self.is_sent_by(*edge, key, bind);
            let anew = self.cut.keys(*edge).filter(|key| of_bind(key)).cloned();
            for key in anew.collect::<Vec<_>>() {
                self.cut.forget(*edge, &key);
            }
        }
        for scope in flow.wires.loops(bind.node) {
            self.scopes.begin_again(*scope);
        }
    }

    fn is_sent_by(&self, edge: EdgeId, key: &Key, bind: &NewPlace) -> bool {
        let wires = &self.flow.wires;
        let Some(producer) = wires.producer(edge) else {
            return false;
        };
        let run = key.prefix(wires.node_depth(producer));
        self.flow.graph.bind_key(bind.node, &run) == bind.key
    }

    fn host(&mut self, bind: &NewPlace, cx: &mut Context<'_>) {
        let mut effects = Vec::new();
        if bind.peer == SELF {
            let hosted = self
                .resolver
                .host(bind.node, &bind.key, bind.epoch, &mut effects);
            if let Err(error) = hosted {
                self.refuse(bind, v1::ErrorCode::Internal, error.to_string(), cx);
            }
        } else if bind.epoch > 1 {
            self.resolver.unhost(bind.node, &bind.key);
            self.resolver
                .producer_restarted(bind.node, &bind.key, bind.epoch);
        }
        self.settle(effects, cx);
    }

    /// Says why a node cannot run as it was bound.
    pub(crate) fn refuse(
        &self,
        bind: &NewPlace,
        code: v1::ErrorCode,
        message: String,
        cx: &mut Context<'_>,
    ) {
        let subject = Subject {
            job: self.info.id,
            node: bind.node,
            key: &bind.key,
            epoch: bind.epoch,
        };
        let error = v1::Error {
            code: code.into(),
            message,
            ..Default::default()
        };
        cx.site
            .failed(&subject, Some(&self.flow), error, cx.now, cx.out);
    }
}
