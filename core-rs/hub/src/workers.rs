//! Who is known: seats by name, and the lines to those whose link is up.

use std::collections::BTreeMap;
use std::sync::Arc;

use omniflow_control::{FlowId, Micros};
use omniflow_link::{LinkSender, Message as LinkFrame};
use omniflow_placement::WorkerId;
use omniflow_wire::v1;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::task::AbortHandle;

use crate::flows::link_frame;
use crate::frames::CONTROL;

/// One registered name, with its present incarnation.
pub(crate) struct Seat {
    pub(crate) info: v1::WorkerInfo,
    /// Whether the registry shows it. Without a living link it is forgotten when it doesn't.
    pub(crate) registered: bool,
    pub(crate) draining: bool,
    /// Its number while its link is up.
    pub(crate) worker: Option<WorkerId>,
    /// Whether it was up before: then it is lost now, else it is being connected.
    pub(crate) was_up: bool,
    pub(crate) connected: Micros,
    /// Activations that its earlier links ended well.
    pub(crate) completed: u64,
    pub(crate) task: Option<AbortHandle>,
}

impl Seat {
    pub(crate) fn new(info: v1::WorkerInfo) -> Self {
        Self {
            info,
            registered: true,
            draining: false,
            worker: None,
            was_up: false,
            connected: Micros(0),
            completed: 0,
            task: None,
        }
    }
}

/// A link that is up, and what its worker has been told on it.
pub(crate) struct Line {
    pub(crate) name: Arc<str>,
    pub(crate) peer: v1::Peer,
    sender: LinkSender,
    peers: FxHashSet<WorkerId>,
    flows: FxHashSet<FlowId>,
    out: Vec<LinkFrame>,
    /// Jobs that have ended well, of which the worker has not been told yet.
    ended: Vec<u64>,
    /// Bytes that waited to be written when that was last looked at.
    backlog: usize,
}

impl Line {
    pub(crate) fn new(name: Arc<str>, peer: v1::Peer, sender: LinkSender) -> Self {
        Self {
            name,
            peer,
            sender,
            peers: FxHashSet::default(),
            flows: FxHashSet::default(),
            out: Vec::new(),
            ended: Vec::new(),
            backlog: 0,
        }
    }

    /// True when the worker has not been told of this peer yet; it counts as told now.
    pub(crate) fn must_introduce(&mut self, peer: WorkerId) -> bool {
        self.peers.insert(peer)
    }

    /// True when the worker has not been sent this flow yet; it counts as sent now.
    pub(crate) fn must_define(&mut self, flow: FlowId) -> bool {
        self.flows.insert(flow)
    }

    pub(crate) fn abort(&self) {
        self.sender.abort();
    }

    pub(crate) fn close(&self) {
        self.sender.close();
    }

    /// Whether the worker may lack something of what it was sent.
    pub(crate) fn is_busy(&self) -> bool {
        self.sender.queued_bytes() + self.sender.unacknowledged_bytes() > 0
    }

    /// The worker hears of the jobs that have ended before anything else.
    fn push(&mut self, message: LinkFrame, term: u64) {
        self.push_ended(term);
        self.out.push(message);
    }

    fn push_ended(&mut self, term: u64) {
        if !self.ended.is_empty() {
            let message = v1::ReleaseJobs {
                term,
                jobs: std::mem::take(&mut self.ended),
                reason: None,
            };
            self.out.push(link_frame(&message.into(), CONTROL));
        }
    }

    fn flush(&mut self) {
        // A link that takes no more is as good as dead: its reader finds it closed.
        if self.sender.send_all(self.out.drain(..)).is_err() {
            self.sender.abort();
        }
    }

    /// Looks again; returns by how much the backlog has changed.
    fn look(&mut self) -> isize {
        let before = std::mem::replace(&mut self.backlog, self.sender.queued_bytes());
        self.backlog as isize - before as isize
    }
}

