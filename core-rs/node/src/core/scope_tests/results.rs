//! A client that reads results as they come: whoever makes them is told how far it is.

use bytes::Bytes;
use omniflow_flow::{Destination, EdgeId, Home, Item, Key, NodeId, Origin};
use omniflow_wire::v1;

use super::JOB;
use super::scheduler::Scheduler;
use crate::core::credits::WINDOW;

impl Scheduler {
    pub(super) fn grant(&mut self, edge: EdgeId, item: &Item<Bytes>) {
        if let Item::Frame { seq, .. } = item
            && self.is_result(edge)
        {
            let came = self.came.entry(edge).or_default();
            *came = (*came).max(seq + 1);
            self.tell_granted(edge);
        }
    }

    /// New attempts know nothing of what those before them were told.
    pub(super) fn grant_again(&mut self, nodes: &[(NodeId, Key)]) {
        let edges: Vec<EdgeId> = self.came.keys().copied().collect();
        for edge in edges {
            let home = self.home(edge);
            if nodes.iter().any(|(node, _)| Some(*node) == home) {
                self.tell_granted(edge);
            }
        }
    }

    fn tell_granted(&mut self, edge: EdgeId) {
        let place = self
            .home(edge)
            .and_then(|home| self.bound.get(&(home, Key::ROOT)));
        let Some((worker, _)) = place else {
            return;
        };
        let credit = v1::Credit {
            job: JOB,
            edge: edge.0,
            frames: self.came[&edge] + WINDOW.frames,
            bytes: u64::MAX,
            term: 1,
            ..Default::default()
        };
        self.out.push((*worker, credit.into()));
    }

    fn is_result(&self, edge: EdgeId) -> bool {
        let spec = self.graph.edge(edge);
        spec.is_some_and(|spec| matches!(spec.to, Destination::Result { .. }))
    }

    fn home(&self, edge: EdgeId) -> Option<NodeId> {
        let Origin::Node { node, .. } = self.graph.edge(edge)?.from else {
            return None;
        };
        match self.graph.home(node) {
            Home::Node(home) => Some(home),
            Home::Scheduler => None,
        }
    }
}
