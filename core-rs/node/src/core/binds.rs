//! Who runs what: first binds, and nodes that move.

use omniflow_flow::{EdgeId, Key, NodeId};

use crate::core::job::{Context, Job, Place};
use crate::core::peers::SELF;
use crate::core::site::Subject;
use crate::ids::PeerIx;
use omniflow_wire::v1;

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
            self.resend_into(bind.node, &bind.key, cx);
        }
    }

    fn is_newer(&self, bind: &NewPlace) -> bool {
        self.places
            .get(&(bind.node, bind.key.clone()))
            .is_none_or(|known| known.epoch < bind.epoch)
    }

    fn place(&mut self, bind: &NewPlace, cx: &mut Context<'_>) {
        let at = (bind.node, bind.key.clone());
        let place = Place {
            peer: bind.peer,
            epoch: bind.epoch,
        };
        self.withdraw(&at, cx.site);
        if self.places.insert(at, place).is_some() {
            self.forget_attempts_before(bind, cx);
        }
    }

    /// The new attempt sends everything anew. What its consumers have been given stays with them.
    fn forget_attempts_before(&mut self, bind: &NewPlace, cx: &mut Context<'_>) {
        let of_node = |edge| self.flow.producer(edge) == Some(bind.node);
        let known = self.sent.edges().chain(self.received.edges());
        let edges = known.filter(|(edge, key)| of_node(*edge) && **key == bind.key);
        let edges: Vec<EdgeId> = edges.map(|(edge, _)| edge).collect();
        for edge in edges {
            cx.site.retained_bytes -= self.sent.forget_older(edge, &bind.key, bind.epoch);
            self.received.forget_older(edge, &bind.key, bind.epoch);
        }
    }

    fn host(&mut self, bind: &NewPlace, cx: &mut Context<'_>) {
        let mut effects = Vec::new();
        if bind.peer == SELF {
            let hosted = self
                .resolver
                .host(bind.node, &bind.key, bind.epoch, &mut effects);
            if let Err(error) = hosted {
                self.refuse(bind, error.to_string(), cx);
            }
        } else {
            self.resolver.unhost(bind.node, &bind.key);
            self.resolver
                .producer_restarted(bind.node, &bind.key, bind.epoch);
        }
        self.settle(effects, cx);
    }

    fn refuse(&self, bind: &NewPlace, message: String, cx: &mut Context<'_>) {
        let subject = Subject {
            job: self.info.id,
            node: bind.node,
            key: &bind.key,
            epoch: bind.epoch,
        };
        let error = v1::Error {
            code: v1::ErrorCode::Internal.into(),
            message,
            ..Default::default()
        };
        cx.site
            .failed(&subject, Some(&self.flow), error, cx.now, cx.out);
    }
}