/// Seats by name, lines by number.
#[derive(Default)]
pub(crate) struct Workers {
    pub(crate) seats: BTreeMap<String, Seat>,
    lines: FxHashMap<WorkerId, Line>,
    dirty: Vec<WorkerId>,
    /// Those that are to be told of jobs that have ended.
    untold: Vec<WorkerId>,
    term: u64,
    next: u32,
    /// Bytes on their way to all workers, as last looked at.
    backlog: usize,
    /// Methods of the roles that were ever registered, by role and name: what parameters there are.
    pub(crate) methods: FxHashMap<(String, String), v1::MethodInfo>,
}

impl Workers {
    /// What they are told is of this term.
    pub(crate) fn new(term: u64) -> Self {
        Self {
            term,
            ..Self::default()
        }
    }

    pub(crate) fn learn_methods(&mut self, info: &v1::WorkerInfo) {
        for role in &info.roles {
            for method in &role.methods {
                self.methods
                    .insert((role.name.clone(), method.name.clone()), method.clone());
            }
        }
    }

    /// A number for a link that has come up.
    pub(crate) fn number(&mut self) -> WorkerId {
        self.next += 1;
        WorkerId(self.next)
    }

    pub(crate) fn add(&mut self, worker: WorkerId, line: Line) {
        self.lines.insert(worker, line);
    }

    pub(crate) fn remove(&mut self, worker: WorkerId) -> Option<Line> {
        let line = self.lines.remove(&worker)?;
        self.backlog -= line.backlog;
        Some(line)
    }

    pub(crate) fn line(&self, worker: WorkerId) -> Option<&Line> {
        self.lines.get(&worker)
    }

    pub(crate) fn line_mut(&mut self, worker: WorkerId) -> Option<&mut Line> {
        self.lines.get_mut(&worker)
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.values()
    }

    /// Queues a message; it leaves at the end of the turn, together with everything else for that worker.
    pub(crate) fn send(&mut self, worker: WorkerId, message: LinkFrame) {
        let Some(line) = self.lines.get_mut(&worker) else {
            return;
        };
        if line.out.is_empty() {
            self.dirty.push(worker);
        }
        line.push(message, self.term);
    }

    /// A job has ended well. The worker lets go of it with the next thing that it is told, or at `tell_of_ended`: alone, that
    /// is not worth waking it.
    pub(crate) fn job_ended(&mut self, worker: WorkerId, job: u64) {
        if let Some(line) = self.lines.get_mut(&worker) {
            if line.ended.is_empty() {
                self.untold.push(worker);
            }
            line.ended.push(job);
        }
    }

    /// Whether `tell_of_ended` is to be called in a moment.
    pub(crate) fn has_untold(&self) -> bool {
        !self.untold.is_empty()
    }

    /// Workers hear of the jobs that have ended, those that did not hear of them meanwhile.
    pub(crate) fn tell_of_ended(&mut self) {
        for worker in self.untold.drain(..) {
            if let Some(line) = self
                .lines
                .get_mut(&worker)
                .filter(|line| !line.ended.is_empty())
            {
                if line.out.is_empty() {
                    self.dirty.push(worker);
                }
                line.push_ended(self.term);
            }
        }
    }

    /// One write for each link that has something to say.
    pub(crate) fn flush(&mut self) {
        for worker in self.dirty.drain(..) {
            if let Some(line) = self.lines.get_mut(&worker) {
                line.flush();
                self.backlog = self.backlog.saturating_add_signed(line.look());
            }
        }
    }

    /// Bytes on their way to workers that have not taken them yet. Exact only when there are more than `enough`.
    pub(crate) fn backlog(&mut self, enough: usize) -> usize {
        if self.backlog > enough {
            for line in self.lines.values_mut() {
                self.backlog = self.backlog.saturating_add_signed(line.look());
            }
        }
        self.backlog
    }
}
