//! What the job table wants done.

use std::sync::Arc;

use omniflow_flow::Key;
use omniflow_placement::WorkerId;

use crate::event::NodeState;
use crate::fault::Fault;
use crate::ids::JobId;

/// Something to be done now, in the order given.
#[derive(Clone, Debug)]
pub enum Effect {
    /// The job exists. Always before any other effect about it.
    Accepted {
        /// Of the submission.
        ticket: u64,
        /// The job.
        job: JobId,
        /// Its idempotency key was seen before: this is that job, nothing was started.
        existed: bool,
    },
    /// No job exists.
    Refused {
        /// Of the submission.
        ticket: u64,
        /// Why.
        fault: Box<Fault>,
    },
    /// Tell these workers who runs what of the job. Several may follow each other: each worker is told what concerns it.
    ///
    /// - A worker that the job is new to is told every bind outside of fan-outs, and those in them that it has to do with.
    /// - Everybody who knows the job is told each new bind outside of fan-outs. One for a key of a fan-out is told to its own
    ///   worker and to those that run what sends to it or reads from it; the others never need it.
    /// - A bind may be told more than once; what counts is that the highest epoch wins. A bind with a higher epoch restarts
    ///   the node and the control nodes at its side; places resend to it what they kept for it, frames and marks.
    /// - When a scope has ended (`Event::ScopeLeft`, told by the hub to every worker of the job), places forget the binds
    ///   inside of it, but for those of loops and fan-outs that are themselves in a loop; they keep what has left the scope
    ///   until the job's release.
    ///
    /// Of a bind that is new, or has a higher epoch, the hub's own side learns as any place does: `hand_over` first, then its
    /// worker is sent the job's inputs and what control nodes at the scheduler have sent to it.
    Bind {
        /// The job.
        job: JobId,
        /// Whom to tell, all alive.
        workers: Vec<WorkerId>,
        /// What.
        binds: Arc<[Bind]>,
    },
    /// Ask the worker for these binds of the job: others could have them sooner. What no engine has taken there, the worker
    /// gives back (`Event::Moved`), and runs under no epoch that it was told of so far.
    Recall {
        /// The job.
        job: JobId,
        /// Whom to ask; it lives.
        worker: WorkerId,
        /// What it has.
        binds: Vec<Bind>,
    },
    /// A resumable bind has lost its worker, and is to go on from what was delivered (rule 12). From now on, the hub's own
    /// resolver and these workers drop what attempts before `epoch` have sent. Each worker says what it holds
    /// (`Event::Delivered`); the longest of that and of what the hub itself holds goes along with the next bind.
    AskDelivered {
        /// The job.
        job: JobId,
        /// The node, by index.
        node: u32,
        /// The key of its bind.
        key: Key,
        /// Of the attempt to come, or an earlier one that will not be.
        epoch: u32,
        /// Whom to ask, all alive; maybe nobody.
        workers: Vec<WorkerId>,
    },
    /// A resumable bind runs again from its beginning: nothing that was said of it goes along with its next bind.
    BeginAnew {
        /// The job.
        job: JobId,
        /// The node, by index.
        node: u32,
        /// The key of its bind.
        key: Key,
    },
    /// The job runs again from its inputs, after a release to all its workers: too much of it is gone with a worker. The
    /// hub's own resolver starts anew; result frames that a client may have are compared and not shown twice. What a worker
    /// says of the job before it has confirmed the release is of the earlier run. Each one's confirmation is an
    /// `Event::LetGo`; the job is placed when all have come.
    StartOver {
        /// The job.
        job: JobId,
    },
    /// The job is over: these workers stop what runs of it and forget its frames.
    Release {
        /// The job.
        job: JobId,
        /// Whom to tell: every living worker that knows the job.
        workers: Vec<WorkerId>,
        /// Why, when it did not end well.
        fault: Option<Arc<Fault>>,
    },
    /// An attempt got on: for those who asked to be told. Attempts beyond those that the report keeps are left out.
    Progress {
        /// The job.
        job: JobId,
        /// Which of [`crate::Job::attempts`].
        attempt: usize,
        /// How far it is now.
        state: NodeState,
    },
    /// The job is over; [`crate::Job::outcome`] says how. Once for every accepted job.
    Ended {
        /// The job.
        job: JobId,
    },
    /// The ended job's record is gone: drop its results.
    Forgotten {
        /// The job.
        job: JobId,
    },
}

/// A role node's place in a job, for one key of its fan-outs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The node, by index.
    pub node: u32,
    /// Fan-out indices, without the rounds of loops: those are bound once.
    pub key: Key,
    /// Who runs it.
    pub worker: WorkerId,
    /// The attempt's number.
    pub epoch: u32,
}
