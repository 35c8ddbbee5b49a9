//! The workers that jobs of this worker name, and whether a link to them is up.

use omniflow_link::Address;
use omniflow_wire::v1;
use rustc_hash::FxHashMap;

use crate::ids::PeerIx;

/// How far a link to a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// Nobody dials.
    Idle,
    /// The driver dials, until it succeeds or nobody needs the peer.
    Dialling,
    /// Messages can be sent.
    Up,
}

/// One incarnation of a worker.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) incarnation: String,
    pub(crate) addresses: Vec<Address>,
    pub(crate) link: LinkState,
    /// The scheduler's number for it, in the newest term that named it.
    pub(crate) id: u32,
}

/// All peers; the first is this worker itself.
#[derive(Debug)]
pub(crate) struct PeerTable {
    peers: Vec<Peer>,
    by_id: FxHashMap<u32, PeerIx>,
    by_name: FxHashMap<(String, String), PeerIx>,
}

/// This worker in its own table.
pub(crate) const SELF: PeerIx = PeerIx(0);

impl PeerTable {
    pub(crate) fn new(name: &str, incarnation: &str) -> Self {
        let me = Peer {
            name: name.to_owned(),
            incarnation: incarnation.to_owned(),
            addresses: Vec::new(),
            link: LinkState::Idle,
            id: 0,
        };
        let by_name = [((me.name.clone(), me.incarnation.clone()), SELF)];
        Self {
            peers: vec![me],
            by_id: FxHashMap::default(),
            by_name: by_name.into_iter().collect(),
        }
    }

    /// The numbers of an earlier term mean nothing any more.
    pub(crate) fn new_term(&mut self) {
        self.by_id.clear();
    }

    pub(crate) fn learn(&mut self, peer: v1::Peer) {
        // An address that does not parse is one that cannot be dialled: the others may still do.
        let addresses = peer.addresses.iter().filter_map(|text| text.parse().ok());
        let addresses: Vec<Address> = addresses.collect();
        let name = (peer.name.clone(), peer.incarnation.clone());
        let ix = *self.by_name.entry(name).or_insert_with(|| {
            self.peers.push(Peer {
                name: peer.name,
                incarnation: peer.incarnation,
                addresses: Vec::new(),
                link: LinkState::Idle,
                id: peer.id,
            });
            PeerIx(self.peers.len() - 1)
        });
        self.by_id.insert(peer.id, ix);
        if let Some(known) = self.peers.get_mut(ix.0) {
            known.addresses = addresses;
            known.id = peer.id;
        }
    }

    pub(crate) fn by_id(&self, id: u32) -> Option<PeerIx> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn get(&self, peer: PeerIx) -> &Peer {
        &self.peers[peer.0]
    }

    pub(crate) fn set_link(&mut self, peer: PeerIx, link: LinkState) {
        self.peers[peer.0].link = link;
    }
}
