//! Where the time of a job went, one entry per attempt.

use std::sync::Arc;

use omniflow_flow::Key;
use omniflow_placement::WorkerId;

use crate::event::{NodeState, NodeUpdate};
use crate::ids::Micros;
use crate::traffic::Traffic;

/// How many attempts a job's report keeps, before those of activations in fan-outs and loops are only counted.
pub const KEPT_ATTEMPTS: usize = 4_096;

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
    /// When it ended, failed, was lost or stopped.
    pub ended_us: u64,
    /// The role's work features.
    pub features: Vec<(String, f64)>,
    /// What went over its ports, once it has ended.
    pub traffic: Option<Box<Traffic>>,
}

impl Attempt {
    /// One that a worker has just been given.
    pub(crate) fn new(
        node: usize,
        key: Key,
        worker: WorkerId,
        worker_name: Arc<str>,
        epoch: u32,
        bound_us: u64,
    ) -> Self {
        Self {
            node: node as u32,
            key,
            worker,
            worker_name,
            epoch,
            state: NodeState::Bound,
            bound_us,
            queued_us: 0,
            started_us: 0,
            first_frame_us: 0,
            ended_us: 0,
            features: Vec::new(),
            traffic: None,
        }
    }

    /// Takes over what the worker says. False when it says nothing new.
    pub(crate) fn advance(&mut self, update: &mut NodeUpdate, arrived: Micros) -> bool {
        if self.is_over() {
            return false;
        }
        let at = self.time(update.at, arrived);
        let time = match update.state {
            NodeState::Bound => return false,
            NodeState::Queued => &mut self.queued_us,
            NodeState::Started => &mut self.started_us,
            NodeState::FirstFrame => &mut self.first_frame_us,
            NodeState::Done | NodeState::Failed | NodeState::Lost | NodeState::Stopped => {
                &mut self.ended_us
            }
        };
        if *time != 0 {
            return false;
        }
        *time = at;
        self.state = self.state.max(update.state);
        if !update.features.is_empty() {
            self.features = std::mem::take(&mut update.features);
        }
        if let Some(traffic) = update.traffic.take() {
            self.traffic = Some(traffic.since(arrived, self.queued_us, at));
        }
        true
    }

    pub(crate) fn lose(&mut self, now: Micros, arrived: Micros) {
        self.state = NodeState::Lost;
        self.ended_us = self.time(now, arrived);
    }

    /// A step's time on the job's clock. A worker tells how long ago a step was, so two steps told in two messages
    /// are apart by the messages' delays too: a step is never put before one that it followed.
    fn time(&self, at: Micros, arrived: Micros) -> u64 {
        // 0 stands for "never got so far", and a fast job can be that fast.
        [
            self.bound_us,
            self.queued_us,
            self.started_us,
            self.first_frame_us,
        ]
        .into_iter()
        .fold(at.since(arrived).max(1), u64::max)
    }

    /// Whether it counts no longer.
    pub fn is_over(&self) -> bool {
        matches!(
            self.state,
            NodeState::Done | NodeState::Failed | NodeState::Lost | NodeState::Stopped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::JobId;

    fn update(state: NodeState, at: u64) -> NodeUpdate {
        NodeUpdate {
            worker: WorkerId(1),
            job: JobId(1),
            node: 0,
            key: Key::new(&[]),
            epoch: 1,
            state,
            at: Micros(at),
            features: Vec::new(),
            fault: None,
            traffic: None,
        }
    }

    #[test]
    fn steps_told_in_messages_of_unlike_delay_are_never_out_of_order() {
        let arrived = Micros(1_000);
        let mut attempt = Attempt {
            node: 0,
            key: Key::new(&[]),
            worker: WorkerId(1),
            worker_name: "w".into(),
            epoch: 1,
            state: NodeState::Bound,
            bound_us: 50,
            queued_us: 0,
            started_us: 0,
            first_frame_us: 0,
            ended_us: 0,
            features: Vec::new(),
            traffic: None,
        };
        // The first message took long, so its step seems later than the one after it.
        assert!(attempt.advance(&mut update(NodeState::Queued, 1_040), arrived));
        assert!(attempt.advance(&mut update(NodeState::Started, 1_900), arrived));
        assert!(attempt.advance(&mut update(NodeState::Done, 1_800), arrived));
        assert_eq!(
            (attempt.queued_us, attempt.started_us, attempt.ended_us),
            (50, 900, 900)
        );
    }
}
