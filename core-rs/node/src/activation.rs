//! One run of a node in a job for one key, as the worker's threads share it: inputs, streams, and whether to stop.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use omniflow_flow::{ActivationInput, InputValue, Key, NodeId, PortIx};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::core::credits::{Amount, Grant, Meter, WINDOW};
use crate::core::flow_counts::Traffic;
use crate::error::NodeError;
use crate::flow_entry::FlowEntry;
use crate::ids::JobId;
use crate::ready::Rank;

/// What all activations of a job share.
#[derive(Debug)]
pub(crate) struct JobInfo {
    pub(crate) id: JobId,
    pub(crate) seed: u64,
    pub(crate) tenant: String,
    /// Its class: a higher one goes first.
    pub(crate) priority: i32,
    /// "node.parameter" to serialized Value: what this job overrides.
    pub(crate) overrides: BTreeMap<String, Bytes>,
    pub(crate) deadline: Mutex<Option<Instant>>,
    /// This worker has let go of the job, however it ended.
    pub(crate) over: AtomicBool,
}

/// How a parameter is fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// One value.
    Value,
    /// A stream of frames.
    Stream,
    /// An optional port that was closed.
    None,
}

#[derive(Debug)]
struct Input {
    port: PortIx,
    parameter: String,
    kind: InputKind,
    value: Option<Bytes>,
}

#[derive(Debug, Default)]
struct Stream {
    port: u32,
    frames: VecDeque<Bytes>,
    /// Of those.
    bytes: usize,
    ended: bool,
    meter: Meter,
}

impl Stream {
    fn push(&mut self, payload: Bytes) {
        self.bytes += payload.len();
        self.frames.push_back(payload);
    }

    /// At least one frame, and what its producer has to hear of that.
    fn take(&mut self, max_n: usize) -> (Vec<Bytes>, Option<Grant>) {
        let count = self.frames.len().min(max_n.max(1));
        let taken: Vec<Bytes> = self.frames.drain(..count).collect();
        let bytes: usize = taken.iter().map(Bytes::len).sum();
        self.bytes -= bytes;
        let amount = |frames: usize, bytes: usize| Amount {
            frames: frames as u64,
            bytes: bytes as u64,
        };
        let unread = amount(self.frames.len(), self.bytes);
        let grant = self.meter.note(amount(count, bytes), unread, WINDOW);
        // What has ended needs no more room.
        (taken, grant.filter(|_| !self.ended))
    }
}

/// One run of a node; see `ActivationHandle` for what a role does with it.
#[derive(Debug)]
pub struct Activation {
    pub(crate) job: Arc<JobInfo>,
    pub(crate) flow: Arc<FlowEntry>,
    pub(crate) node: NodeId,
    pub(crate) key: Key,
    pub(crate) epoch: u32,
    /// The job's place among others of its class.
    pub(crate) order: f64,
    /// Its place in the ready queue, once it has one.
    pub(crate) rank: OnceLock<Rank>,
    /// Frames of earlier attempts that it goes on from, with their state.
    pub(crate) resumed: Vec<Bytes>,
    inputs: Vec<Input>,
    cancelled: AtomicBool,
    pub(crate) started: AtomicBool,
    pub(crate) emitted: AtomicBool,
    /// Whether it was refused room for a frame and has not been told of any since.
    pub(crate) held_up: AtomicBool,
    pub(crate) traffic: Traffic,
    streams: Mutex<Vec<Stream>>,
    changed: Condvar,
}

impl Activation {
    pub(crate) fn new(
        job: Arc<JobInfo>,
        flow: Arc<FlowEntry>,
        (node, key, epoch): (NodeId, Key, u32),
        order: f64,
        inputs: Vec<ActivationInput<Bytes>>,
    ) -> Self {
        let ports = flow.graph.node(node).map_or(&[][..], |spec| &spec.inputs);
        let inputs: Vec<Input> = inputs
            .into_iter()
            .map(|input| {
                let (kind, value) = match input.value {
                    InputValue::Plain(value) => (InputKind::Value, Some(value)),
                    InputValue::Stream => (InputKind::Stream, None),
                    InputValue::None => (InputKind::None, None),
                };
                let port = ports.get(input.port.index());
                Input {
                    port: input.port,
                    parameter: port.map_or_else(String::new, |port| port.parameter.clone()),
                    kind,
                    value,
                }
            })
            .collect();
        let stream = |input: &Input| Stream {
            port: input.port.0,
            ..Stream::default()
        };
        let streams = inputs
            .iter()
            .filter(|input| input.kind == InputKind::Stream);
        let streams = Mutex::new(streams.map(stream).collect());
        Self {
            job,
            flow,
            node,
            key,
            epoch,
            order,
            rank: OnceLock::new(),
            resumed: Vec::new(),
            inputs,
            cancelled: AtomicBool::new(false),
            started: AtomicBool::new(false),
            emitted: AtomicBool::new(false),
            held_up: AtomicBool::new(false),
            traffic: Traffic::default(),
            streams,
            changed: Condvar::new(),
        }
    }

