//! What can happen to the job table.

use std::sync::Arc;

use omniflow_flow::Key;
use omniflow_placement::WorkerId;

use crate::fault::Fault;
use crate::ids::{ClientId, FlowId, JobId, Micros};
use crate::report::Attempt;

/// Everything that changes the job table.
#[derive(Clone, Debug)]
pub enum Event {
    /// A client submits a job; its inputs have been checked against the flow.
    Submit(Submission),
    /// The registry shows workers with these roles: jobs that need them may wait for one.
    RolesSeen(Vec<String>),
    /// A worker's link is up. A restarted worker has a new number.
    WorkerUp {
        /// Its number.
        worker: WorkerId,
        /// Its name in the registry.
        name: Arc<str>,
        /// The roles that it serves.
        roles: Vec<String>,
    },
    /// The worker finishes what it has and takes nothing new.
    WorkerDraining(WorkerId),
    /// What a draining worker has not finished by then goes on elsewhere.
    DrainWithin {
        /// Its number.
        worker: WorkerId,
        /// From now.
        within_ms: u64,
    },
    /// The worker is dead (rule 13), or has left.
    WorkerDown {
        /// Its number.
        worker: WorkerId,
        /// How that was seen.
        cause: String,
    },
    /// An activation got on.
    Node(NodeUpdate),
    /// A frame of a result was delivered to the scheduler's resolver.
    ResultFrame {
        /// The job.
        job: JobId,
    },
    /// A result is complete: it has ended, closed, or brought its one frame.
    ResultOver {
        /// The job.
        job: JobId,
        /// Which result, by index.
        port: u32,
    },
    /// A new attempt contradicts what an earlier one had delivered (rule 12).
    Contradiction {
        /// The job.
        job: JobId,
        /// The edge, by index in the flow.
        edge: u32,
        /// The frame that differs.
        seq: u64,
    },
    /// The job cannot go on for a reason that the scheduler's own data path saw.
    Failed {
        /// The job.
        job: JobId,
        /// The reason.
        fault: Box<Fault>,
    },
    /// A client wants the job to stop.
    Cancel {
        /// The job.
        job: JobId,
        /// Why, in the client's words; may be empty.
        reason: String,
    },
    /// A client wants to see what becomes of the job. One whose own client is lost is taken over by it.
    Watch {
        /// The job.
        job: JobId,
        /// Who watches.
        client: ClientId,
    },
    /// A client has said goodbye: its jobs are cancelled unless detached or submitted by another one, too.
    ClientGone(ClientId),
    /// A call or stream ended without a word: its jobs go on for a grace period, in which a client may come back to them.
    ClientLost(ClientId),
    /// The ended job's record and results are needed no longer.
    Forget {
        /// The job.
        job: JobId,
    },
    /// An earlier life of the scheduler accepted this job.
    Restore(Box<Restored>),
    /// Every worker that may hold something of restored jobs has reported, or is dead: they are placed.
    Resume,
    /// No new jobs from now on; what runs goes on.
    Close,
    /// Time has passed.
    Tick,
}

/// A job as a client wants it.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Chosen by the caller; the answer carries it.
    pub ticket: u64,
    /// Who asks.
    pub client: ClientId,
    /// What to run.
    pub flow: FlowId,
    /// On whose behalf.
    pub tenant: Arc<str>,
    /// A higher class goes first.
    pub priority: i32,
    /// From now; 0: the cluster's maximum.
    pub deadline_ms: u64,
    /// Empty: none.
    pub idempotency_key: Arc<str>,
    /// The job goes on when its client is gone.
    pub detach: bool,
}

/// A job as an earlier life of the scheduler left it.
#[derive(Clone, Debug)]
pub struct Restored {
    /// Its number.
    pub job: JobId,
    /// What its client had asked for.
    pub submission: Submission,
    /// Its place in every ready queue.
    pub order: f64,
    /// How many jobs had arrived before it, and with it.
    pub arrival: u64,
    /// When it arrived.
    pub arrived: Micros,
    /// When it fails.
    pub deadline: Micros,
    /// Higher than every epoch of its earlier attempts.
    pub first_epoch: u32,
    /// How it ended, if it had.
    pub end: Option<RestoredEnd>,
}

/// How a job ended in an earlier life.
#[derive(Clone, Debug)]
pub struct RestoredEnd {
    /// When.
    pub at: Micros,
    /// None: with its result.
    pub fault: Option<Fault>,
    /// Every attempt, in order of binding.
    pub attempts: Vec<Attempt>,
    /// When its first result frame came.
    pub first_frame: Option<Micros>,
    /// When its last one came.
    pub last_result: Option<Micros>,
}

/// What became of an activation.
#[derive(Clone, Debug)]
pub struct NodeUpdate {
    /// Who says so.
    pub worker: WorkerId,
    /// The job.
    pub job: JobId,
    /// The node, by index in the flow.
    pub node: u32,
    /// The key; always the root until nodes run under `each`.
    pub key: Key,
    /// The attempt's number, which makes messages of earlier attempts stale.
    pub epoch: u32,
    /// What happened.
    pub state: NodeState,
    /// When, on the scheduler's clock.
    pub at: Micros,
    /// The role's work features.
    pub features: Vec<(String, f64)>,
    /// With `Failed`: why.
    pub fault: Option<Box<Fault>>,
}

/// How far an activation got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeState {
    /// Given to a worker; some input is still missing.
    Bound,
    /// All its inputs are there.
    Queued,
    /// The engine has it.
    Started,
    /// It has sent something.
    FirstFrame,
    /// It has ended well.
    Done,
    /// This attempt has failed.
    Failed,
    /// Its worker died.
    Lost,
}
