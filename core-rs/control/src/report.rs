//! Where the time of a job went, one entry per attempt.

use std::sync::Arc;

use omniflow_flow::Key;
use omniflow_placement::WorkerId;

use crate::event::{NodeState, NodeUpdate};
use crate::ids::Micros;

/// One try at an activation. Times are microseconds since the job's arrival; 0 where it never got so far.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The node, by index.
    pub node: u32,
    /// The key.
    pub key: Key,
    /// Who ran it; the number may be reused for nothing, the name is the worker's.
    pub worker: WorkerId,
    /// Its name.
    pub worker_name: Arc<str>,
    /// The attempt's number, from 1.
    pub epoch: u32,
    /// How far it got.
    pub state: NodeState,
    /// When it was given to the worker.
    pub bound_us: u64,
    /// When all its inputs were there.
    pub queued_us: u64,
    /// When the engine took it.
    pub started_us: u64,
    /// When it sent its first frame.
    pub first_frame_us: u64,
    /// When it ended, failed or was lost.
    pub ended_us: u64,
    /// The role's work features.
    pub features: Vec<(String, f64)>,
}

impl Attempt {
    /// Takes over what the worker says. False when it says nothing new.
    pub(crate) fn advance(&mut self, update: &mut NodeUpdate, arrived: Micros) -> bool {
        if self.is_over() {
            return false;
        }
        // 0 stands for "never got so far", and a fast job can be that fast.
        let at = update.at.since(arrived).max(1);
        let time = match update.state {
            NodeState::Bound | NodeState::Lost => return false,
            NodeState::Queued => &mut self.queued_us,
            NodeState::Started => &mut self.started_us,
            NodeState::FirstFrame => &mut self.first_frame_us,
            NodeState::Done | NodeState::Failed => &mut self.ended_us,
        };
        if *time != 0 {
            return false;
        }
        *time = at;
        self.state = self.state.max(update.state);
        if !update.features.is_empty() {
            self.features = std::mem::take(&mut update.features);
        }
        true
    }

    pub(crate) fn lose(&mut self, now: Micros, arrived: Micros) {
        self.state = NodeState::Lost;
        self.ended_us = now.since(arrived).max(1);
    }

    /// Whether it counts no longer.
    pub fn is_over(&self) -> bool {
        matches!(
            self.state,
            NodeState::Done | NodeState::Failed | NodeState::Lost
        )
    }
}
