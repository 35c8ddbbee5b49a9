//! One job in the table.

use std::sync::Arc;

use omniflow_placement::{RoleId, WorkerId};

use crate::effect::Bind;
use crate::event::{NodeState, Submission};
use crate::fault::Fault;
use crate::ids::{ClientId, FlowId, JobId, Micros};
use crate::plan::Plan;
use crate::report::Attempt;

/// How a job stands.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It has nodes to place, and this role has no worker that may be given one.
    Waiting(RoleId),
    /// All its nodes are placed.
    Running,
    /// All its results are there; the last activations are about to report.
    Settling,
    /// It has its result.
    Succeeded,
    /// It ended otherwise.
    Failed(Arc<Fault>),
}

impl Outcome {
    /// Whether the job is over.
    pub fn is_ended(&self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed(_))
    }
}

/// A node's current attempt: an index into the job's attempts, which are in order of binding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    /// Attempts so far: the epoch of the current one.
    pub(crate) epoch: u32,
    /// None while it is to be placed.
    pub(crate) attempt: Option<u32>,
}

/// One job in the table: from its acceptance until its record is forgotten.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// What it runs.
    pub flow: FlowId,
    /// On whose behalf.
    pub tenant: Arc<str>,
    /// Its priority class.
    pub priority: i32,
    /// Its place in every ready queue: smaller runs sooner.
    pub order: f64,
    /// How many jobs had arrived before it, and with it.
    pub arrival: u64,
    /// When it arrived.
    pub arrived: Micros,
    /// When it fails.
    pub deadline: Micros,
    /// When it ended; the arrival before that.
    pub ended: Micros,
    /// When its last result frame came; the arrival before that.
    pub last_result: Micros,
    /// When its first result frame came.
    pub first_frame: Option<Micros>,
    /// How it stands.
    pub outcome: Outcome,
    /// Every attempt so far, in order of binding.
    pub attempts: Vec<Attempt>,
    pub(crate) slots: Box<[Slot]>,
    pub(crate) open_results: Box<[bool]>,
    pub(crate) timer: Micros,
    /// Empty: none.
    pub idempotency_key: Arc<str>,
    /// It goes on when its client is gone.
    pub detach: bool,
    pub(crate) owner: Option<ClientId>,
    pub(crate) more_owners: Vec<ClientId>,
    /// Clients that only watch: one of them takes the job over when its owner is lost.
    pub(crate) watchers: Vec<ClientId>,
    /// Its client is lost, and it is cancelled then unless one comes for it.
    pub(crate) orphan_until: Option<Micros>,
    /// Epochs of an earlier life of the scheduler end here; 0 without one.
    pub(crate) first_epoch: u32,
    /// Restored, and not to be placed before the workers have reported.
    pub(crate) held: bool,
}

impl Job {
    pub(crate) fn new(
        id: JobId,
        submission: Submission,
        plan: &Plan,
        order: f64,
        now: Micros,
        deadline: Micros,
    ) -> Self {
        Self {
            id,
            flow: submission.flow,
            tenant: submission.tenant,
            priority: submission.priority,
            order,
            arrived: now,
            deadline,
            ended: now,
            last_result: now,
            first_frame: None,
            outcome: Outcome::Running,
            attempts: Vec::with_capacity(plan.nodes.len()),
            slots: vec![Slot::default(); plan.nodes.len()].into(),
            open_results: vec![true; plan.results].into(),
            timer: deadline,
            idempotency_key: submission.idempotency_key,
            detach: submission.detach,
            owner: Some(submission.client),
            more_owners: Vec::new(),
            watchers: Vec::new(),
            orphan_until: None,
            arrival: 0,
            first_epoch: 0,
            held: false,
        }
    }

    /// A number for every source of randomness in the job; the same for every attempt.
    pub fn seed(&self) -> u64 {
        // SplitMix64's finaliser: neighbouring jobs get unlike seeds.
        let mut x = self.id.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// The current attempt of a node, when it is placed.
    pub fn current(&self, node: usize) -> Option<&Attempt> {
        let attempt = self.slots.get(node)?.attempt?;
        self.attempts.get(attempt as usize)
    }

    pub(crate) fn current_mut(&mut self, node: usize) -> Option<&mut Attempt> {
        let attempt = self.slots.get(node)?.attempt?;
        self.attempts.get_mut(attempt as usize)
    }

    /// How far a node's current attempt is; none while it is to be placed.
    pub(crate) fn state(&self, node: usize) -> Option<NodeState> {
        self.current(node).map(|attempt| attempt.state)
    }

    /// Nodes whose current attempt still counts in the ledger, with its worker.
    pub(crate) fn outstanding(&self) -> impl Iterator<Item = (usize, WorkerId)> {
        (0..self.slots.len()).filter_map(|node| {
            let attempt = self.current(node)?;
            (!self.outcome.is_ended() && !attempt.is_over()).then_some((node, attempt.worker))
        })
    }

    /// All binds as they stand.
    pub fn binds(&self) -> impl Iterator<Item = Bind> {
        (0..self.slots.len()).filter_map(|node| {
            let attempt = self.current(node)?;
            Some(Bind {
                node: node as u32,
                key: attempt.key.clone(),
                worker: attempt.worker,
                epoch: attempt.epoch,
            })
        })
    }

    /// The epoch of a node's latest attempt; 0 before the first.
    pub fn epoch(&self, node: u32) -> u32 {
        self.slots.get(node as usize).map_or(0, |slot| slot.epoch)
    }

    /// Attempts of a node in this life of the scheduler.
    pub(crate) fn tries(&self, node: usize) -> u32 {
        self.slots[node].epoch - self.first_epoch
    }

    /// Milliseconds to its deadline.
    pub fn remaining_ms(&self, now: Micros) -> u64 {
        self.deadline.since(now).div_ceil(1_000)
    }

    /// Arrival to the last result frame; to the end when there was none.
    pub fn jct_us(&self) -> u64 {
        let last = if self.last_result > self.arrived {
            self.last_result
        } else {
            self.ended
        };
        last.since(self.arrived)
    }
}
