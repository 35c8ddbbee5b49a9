//! What engines hold: the ready queue of a role, and activations of theirs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use omniflow_wire::v1;
use parking_lot::MutexGuard;
use prost::Message;

use crate::activation::{Activation, InputKind};
use crate::core::Core;
use crate::error::NodeError;
use crate::io::Shared;
use crate::ready::ReadyQueue;
use crate::sharing::{BIG_BYTES, Draft, Reads};

/// The longest payload of a frame.
const MAX_FRAME_BYTES: usize = 128 << 20;

/// The ready queue of one role.
#[derive(Clone)]
pub struct Ready {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Arc<ReadyQueue>,
}

impl Ready {
    /// Up to `max_n` activations, as soon as there is one; they are STARTED by this. None after `timeout`, or when an
    /// activation of the role that was refused room (`emit`) has some again.
    ///
    /// Fails with `Closed`.
    pub fn take(
        &self,
        max_n: usize,
        timeout: Duration,
    ) -> Result<Vec<ActivationHandle>, NodeError> {
        let taken = self.queue.take(max_n, timeout)?;
        if taken.is_empty() {
            return Ok(Vec::new());
        }
        self.shared
            .act(|core, now, out| core.started(&taken, now, out));
        let handle = |activation: Arc<Activation>| {
            let reads = Reads::new(&self.shared.sharing.holds);
            reads.note(activation.values().map(|(_, value)| value));
            ActivationHandle {
                shared: Arc::clone(&self.shared),
                activation,
                reads,
                over: AtomicBool::new(false),
            }
        };
        Ok(taken.into_iter().map(handle).collect())
    }

    /// Activations that wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One run of a node, in the hands of the role. Callable from any thread. Dropping it unfinished fails it.
pub struct ActivationHandle {
    shared: Arc<Shared>,
    activation: Arc<Activation>,
    reads: Reads,
    over: AtomicBool,
}

impl ActivationHandle {
    /// Names, inputs, parameters, streams, deadline.
    pub fn activation(&self) -> &Activation {
        &self.activation
    }

    /// Frames of a stream: at least one; none after `timeout`; `None` when it has ended.
    ///
    /// Fails with `Cancelled`, and `UnknownPort`.
    pub fn read(
        &self,
        parameter: &str,
        max_n: usize,
        timeout: Duration,
    ) -> Result<Option<Vec<Bytes>>, NodeError> {
        let until = Instant::now().checked_add(timeout);
        loop {
            let mut grants = Vec::new();
            let read = self.activation.read(parameter, max_n, until, &mut grants)?;
            self.reads.note(read.iter().flatten());
            if grants.is_empty() {
                return Ok(read);
            }
            self.shared
                .act(|core, now, out| core.grant(&self.activation, grants, now, out));
            if read.as_ref().is_none_or(|frames| !frames.is_empty()) {
                return Ok(read);
            }
        }
    }

    /// How many frames were taken. Those that were not have to wait until their reader has caught up; `Ready::take`
    /// comes back then, at the latest, and `wait_for_room` returns. Never blocks.
    ///
    /// Fails with `Cancelled`, `UnknownPort`, and `BadOutput` for a second frame on a plain port.
    pub fn emit(&self, port: &str, frames: Vec<Bytes>) -> Result<usize, NodeError> {
        self.emit_before(false, port, frames)
    }

    /// The same. `more`: this thread emits or finishes something again at once, so that these may wait a moment (two
    /// milliseconds at most) to leave together with what follows.
    pub fn emit_before(
        &self,
        more: bool,
        port: &str,
        frames: Vec<Bytes>,
    ) -> Result<usize, NodeError> {
        self.emit_on(self.shared.core.lock(), more, port, frames)
    }

    /// The same, unless another thread is at work on the core: then the frames come back.
    pub fn try_emit_before(
        &self,
        more: bool,
        port: &str,
        frames: Vec<Bytes>,
    ) -> Result<Result<usize, NodeError>, Vec<Bytes>> {
        match self.shared.core.try_lock() {
            Some(core) => Ok(self.emit_on(core, more, port, frames)),
            None => Err(frames),
        }
    }

    fn emit_on(
        &self,
        core: MutexGuard<'_, Core>,
        more: bool,
        port: &str,
        frames: Vec<Bytes>,
    ) -> Result<usize, NodeError> {
        self.activation.check()?;
        self.check_holds()?;
        for frame in &frames {
            self.check_length(port, frame.len())?;
        }
        self.shared.act_on(core, more, |core, now, out| {
            core.emit(&self.activation, port, frames, now, out)
        })
    }