    /// Counts the plain inputs, which it has from the beginning.
    pub(crate) fn count_values(&self, now: Instant) {
        for input in &self.inputs {
            if let Some(value) = &input.value {
                self.traffic.came(input.port.0, value.len(), now);
            }
        }
    }

    /// The job.
    pub fn job(&self) -> JobId {
        self.job.id
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        self.flow.node(self.node).map_or("", |node| &node.name)
    }

    /// The role to run.
    pub fn role(&self) -> &str {
        self.flow.node(self.node).map_or("", |node| &node.role)
    }

    /// The role's method to run.
    pub fn method(&self) -> &str {
        self.flow.node(self.node).map_or("", |node| &node.method)
    }

    /// The fan-out and loop indices that it is for.
    pub fn key(&self) -> &[u32] {
        self.key.path()
    }

    /// The attempt's number.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// What its readers have of earlier attempts, from the first frame on: serialized Values, each with the FrameState behind
    /// it. It goes on after that; its next frame is the one that follows. Only of a resumable method.
    pub fn resumed(&self) -> &[Bytes] {
        &self.resumed
    }

    /// The job's seed.
    pub fn seed(&self) -> u64 {
        self.job.seed
    }

    /// Whose job it is.
    pub fn tenant(&self) -> &str {
        &self.job.tenant
    }

