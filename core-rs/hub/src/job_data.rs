//! The scheduler's part of one job: its inputs, its results, and what its own resolver has sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use omniflow_control::NodeState;
use omniflow_flow::{Graph, Item, Resolver};
use omniflow_placement::WorkerId;
use omniflow_wire::v1;

use crate::arriving::Gathered;
use crate::feeds::Feeds;
use crate::journal::bodies::KeptResult;
use crate::outgoing::Outgoing;
use crate::result_log::ResultLog;
use crate::resuming::Resuming;

/// Below this, a frame is copied out of the buffer it came in: else a few bytes would keep that whole buffer alive.
const COPY_BELOW: usize = 4_096;

/// A frame's content, kept for long.
pub(crate) fn keep(payload: Bytes) -> Bytes {
    if payload.len() < COPY_BELOW {
        Bytes::copy_from_slice(&payload)
    } else {
        payload
    }
}

/// What a job brought for one input of its flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InputData {
    /// The frame of a plain input.
    Plain(Bytes),
    /// All frames of a stream.
    Stream(Vec<Bytes>),
    /// An optional input that was left out.
    Closed,
}

impl InputData {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Plain(payload) => payload.len(),
            Self::Stream(payloads) => payloads.iter().map(Bytes::len).sum(),
            Self::Closed => 0,
        }
    }

    /// What goes out on each edge of the input, in order.
    pub(crate) fn items(&self) -> impl Iterator<Item = Item<Bytes>> {
        let (frames, mark) = match self {
            Self::Plain(payload) => (std::slice::from_ref(payload), None),
            Self::Stream(payloads) => {
                let count = payloads.len() as u64;
                (payloads.as_slice(), Some(Item::End { count }))
            }
            Self::Closed => (&[][..], Some(Item::Closed)),
        };
        let frames = (0..).zip(frames).map(|(seq, payload)| Item::Frame {
            seq,
            payload: payload.clone(),
        });
        frames.chain(mark)
    }
}

/// What a job needs while it runs; dropped at its end.
pub(crate) struct Running {
    pub(crate) inputs: Vec<InputData>,
    pub(crate) parameters: BTreeMap<String, v1::Value>,
    pub(crate) resolver: Resolver<Bytes>,
    pub(crate) outgoing: Outgoing,
    pub(crate) gathered: Gathered,
    /// What resumable binds that are to be placed again go on from.
    pub(crate) resuming: Resuming,
    /// Workers that may still speak of an earlier run of the job, with the question that they have not answered.
    pub(crate) earlier: Vec<(u64, WorkerId)>,
}

/// See the module.
pub(crate) struct JobData {
    pub(crate) graph: Arc<Graph>,
    pub(crate) feeds: Arc<Feeds>,
    pub(crate) running: Option<Running>,
    pub(crate) results: Box<[ResultLog]>,
    /// Steps of attempts, from when somebody first asked for progress.
    pub(crate) progress: Vec<(u32, NodeState)>,
    pub(crate) wants_progress: bool,
    pub(crate) subscribers: Vec<usize>,
    /// Tells another request under the same idempotency key from this one sent again.
    pub(crate) fingerprint: u64,
    /// Some client has been told everything, to the end.
    pub(crate) delivered: bool,
    /// The journal's last record about it.
    pub(crate) written_at: u64,
    /// The one that says that it is accepted.
    pub(crate) accepted_at: u64,
    /// It has result frames of this turn.
    pub(crate) fresh: bool,
}

impl JobData {
    pub(crate) fn new(
        graph: Arc<Graph>,
        feeds: Arc<Feeds>,
        inputs: Vec<InputData>,
        parameters: BTreeMap<String, v1::Value>,
        fingerprint: u64,
    ) -> Self {
        let running = Running {
            inputs,
            parameters,
            resolver: Resolver::with_results(graph.clone()),
            outgoing: Outgoing::new(graph.nodes().len()),
            gathered: Gathered::default(),
            resuming: Resuming::default(),
            earlier: Vec::new(),
        };
        let results = graph.results().iter().map(|_| ResultLog::default());
        Self {
            results: results.collect(),
            graph,
            feeds,
            running: Some(running),
            progress: Vec::new(),
            wants_progress: false,
            subscribers: Vec::new(),
            fingerprint,
            delivered: false,
            written_at: 0,
            accepted_at: 0,
            fresh: false,
        }
    }

    /// One that has ended in an earlier life.
    pub(crate) fn restored(
        graph: Arc<Graph>,
        feeds: Arc<Feeds>,
        kept: Vec<KeptResult>,
        fingerprint: u64,
    ) -> Self {
        let mut data = Self::new(graph, feeds, Vec::new(), BTreeMap::new(), fingerprint);
        data.running = None;
        for (log, kept) in data.results.iter_mut().zip(kept) {
            *log = ResultLog::restored(kept);
        }
        data
    }

    /// Bytes that are held for it while it runs: of its inputs, and of what the scheduler's resolver made of them.
    pub(crate) fn held_bytes(&self) -> usize {
        let held = |running: &Running| {
            let inputs: usize = running.inputs.iter().map(InputData::bytes).sum();
            inputs + running.outgoing.bytes()
        };
        self.running.as_ref().map_or(0, held)
    }

    /// Bytes that wait in the scheduler's resolver for others.
    pub(crate) fn gathered_bytes(&self) -> usize {
        let gathered = |running: &Running| running.gathered.bytes;
        self.running.as_ref().map_or(0, gathered)
    }

    /// Bytes of its results that are still kept.
    pub(crate) fn result_bytes(&self) -> usize {
        self.results.iter().map(ResultLog::bytes).sum()
    }
}