    /// The same for payloads that have not been written yet, each of these parts in order. If one is big, each is written
    /// (`payload`) only when there is room for it, so that one that is refused costs nothing, however often.
    pub fn emit_parts(
        &self,
        more: bool,
        port: &str,
        frames: &[Vec<&[u8]>],
    ) -> Result<usize, NodeError> {
        let length = |parts: &Vec<&[u8]>| parts.iter().map(|part| part.len()).sum::<usize>();
        if frames.iter().all(|parts| length(parts) <= BIG_BYTES) {
            let frames = frames.iter().map(|parts| self.payload(parts));
            return self.emit_before(more, port, frames.collect());
        }
        for parts in frames {
            self.check_length(port, length(parts))?;
        }
        for (taken, parts) in frames.iter().enumerate() {
            self.activation.check()?;
            let has_room = self.shared.core.lock().may_emit(&self.activation, port)?;
            let more = more || taken + 1 < frames.len();
            if !has_room || self.emit_before(more, port, vec![self.payload(parts)])? == 0 {
                return Ok(taken);
            }
        }
        Ok(frames.len())
    }

    /// One payload of these parts, in order. If it is big it is written to memory that other workers of the host read in
    /// place, and begins at a multiple of 64 bytes: this is the only time that it is copied on its way to them.
    pub fn payload(&self, parts: &[&[u8]]) -> Bytes {
        self.shared.sharing.store.put(parts)
    }

    /// Room to compute data of a payload in place: `payload`, given as its last part, then copies nothing. `None` if it is
    /// little, or there is no room.
    pub fn draft(&self, bytes: usize) -> Option<Draft> {
        self.shared.sharing.store.draft(bytes)
    }

    /// Rule 19: before output leaves.
    fn check_holds(&self) -> Result<(), NodeError> {
        self.reads.check().map_err(|error| NodeError::Stale {
            node: self.activation.node().to_owned(),
            cause: error.to_string(),
        })
    }

    fn check_length(&self, port: &str, bytes: usize) -> Result<(), NodeError> {
        if bytes <= MAX_FRAME_BYTES {
            return Ok(());
        }
        Err(NodeError::BadOutput {
            node: self.activation.node().to_owned(),
            port: port.to_owned(),
            problem: format!(
                "a frame of {bytes} bytes is over the limit of {MAX_FRAME_BYTES}; send it in parts",
            ),
        })
    }

    /// Sleeps until there is room for what `emit` did not take. False after `timeout`.
    ///
    /// Fails with `Cancelled`.
    pub fn wait_for_room(&self, timeout: Duration) -> Result<bool, NodeError> {
        let until = Instant::now().checked_add(timeout);
        self.activation.wait_for_room(until)
    }

    /// No more frames on this stream port.
    ///
    /// Fails with `Cancelled`, `UnknownPort`, and `BadOutput` for a plain port, or a stream that has ended.
    pub fn end(&self, port: &str) -> Result<(), NodeError> {
        self.activation.check()?;
        self.shared
            .act(|core, now, out| core.end(&self.activation, port, now, out))
    }

    /// Ends open stream ports and closes optional ports that got nothing; the activation is over.
    ///
    /// Fails with `Cancelled`, and `BadOutput` when a required plain port got nothing; then it still runs.
    pub fn finish(&self, features: BTreeMap<String, f64>) -> Result<(), NodeError> {
        self.finish_before(false, Vec::new(), features)
    }

    /// The same, after a last frame for each of these ports, whatever room there is: one turn for all of it, and one
    /// message. `more` is that of `emit_before`.
    pub fn finish_before(
        &self,
        more: bool,
        last: Vec<(String, Bytes)>,
        features: BTreeMap<String, f64>,
    ) -> Result<(), NodeError> {
        self.activation.check()?;
        self.check_holds()?;
        for (port, frame) in &last {
            self.check_length(port, frame.len())?;
        }
        let features = features
            .into_iter()
            .map(|(name, value)| v1::Feature { name, value })
            .collect();
        self.shared.act_before(more, |core, now, out| {
            core.finish(&self.activation, last, features, now, out)
        })?;
        self.over.store(true, Ordering::Release);
        Ok(())
    }

    /// It cannot be done. Of a cancelled activation nobody wants to know why, so that is no error.
    ///
    /// `error` is a serialized `Error`; node and worker are filled in. Fails with `Malformed`.
    pub fn fail(&self, error: &[u8]) -> Result<(), NodeError> {
        let error = v1::Error::decode(error).map_err(|cause| NodeError::Malformed {
            what: "Error of Activation.fail",
            cause: cause.to_string(),
        })?;
        self.fail_with(error);
        Ok(())
    }

    fn fail_with(&self, error: v1::Error) {
        self.over.store(true, Ordering::Release);
        // `Cancelled` is the only way to fail here.
        let _ = self
            .shared
            .act(|core, now, out| core.fail(&self.activation, error, now, out));
    }

    /// Parameters and how they are fed.
    pub fn inputs(&self) -> Vec<(String, InputKind)> {
        let inputs = self.activation.inputs();
        inputs.map(|(name, kind)| (name.to_owned(), kind)).collect()
    }
}

impl Drop for ActivationHandle {
    fn drop(&mut self) {
        if !self.over.load(Ordering::Acquire) && !self.activation.withdrawn() {
            self.fail_with(v1::Error {
                code: v1::ErrorCode::Internal.into(),
                message: "the worker dropped the activation without finishing it".to_owned(),
                cure: "call finish() or fail() on every activation that was taken".to_owned(),
                ..Default::default()
            });
        }
    }
}
