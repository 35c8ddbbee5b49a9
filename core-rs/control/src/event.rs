//! What can happen to the job table.

use std::sync::Arc;

use omniflow_flow::Key;
use omniflow_placement::WorkerId;

use crate::fault::Fault;
use crate::ids::{ClientId, FlowId, JobId, Micros};
use crate::report::Attempt;
use crate::traffic::Traffic;

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
        /// The host that it runs on, as it registered it: for nodes that want to be near others. Empty: unknown.
        host: Arc<str>,
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
    /// Something waits for these binds: frames at a worker (`BindsWanted`), or a branch that was taken
    /// (`omniflow_flow::Effect::Wanted` of the scheduler's own resolver). With a key of a fan-out, all nodes of its scope
    /// are bound for it that stand behind no gate, ahead of need (rule 15). What is bound already, is no role node, or is of
    /// a scope that has ended is left alone: asking twice does no harm.
    Wanted {
        /// The job.
        job: JobId,
        /// Nodes, by index, and keys of binds.
        wanted: Vec<(u32, Key)>,
    },
    /// The scheduler's own resolver has closed a role node that was not bound (its `NodeClosed`): there is nothing to bind,
    /// unless it is `Wanted` all the same. Says nothing new about a node that is bound.
    Closed {
        /// The job.
        job: JobId,
        /// The node, by index.
        node: u32,
        /// The key of its bind.
        key: Key,
    },
    /// One of the nodes by which values leave a scope is over, as a worker or the scheduler's own resolver says. Once all of
    /// them are, the binds inside of the scope count no longer, and nothing is kept about them.
    ScopeLeft {
        /// The job.
        job: JobId,
        /// Index into the flow's scopes, from 1.
        scope: u32,
        /// The key around the scope.
        key: Key,
        /// The node, by index.
        by: u32,
    },
    /// The worker has given these binds back before any engine had taken them (`Effect::Recall`): they go elsewhere, under
    /// a new epoch. What is not (any more) the worker's is left alone.
    Moved {
        /// The job.
        job: JobId,
        /// Who had them.
        worker: WorkerId,
        /// Nodes, by index, keys of binds, and epochs.
        binds: Vec<(u32, Key, u32)>,
    },
    /// The worker has let go of the job's run before it was started over. Nothing of the job is placed before every worker
    /// that knew of it has, or is dead: frames of the new run must not meet what is left of the old one.
    LetGo {
        /// The job.
        job: JobId,
        /// Who.
        worker: WorkerId,
    },
    /// The worker has said what it holds of a resumable bind (`Effect::AskDelivered`). Nothing of the job is placed before
    /// everybody who was asked has, or is dead.
    Delivered {
        /// The job.
        job: JobId,
        /// Who.
        worker: WorkerId,
        /// The node, by index.
        node: u32,
        /// The key of its bind.
        key: Key,
        /// As it was asked.
        epoch: u32,
        /// How many frames were delivered there.
        frames: u64,
    },
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
    /// The job cannot go on for a reason that the scheduler's own data path saw: a control node at its side has
    /// failed, say.
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
    /// A client reads on in what is left of an ended job's results: they are kept for that long again.
    Read {
        /// The job.
        job: JobId,
    },
    /// The ended job's record and results are needed no longer.
    Forget {
        /// The job.
        job: JobId,
    },
    /// An earlier life of the scheduler accepted this job.
    Restore(Box<Restored>),
    /// Every worker that may hold something of a restored job has reported, or is dead, and this is what the living ones
    /// hold of it: it goes on there (rule 14). What nobody holds is lost, as with a worker that died.
    Adopt {
        /// The job.
        job: JobId,
        /// Binds.
        held: Vec<HeldBind>,
        /// Whoever holds something of it, be it only frames that it has sent.
        workers: Vec<WorkerId>,
    },
    /// The same of all other restored jobs: nobody holds anything of them, so that they are placed.
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

/// A bind that a worker has kept through the scheduler's death.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBind {
    /// The node, by index.
    pub node: u32,
    /// Of the bind.
    pub key: Key,
    /// Who has it.
    pub worker: WorkerId,
    /// The attempt's number.
    pub epoch: u32,
    /// How far it got.
    pub state: NodeState,
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
///
/// Its key has the rounds of loops in it; the bind that it is about is that of the key without them. A control node reports
/// only that it has failed, from where it runs, and the job fails with that. A worker that has not kept what a new attempt
/// has to read again says that this attempt has failed as `NotReplayable`, wherever it runs: the job starts over.
#[derive(Clone, Debug)]
pub struct NodeUpdate {
    /// Who says so.
    pub worker: WorkerId,
    /// The job.
    pub job: JobId,
    /// The node, by index in the flow.
    pub node: u32,
    /// The key of the activation: fan-out indices and rounds.
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
    /// With `Done` and `Failed`: what went over its ports.
    pub traffic: Option<Box<Traffic>>,
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
    /// It is over without having ended: its worker died, or it had read what was lost.
    Lost,
    /// Its worker says that nobody needs it (`Cancelled`), or that it was bound and can never run (`NodeClosed`): it counts
    /// no longer, and no other attempt follows.
    Stopped,
}
