//! What must be so once nothing happens any more, and once the job is released.

use omniflow_flow::{EdgeId, Item, Key, Origin, PortIx};
use omniflow_wire::v1;

use super::world::{SCHEDULER, World};
use super::{JOB, WORKERS};
use crate::activation::Activation;

impl World {
    /// The job is over, and so is everything in it.
    pub(super) fn assert_over(&self) {
        assert_eq!(
            self.scheduler.seen.done, 1,
            "the job ends: {:?}",
            self.scheduler.seen
        );
        for core in &self.cores {
            let Some(job) = core.jobs.values().next() else {
                continue;
            };
            let running = job.activations.values();
            let running = running.filter(|one| !self.runs_in_vain(one));
            let running: Vec<_> = running.map(|one| (one.node(), one.key())).collect();
            assert!(running.is_empty(), "still run: {running:?}");
            assert!(
                self.scheduler.moved || job.resolver.is_empty(),
                "open: {:?}",
                job.resolver.open_runs()
            );
        }
    }

    /// Of a node that moved though nobody needed it any more: what it reads was cut short, because an earlier attempt had no
    /// use for it. Who sent it would run again with it, if the job table were here.
    fn runs_in_vain(&self, activation: &Activation) -> bool {
        let graph = &self.scheduler.graph;
        let (node, key) = (activation.node, &activation.key);
        let edges = (0..graph.nodes()[node.index()].inputs.len() as u32).map(PortIx);
        let mut edges = edges.filter_map(|port| graph.edge_into(node, port));
        activation.epoch > 1 && edges.any(|edge| self.is_cut_short(edge, key))
    }

    /// Whether a stream's producer is over and has not ended it.
    fn is_cut_short(&self, edge: EdgeId, key: &Key) -> bool {
        let spec = self.scheduler.graph.edge(edge).expect("an edge");
        let Origin::Node { node, .. } = spec.from else {
            return false;
        };
        let over = self.scheduler.ended.contains(&(node, key.clone()));
        let jobs = self.cores.iter().flat_map(|core| core.jobs.values());
        let mut sent = jobs.flat_map(|job| job.sent.of(edge, key));
        spec.value_type.stream && over && !sent.any(|kept| matches!(kept.item, Item::End { .. }))
    }

    /// The scheduler lets go of the job: nothing is left of it.
    pub(super) fn assert_released(&mut self) {
        let release = v1::ReleaseJobs {
            term: 1,
            jobs: vec![JOB],
            reason: None,
        };
        for worker in 0..WORKERS {
            self.bring(SCHEDULER, worker, release.clone().into());
            let gauges = [
                "jobs",
                "activations_queued",
                "activations_running",
                "retained_bytes",
                "kept_items",
                "parked_bytes",
            ];
            for gauge in gauges {
                assert_eq!(self.stat(worker, gauge), 0, "{gauge}");
            }
        }
    }
}
