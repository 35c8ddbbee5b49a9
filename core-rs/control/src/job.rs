//! One job in the table.

use std::sync::Arc;

use omniflow_flow::Key;
use omniflow_placement::{RoleId, WorkerId};

use crate::effect::Bind;
use crate::event::Submission;
use crate::fault::Fault;
use crate::ids::{ClientId, FlowId, JobId, Micros};
use crate::plan::Plan;
use crate::report::{Attempt, KEPT_ATTEMPTS};
use crate::resuming::Asked;
use crate::scopes::EndedScopes;
use crate::slot::{Slot, Stand};
use crate::slots::Slots;

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
    /// Attempts so far, in order of binding, of activations in fan-outs and loops only while there are not too many
    /// ([`crate::KEPT_ATTEMPTS`]).
    pub attempts: Vec<Attempt>,
    /// Attempts that are not among them.
    pub unlisted: u64,
    pub(crate) slots: Slots,
    /// What is to be placed.
    pub(crate) pending: Vec<(u32, Key)>,
    /// Workers that know of the job, by number.
    pub(crate) known: Vec<WorkerId>,
    /// Workers that have not let go of its run before it was started over.
    pub(crate) letting_go: Vec<WorkerId>,
    /// Binds that are to go on from what was delivered, and who has not said yet what that is.
    pub(crate) asked: Vec<Asked>,
    /// How many binds are about to report.
    pub(crate) reporting: u32,
    /// What is known of its scopes that have ended.
    pub(crate) scopes: Option<Box<EndedScopes>>,
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
    /// Epochs of an earlier life of the scheduler, or from before it was started over, end here.
    pub(crate) floor: u32,
    /// The highest epoch so far.
    pub(crate) highest: u32,
    /// How often it was started over.
    pub(crate) restarts: u32,
    /// Restored, and not to be placed before the workers have reported.
    pub(crate) held: bool,
    /// It had begun in an earlier life, of which not everything is known.
    pub(crate) adopted: bool,
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
            attempts: Vec::with_capacity(plan.at_once.len()),
            unlisted: 0,
            slots: Slots::default(),
            pending: Vec::new(),
            known: Vec::new(),
            letting_go: Vec::new(),
            asked: Vec::new(),
            reporting: 0,
            scopes: None,
            open_results: vec![true; plan.results].into(),
            timer: deadline,
            idempotency_key: submission.idempotency_key,
            detach: submission.detach,
            owner: Some(submission.client),
            more_owners: Vec::new(),
            watchers: Vec::new(),
            orphan_until: None,
            arrival: 0,
            floor: 0,
            highest: 0,
            restarts: 0,
            held: false,
            adopted: false,
        }
    }

    /// Nothing of it is bound; what stands behind no gate and in no fan-out is to be placed. Epochs go on from `floor`.
    pub(crate) fn begin(&mut self, plan: &Plan, floor: u32) {
        self.floor = floor;
        self.highest = floor;
        self.slots = Slots::new(plan.nodes.len(), floor);
        self.scopes = None;
        self.adopted = false;
        self.asked.clear();
        self.reporting = 0;
        self.pending.clear();
        for node in &plan.at_once {
            let wanted = Slot::new(floor, Stand::Wanted);
            self.slots.put(*node as usize, &Key::ROOT, wanted);
            self.pending.push((*node, Key::ROOT));
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

    /// The current attempt of a node outside of fan-outs and loops, when it is placed.
    pub fn current(&self, node: usize) -> Option<&Attempt> {
        let slot = self.slots.once().get(node)?;
        let entry = slot.is_placed().then(|| slot.entry()).flatten()?;
        self.attempts.get(entry)
    }

    /// Changes a bind, if there is one.
    pub(crate) fn alter<R>(
        &mut self,
        node: usize,
        key: &Key,
        change: impl FnOnce(&mut Slot) -> R,
    ) -> Option<R> {
        let slot = self.slots.get_mut(node, key)?;
        let before = slot.is_about_to_report();
        let done = change(slot);
        let after = slot.is_about_to_report();
        self.reporting = self.reporting + u32::from(after) - u32::from(before);
        Some(done)
    }

    /// Nothing is known of the bind any more.
    pub(crate) fn forget_bind(&mut self, node: usize, key: &Key) {
        let reports = |slot: &Slot| slot.is_about_to_report();
        self.reporting -= u32::from(self.slots.get(node, key).is_some_and(reports));
        self.slots.remove(node, key);
    }

    /// Binds that count in the ledger, with their workers.
    pub(crate) fn outstanding(&self) -> impl Iterator<Item = (usize, WorkerId)> {
        let counting = !self.outcome.is_ended();
        let held = self
            .slots
            .iter()
            .filter(move |(_, _, slot)| counting && slot.stand == Stand::Held);
        held.map(|(node, _, slot)| (node, slot.worker))
    }

    /// All binds as they stand.
    pub fn binds(&self) -> impl Iterator<Item = Bind> {
        let placed = self.slots.iter().filter(|(_, _, slot)| slot.is_placed());
        placed.map(|(node, key, slot)| Bind {
            node: node as u32,
            key: key.clone(),
            worker: slot.worker,
            epoch: slot.epoch,
        })
    }

    /// Living workers that were told of the job.
    pub fn workers(&self) -> &[WorkerId] {
        &self.known
    }

    /// The epoch of the latest attempt of a node outside of fan-outs; 0 before the first.
    pub fn epoch(&self, node: u32) -> u32 {
        self.slots
            .once()
            .get(node as usize)
            .map_or(0, |slot| slot.epoch)
    }

    /// Attempts at a bind in this life of the scheduler.
    pub(crate) fn tries(&self, slot: &Slot) -> u32 {
        slot.attempts(self.floor) + self.restarts
    }

    /// Takes the attempt into the report, if there is room. `listed`: whatever room there is.
    pub(crate) fn list(&mut self, attempt: Attempt, listed: bool) -> Option<usize> {
        if !listed && self.is_full() {
            self.unlisted += 1;
            return None;
        }
        self.attempts.push(attempt);
        Some(self.attempts.len() - 1)
    }

    /// Whether the report has no room for activations in fan-outs and loops.
    pub(crate) fn is_full(&self) -> bool {
        self.attempts.len() >= KEPT_ATTEMPTS
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
