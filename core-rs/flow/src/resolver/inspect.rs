//! What a resolver holds, and whether it is sound.

use crate::ids::{NodeId, PortIx};
use crate::key::Key;
use crate::payload::Payload;

use super::Resolver;
use super::node_run::NodeRun;
use super::node_runs::NodeRuns;
use super::result_run::ResultRun;

/// What a resolver holds. All zero when everything hosted has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Frames held: of ports whose alternative has not fired, and those that arrived ahead of a missing one.
    pub frames: usize,
    /// Their bytes.
    pub bytes: usize,
    /// (node, key) pairs and results that something has come for, or that run, and that have not ended.
    pub open: usize,
}

impl<P: Payload> Resolver<P> {
    /// What it holds now. O(hosted nodes).
    pub fn footprint(&self) -> Footprint {
        let mut sum = Footprint {
            open: self.results_open,
            ..Footprint::default()
        };
        for run in self.runs() {
            let (frames, bytes) = run.holds();
            sum = Footprint {
                frames: sum.frames + frames,
                bytes: sum.bytes + bytes,
                open: sum.open + usize::from(run.open()),
            };
        }
        for (frames, bytes) in self.nodes.iter().map(NodeRuns::holds_outer) {
            sum = Footprint {
                frames: sum.frames + frames,
                bytes: sum.bytes + bytes,
                ..sum
            };
        }
        for (frames, bytes) in self.results.iter().flatten().map(ResultRun::holds) {
            sum = Footprint {
                frames: sum.frames + frames,
                bytes: sum.bytes + bytes,
                ..sum
            };
        }
        sum
    }

    /// What counts as open in `footprint`: for messages, when something does not end.
    pub fn open_runs(&self) -> Vec<(NodeId, Key)> {
        let of_node = |(node, runs): (u32, &NodeRuns<P>)| {
            let open = runs.runs.iter().filter(|(_, run)| run.open());
            open.map(|(key, _)| (NodeId(node), key)).collect::<Vec<_>>()
        };
        (0..).zip(&self.nodes).flat_map(of_node).collect()
    }

    /// Whether a run of a node has ended here, or was closed. (Nothing is known any more of one whose scope has ended.)
    pub fn is_over(&self, node: NodeId, key: &Key) -> bool {
        let runs = self.nodes.get(node.index());
        runs.is_some_and(|runs| runs.is_over(key) || runs.runs.get(key).is_some_and(NodeRun::over))
    }

    /// Whether something has come on an input of a node that was not handed on: it waits for what is to come on others.
    pub fn waits(&self, node: NodeId, port: PortIx, key: &Key) -> bool {
        let run = self.nodes.get(node.index());
        let run = run.and_then(|runs| runs.runs.get(key));
        run.is_some_and(|run| run.waits(port))
    }

    /// Numbers kept so that nothing fires twice and nothing late begins again: about what is over, and about hosting.
    /// Flat over the rounds of a loop and the keys of an `each`, and near zero when their scope has ended.
    pub fn facts(&self) -> usize {
        let nodes = self.nodes.iter().map(NodeRuns::facts).sum::<usize>();
        nodes + self.scopes.facts() + self.restarts.len() + self.parked.len()
    }

    /// Whether it holds nothing: everything that was hosted or arrived has ended.
    pub fn is_empty(&self) -> bool {
        self.footprint() == Footprint::default()
    }

    /// Verifies every invariant; the error says which is broken. For tests, and when idle.
    pub fn check(&self) -> Result<(), String> {
        for (node, runs) in self.nodes.iter().enumerate() {
            for (key, run) in runs.runs.iter() {
                run.check()
                    .map_err(|what| format!("node {node}, key {key}: {what}"))?;
            }
        }
        for (port, run) in self.results.iter().flatten().enumerate() {
            run.check()
                .map_err(|what| format!("result {port}: {what}"))?;
        }
        let open = self
            .results
            .iter()
            .flatten()
            .filter(|run| !run.over())
            .count();
        if open != self.results_open {
            return Err(format!(
                "{open} results are open, {} are counted",
                self.results_open
            ));
        }
        Ok(())
    }

    fn runs(&self) -> impl Iterator<Item = &NodeRun<P>> {
        self.nodes
            .iter()
            .flat_map(|runs| runs.runs.iter().map(|(_, run)| run))
    }
}