    /// Parameters and how they are fed, of the alternative that fired.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, InputKind)> {
        self.inputs
            .iter()
            .map(|input| (input.parameter.as_str(), input.kind))
    }

    /// Serialized Values: the inputs that have one, by parameter.
    pub fn values(&self) -> impl Iterator<Item = (&str, &Bytes)> {
        let inputs = self.inputs.iter();
        inputs.filter_map(|input| Some((input.parameter.as_str(), input.value.as_ref()?)))
    }

    /// Serialized Values: the flow's constants, overridden by the job's.
    pub fn parameters(&self) -> BTreeMap<String, Bytes> {
        let Some(node) = self.flow.node(self.node) else {
            return BTreeMap::new();
        };
        let mut parameters = node.constants.clone();
        for (name, value) in &self.job.overrides {
            let rest = name.strip_prefix(node.name.as_str());
            if let Some(parameter) = rest.and_then(|rest| rest.strip_prefix('.')) {
                parameters.insert(parameter.to_owned(), value.clone());
            }
        }
        parameters
    }

    /// Time to the deadline; `None` when there is none.
    pub fn remaining(&self) -> Option<Duration> {
        let deadline = *self.job.deadline.lock();
        deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Whether it must stop: cancelled, failed, moved or past the deadline.
    pub fn cancelled(&self) -> bool {
        self.withdrawn() || self.remaining() == Some(Duration::ZERO)
    }

    /// Whether its job has ended, or failed here. Also told to one that was finished long before.
    pub fn job_over(&self) -> bool {
        self.job.over.load(Ordering::Acquire)
    }

    /// Whether it must stop for another reason than the deadline.
    pub(crate) fn withdrawn(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// `Cancelled` if it must stop.
    pub(crate) fn check(&self) -> Result<(), NodeError> {
        if self.withdrawn() {
            Err(self.cancelled_error("the job ended, or this attempt was replaced"))
        } else if self.cancelled() {
            Err(self.cancelled_error("its deadline has passed"))
        } else {
            Ok(())
        }
    }

    pub(crate) fn cancelled_error(&self, why: &'static str) -> NodeError {
        NodeError::Cancelled {
            job: self.job().to_string(),
            node: self.node().to_owned(),
            why,
        }
    }

    /// A plain input's value; `None` when an optional port was closed.
    pub fn value(&self, parameter: &str) -> Result<Option<Bytes>, NodeError> {
        let plain = |input: &&Input| input.kind != InputKind::Stream;
        let input = self.input(parameter, "plain input", plain)?;
        Ok(input.value.clone())
    }

    /// Frames of a stream: at least one; none `until` then; `None` when it has ended. What producers have to hear of it
    /// goes to `grants`, and when that comes before a wait, none are returned at once.
    pub(crate) fn read(
        &self,
        parameter: &str,
        max_n: usize,
        until: Option<Instant>,
        grants: &mut Vec<(PortIx, Grant)>,
    ) -> Result<Option<Vec<Bytes>>, NodeError> {
        let is_stream = |input: &&Input| input.kind == InputKind::Stream;
        let port = self.input(parameter, "stream input", is_stream)?.port.0;
        let mut streams = self.streams.lock();
        loop {
            self.check()?;
            let Some(stream) = streams.iter_mut().find(|stream| stream.port == port) else {
                return Ok(None);
            };
            if !stream.frames.is_empty() {
                let (taken, grant) = stream.take(max_n);
                grants.extend(grant.map(|grant| (PortIx(port), grant)));
                return Ok(Some(taken));
            }
            if stream.ended {
                return Ok(None);
            }
            lift(&mut streams, |other| other != port, grants);
            let now = Instant::now();
            if !grants.is_empty() || until.is_some_and(|until| now >= until) {
                return Ok(Some(Vec::new()));
            }
            self.wait(&mut streams, until);
        }
    }

    /// Whether there is room for what was refused. False: not `until` then.
    pub(crate) fn wait_for_room(&self, until: Option<Instant>) -> Result<bool, NodeError> {
        let mut streams = self.streams.lock();
        loop {
            self.check()?;
            if !self.held_up.load(Ordering::Acquire) {
                return Ok(true);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
            self.wait(&mut streams, until);
        }
    }

    /// Sleeps until something changes, its time is over, or its deadline is.
    fn wait(&self, streams: &mut MutexGuard<'_, Vec<Stream>>, until: Option<Instant>) {
        // Apart from the match, which would hold the deadline's lock for as long as it sleeps: then no bind gets through.
        let wake = until.into_iter().chain(*self.job.deadline.lock()).min();
        match wake {
            Some(wake) => drop(self.changed.wait_until(streams, wake)),
            None => self.changed.wait(streams),
        }
    }

    /// One frame of a stream if there is one, and what producers have to hear, for tests.
    #[cfg(test)]
    pub(crate) fn read_now(
        &self,
        parameter: &str,
        grants: &mut Vec<(PortIx, Grant)>,
    ) -> Result<Option<Vec<Bytes>>, NodeError> {
        self.read(parameter, 1, Some(Instant::now()), grants)
    }

    fn input(
        &self,
        parameter: &str,
        what: &'static str,
        fits: impl Fn(&&Input) -> bool,
    ) -> Result<&Input, NodeError> {
        let found = self
            .inputs
            .iter()
            .find(|input| input.parameter == parameter);
        found.filter(&fits).ok_or_else(|| {
            let known: Vec<&str> = self
                .inputs
                .iter()
                .filter(&fits)
                .map(|input| input.parameter.as_str())
                .collect();
            NodeError::UnknownPort {
                node: self.node().to_owned(),
                what,
                name: parameter.to_owned(),
                known: if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                },
            }
        })
    }

    // --- for the core, which wakes readers once per batch -----------------------------------------------------------

    pub(crate) fn deliver(&self, port: PortIx, payload: Bytes) {
        let mut streams = self.streams.lock();
        if let Some(stream) = streams.iter_mut().find(|stream| stream.port == port.0) {
            stream.push(payload);
        }
    }

    /// What its producers have to hear when it is over.
    pub(crate) fn lift_all(&self) -> Vec<(PortIx, Grant)> {
        let mut grants = Vec::new();
        lift(&mut self.streams.lock(), |_| true, &mut grants);
        grants
    }

    pub(crate) fn end_stream(&self, port: PortIx) {
        let mut streams = self.streams.lock();
        if let Some(stream) = streams.iter_mut().find(|stream| stream.port == port.0) {
            stream.ended = true;
        }
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.wake_for_good();
    }

    /// It can send again. False: it was not held up.
    pub(crate) fn has_room_again(&self) -> bool {
        let held_up = self.held_up.swap(false, Ordering::AcqRel);
        if held_up {
            self.wake_for_good();
        }
        held_up
    }

    /// Under the lock, so that whoever waits is either before its check or asleep.
    fn wake_for_good(&self) {
        drop(self.streams.lock());
        self.wake();
    }

    pub(crate) fn wake(&self) {
        self.changed.notify_all();
    }
}

/// Some streams hold their producers up no longer.
fn lift(streams: &mut [Stream], which: impl Fn(u32) -> bool, grants: &mut Vec<(PortIx, Grant)>) {
    for stream in streams.iter_mut().filter(|stream| which(stream.port)) {
        let grant = stream.meter.lift();
        grants.extend(grant.map(|grant| (PortIx(stream.port), grant)));
    }
}
