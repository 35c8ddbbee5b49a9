//! What the job table wants done.

use std::sync::Arc;

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
    /// Tell these workers who runs what of the job. Each of them hears of every bind.
    Bind {
        /// The job.
        job: JobId,
        /// Whom to tell: every living worker with a node of the job.
        workers: Vec<WorkerId>,
        /// Every bound node of the job.
        binds: Arc<[Bind]>,
    },
    /// Send the worker the job's inputs that the node reads, after its bind.
    SendInputs {
        /// The job.
        job: JobId,
        /// Where to.
        worker: WorkerId,
        /// For which node, by index.
        node: u32,
    },
    /// The job is over: these workers stop what runs of it and forget its frames.
    Release {
        /// The job.
        job: JobId,
        /// Whom to tell: every living worker with a node of the job.
        workers: Vec<WorkerId>,
        /// Why, when it did not end well.
        fault: Option<Arc<Fault>>,
    },
    /// An attempt got on: for those who asked to be told.
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

/// A node's place in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The node, by index.
    pub node: u32,
    /// Who runs it.
    pub worker: WorkerId,
    /// The attempt's number.
    pub epoch: u32,
}
