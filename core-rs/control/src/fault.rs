//! Every way in which a job is refused or fails, each with its place and its cure.

use std::sync::Arc;

/// How a cure names one of the scheduler's limits: where the cluster file has it.
pub fn key(limit: &str) -> String {
    format!("scheduler.limits.{limit} in the cluster file")
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// What kind of failure; the numbers are those of `omniflow.v1.ErrorCode`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum Code { $($(#[$doc])* $name = $number,)* }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The code of that number; `Internal` for a number that this version does not know.
            pub fn from_number(number: i32) -> Self {
                match number { $($number => Self::$name,)* _ => Self::Internal }
            }
        }
    };
}

codes! {
    /// The request is wrong.
    InvalidArgument = 1,
    /// No such flow, or no such version of it.
    UnknownFlow = 2,
    /// No worker ever registered the role.
    UnknownRole = 3,
    /// No such job, or its record is gone.
    UnknownJob = 4,
    /// The graph does not validate.
    BadFlow = 5,
    /// An input or frame over the limit.
    TooLarge = 6,
    /// Too many jobs in the table.
    ResourceExhausted = 10,
    /// A known role had no living worker.
    NoWorker = 11,
    /// The scheduler is going down.
    Unavailable = 12,
    /// Somebody stopped it.
    Cancelled = 20,
    /// It was not done in time.
    DeadlineExceeded = 21,
    /// The role raised.
    RoleFailed = 22,
    /// The worker died and every attempt is used up.
    WorkerLost = 23,
    /// A new attempt contradicted delivered frames.
    NotReplayable = 24,
    /// Retained frames over the quota.
    FlowStalled = 25,
    /// A choice named no branch.
    BadRoute = 26,
    /// A loop passed its bound.
    LoopLimit = 27,
    /// A page was reused under a reader.
    StalePage = 28,
    /// A role yielded what its method does not declare.
    BadOutput = 29,
    /// A defect of Omni-Flow itself.
    Internal = 90,
}

/// One failure; the fields are those of `omniflow.v1.Error`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code:?}: {message}")]
pub struct Fault {
    /// What kind.
    pub code: Code,
    /// What was wrong.
    pub message: String,
    /// Which field of the request.
    pub field: String,
    /// Which node.
    pub node: String,
    /// Which worker.
    pub worker: String,
    /// The words of whoever failed.
    pub cause: String,
    /// What to do about it.
    pub cure: String,
    /// When to try again.
    pub retry_after_ms: u64,
}

