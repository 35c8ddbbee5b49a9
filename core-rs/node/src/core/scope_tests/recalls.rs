//! Binds that the scheduler asks for, as the job table does: what no engine has taken goes elsewhere. And what is known of
//! attempts that were elsewhere before.

use omniflow_flow::{Key, NodeId, NodeKind, ScopeId};
use omniflow_wire::v1;
use omniflow_wire::v1::node_progress::State;

use super::JOB;
use super::scheduler::Scheduler;

impl Scheduler {
    /// Asks for one that may move. Its worker knows whether it still can.
    pub(super) fn recall_one(&mut self) {
        let bound = self.bound.keys();
        let movable: Vec<_> = bound
            .filter(|at| self.may_move(at.0, &at.1))
            .cloned()
            .collect();
        if movable.is_empty() {
            return;
        }
        let chosen = self.choose(movable.len());
        let (node, key) = movable[chosen].clone();
        let (worker, epoch) = self.bound[&(node, key.clone())];
        let bind = v1::Bind {
            node: node.0,
            key: key.path().to_vec(),
            worker: worker as u32 + 1,
            epoch,
        };
        let recall = v1::Recall {
            term: 1,
            job: JOB,
            binds: vec![bind],
        };
        self.out.push((worker, recall.into()));
    }

    fn may_move(&self, node: NodeId, key: &Key) -> bool {
        let spec = &self.graph.nodes()[node.index()];
        let follows = |beside: &NodeId| {
            let kind = &self.graph.nodes()[beside.index()].kind;
            matches!(kind, NodeKind::Each { .. } | NodeKind::Route { .. })
        };
        spec.trigger.len() == 1
            && !self.is_in_loop(spec.scope)
            && !self.seen.unneeded(&self.graph, spec.scope, key)
            && self.graph.companions(node).iter().all(follows)
    }

    pub(super) fn is_in_loop(&self, mut scope: ScopeId) -> bool {
        while scope != ScopeId::ROOT {
            let spec = &self.graph.spec().scopes[scope.index() - 1];
            if spec.is_loop {
                return true;
            }
            scope = spec.parent;
        }
        false
    }

    /// A worker gives back what it had not begun.
    pub(super) fn moved_back(&mut self, worker: usize, moved: &v1::Moved) {
        for bind in &moved.binds {
            let at = (NodeId(bind.node), Key::new(&bind.key));
            if self.bound.get(&at) == Some(&(worker, bind.epoch)) {
                self.moves += 1;
                self.move_nodes(&[at]);
            }
        }
    }

    /// An attempt had begun before the node moved: what it sent counts, though the next one may never begin.
    pub(super) fn fired_before(&mut self, at: (NodeId, Key), event: &v1::NodeEvent) {
        if event.state() == State::Queued && !self.seen.fired.contains_key(&at) {
            self.seen.fire(at.clone(), 0);
            self.seen.lose(|fired| *fired == at);
        }
    }
}
