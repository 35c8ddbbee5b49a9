//! Who runs what of a job: nodes by the keys of their binds.

use omniflow_flow::{Key, NodeId};

use crate::core::lanes::Lanes;
use crate::core::peers::SELF;
use crate::ids::PeerIx;

/// Who runs a node, and under which epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) peer: PeerIx,
    pub(crate) epoch: u32,
    /// It was here and was given back: where it goes is not known yet, and until then nothing is sent to it.
    pub(crate) given_back: bool,
}

impl Place {
    /// Whether it is to run on this worker.
    pub(crate) fn is_here(&self) -> bool {
        self.peer == SELF && !self.given_back
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Places {
    bound: Lanes<Place>,
    /// Of the scheduler that said so.
    term: u64,
}

impl Places {
    pub(crate) fn get(&self, node: NodeId, key: &Key) -> Option<Place> {
        self.bound.get(node.0, key).copied()
    }

    /// Every bind that is known.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Key, &Place)> {
        let bound = self.bound.iter();
        bound.map(|(node, key, place)| (NodeId(node), key, place))
    }

    /// The place before.
    pub(crate) fn set(&mut self, node: NodeId, key: &Key, place: Place) -> Option<Place> {
        self.bound.insert(node.0, key, place)
    }

    /// It will not run here under this bind.
    pub(crate) fn give_back(&mut self, node: NodeId, key: &Key) {
        if let Some(place) = self.bound.get_mut(node.0, key) {
            place.given_back = true;
        }
    }

    /// Where a node is bound for this key or for one inside of it, each place once.
    pub(crate) fn of_all(&self, node: NodeId, outer: &Key) -> Vec<PeerIx> {
        let mut peers = Vec::new();
        for (_, place) in self.bound.inside(node.0, outer) {
            if !peers.contains(&place.peer) {
                peers.push(place.peer);
            }
        }
        peers
    }

    /// A scheduler speaks of them. True when it is another one than before.
    pub(crate) fn renew(&mut self, term: u64) -> bool {
        let before = std::mem::replace(&mut self.term, term);
        before != 0 && before != term
    }

    /// Nobody knows where it is any more.
    pub(crate) fn forget(&mut self, node: NodeId, key: &Key) {
        self.bound.remove(node.0, key);
    }

    /// Nobody needs to know any more where a node is bound for keys inside of this one.
    pub(crate) fn forget_inside(&mut self, node: NodeId, outer: &Key) {
        self.bound.remove_inside(node.0, outer);
    }
}