impl Fault {
    /// A failure of that kind; the places are filled in by the methods below.
    pub fn new(code: Code, message: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            field: String::new(),
            node: String::new(),
            worker: String::new(),
            cause: String::new(),
            cure: cure.into(),
            retry_after_ms: 0,
        }
    }

    /// About a field of the request.
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = field.into();
        self
    }

    /// At a node, on a worker (empty: on none).
    pub fn at(mut self, node: &str, worker: &str) -> Self {
        node.clone_into(&mut self.node);
        worker.clone_into(&mut self.worker);
        self
    }

    /// In the words of whoever failed.
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = cause.into();
        self
    }

    /// A field of the request is wrong.
    pub fn invalid(
        field: impl Into<String>,
        message: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self::new(Code::InvalidArgument, message, cure).field(field)
    }

    pub(crate) fn priority(asked: i32, limit: i32) -> Self {
        Self::invalid(
            "priority",
            format!("priority {asked} is outside -{limit} to {limit}"),
            "use a few small classes, e.g. 0 for batch work and 10 for people who wait",
        )
    }

    pub(crate) fn deadline(asked_ms: u64, max_ms: u64) -> Self {
        let message = if asked_ms > i64::MAX as u64 {
            "the deadline lies in the past".to_owned()
        } else {
            format!("a deadline of {asked_ms} ms is over the cluster's maximum of {max_ms} ms")
        };
        let cure = format!(
            "ask for 1 to {max_ms} ms, or 0 for the maximum; {} sets it",
            key("max_deadline_s")
        );
        Self::invalid("deadline_ms", message, cure)
    }

    pub(crate) fn unknown_role(role: &str, node: &str, known: &[&str]) -> Self {
        let known = if known.is_empty() {
            "none yet".to_owned()
        } else {
            known.join(", ")
        };
        Self::new(
            Code::UnknownRole,
            format!("no worker ever registered role {role:?}; registered are: {known}"),
            format!("start a worker that serves {role}, or correct the role's name in the flow"),
        )
        .at(node, "")
    }

    pub(crate) fn queue_full(live: usize, limit: usize, retry_after_ms: u64) -> Self {
        let mut fault = Self::new(
            Code::ResourceExhausted,
            format!("{live} jobs are in the cluster, and its queue takes {limit}"),
            format!(
                "try again after retry_after_ms, add workers, or raise {}",
                key("queue_limit")
            ),
        );
        fault.retry_after_ms = retry_after_ms;
        fault
    }

    pub(crate) fn closing() -> Self {
        let mut fault = Self::new(
            Code::Unavailable,
            "the scheduler is shutting down and takes no new jobs",
            "try again when it is back, or at another cluster",
        );
        fault.retry_after_ms = 1_000;
        fault
    }

    pub(crate) fn no_worker(role: &str, node: &str, waited_ms: u64) -> Self {
        Self::new(
            Code::NoWorker,
            format!("no living worker serves role {role:?}; the job waited {waited_ms} ms for one, to its deadline"),
            format!("start a worker that serves {role} (`omniflow status` lists those that live), or allow more time"),
        )
        .at(node, "")
    }

    pub(crate) fn deadline_exceeded(
        allowed_ms: u64,
        node: &str,
        worker: &str,
        stage: &str,
    ) -> Self {
        Self::new(
            Code::DeadlineExceeded,
            format!("the job was not done within {allowed_ms} ms: {stage}"),
            format!("allow more time (deadline_ms), or see in the log of worker {worker:?} what holds it up"),
        )
        .at(node, worker)
    }

    pub(crate) fn share_exceeded(node: &str, worker: &str, share: f64, allowed_ms: u64) -> Self {
        let part_ms = (allowed_ms as f64 * share) as u64;
        Self::new(
            Code::DeadlineExceeded,
            format!("node {node:?} on worker {worker:?} has taken its share of the deadline: {part_ms} of {allowed_ms} ms (deadline_share {share})"),
            format!("give the node a larger deadline_share or the job more time (deadline_ms), or see in the log of worker {worker:?} what holds it up"),
        )
        .at(node, worker)
    }

    pub(crate) fn worker_lost(node: &str, worker: &str, attempts: u32, cause: &str) -> Self {
        Self::new(
            Code::WorkerLost,
            format!("worker {worker:?} died while it held node {node:?}; that was attempt {attempts}, the last one"),
            format!("see the end of the log of worker {worker:?} for why it died; submit the job again once it is mended"),
        )
        .at(node, worker)
        .because(cause)
    }

    pub(crate) fn not_replayable(node: &str, worker: &str, seq: u64) -> Self {
        Self::new(
            Code::NotReplayable,
            format!("a new attempt of node {node:?} sent something else, up to frame {seq}, than what had been delivered"),
            "submit the job again; a method that gives the same frames for the same inputs and seed can be replayed",
        )
        .at(node, worker)
    }

    pub(crate) fn unrepeatable(node: &str, worker: &str, cause: &str) -> Self {
        Self::new(
            Code::NotReplayable,
            format!("worker {worker:?} died with node {node:?}, which is not deterministic, and the client has frames of it"),
            "submit the job again; a method that gives the same frames for the same inputs and seed (deterministic=True) can be replayed",
        )
        .at(node, worker)
        .because(cause)
    }

    pub(crate) fn cancelled(reason: &str) -> Self {
        let reason = if reason.is_empty() {
            "no reason was given"
        } else {
            reason
        };
        Self::new(
            Code::Cancelled,
            format!("the job was cancelled: {reason}"),
            "submit it again if it is still wanted",
        )
    }

    pub(crate) fn client_gone() -> Self {
        Self::cancelled("its client went away, and it was not submitted with detach")
    }

    pub(crate) fn client_lost() -> Self {
        Self::cancelled(
            "its client was lost and did not come back, and it was not submitted with detach",
        )
    }

    pub(crate) fn role_failed(given: Option<Box<Self>>, node: &str, worker: &str) -> Arc<Self> {
        let mut fault = given.map_or_else(
            || {
                Self::new(
                    Code::RoleFailed,
                    format!("node {node:?} failed without saying why"),
                    "",
                )
            },
            |fault| *fault,
        );
        node.clone_into(&mut fault.node);
        worker.clone_into(&mut fault.worker);
        if fault.cure.is_empty() {
            fault.cure = match fault.code {
                // What a control node finds wrong is in the flow or its values: no log says more, and no retry helps.
                Code::BadRoute => {
                    "choose one of the branches that there are, or add one to the `route`"
                        .to_owned()
                }
                Code::LoopLimit => {
                    "raise max_rounds, or let `until` become true earlier".to_owned()
                }
                _ => format!("see the log of worker {worker:?}; the job can be submitted again"),
            };
        }
        Arc::new(fault)
    }
}
