//! Inputs and results of the jobs: what the scheduler carries.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use omniflow_control::NodeState;
use omniflow_flow::{Destination, EdgeId, Graph, Item, NodeId, Origin, PortIx, Resolver};
use omniflow_wire::{Frame, v1};

use crate::journal::bodies::KeptResult;
use crate::restore::chain;

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

/// What a job needs while it runs; dropped at its end.
pub(crate) struct Running {
    pub(crate) inputs: Vec<InputData>,
    pub(crate) parameters: BTreeMap<String, v1::Value>,
    pub(crate) resolver: Resolver<Bytes>,
}

/// What came of one result. Frames are kept from `base` on.
#[derive(Debug, Default)]
pub(crate) struct ResultLog {
    base: u64,
    bytes: usize,
    frames: VecDeque<Bytes>,
    mark: Option<(v1::Mark, u64)>,
    /// Of all frames so far, acknowledged ones too.
    digest: u64,
    /// What the journal was told of: frames.
    noted: u64,
    /// Frames that a client may have of an earlier life, and their digest: nothing is shown before they have come again.
    expected: Option<(u64, u64)>,
}

impl ResultLog {
    /// Returns how many frames a client may have that are not those which came now.
    pub(crate) fn push(&mut self, item: Item<Bytes>) -> Option<u64> {
        let is_mark = !matches!(item, Item::Frame { .. });
        match item {
            Item::Frame { payload, .. } => {
                self.digest = chain(self.digest, &payload);
                self.bytes += payload.len();
                self.frames.push_back(payload);
            }
            Item::End { count } => self.mark = Some((v1::Mark::End, count)),
            Item::Closed => self.mark = Some((v1::Mark::Closed, 0)),
        }
        let (frames, digest) = self.expected?;
        if self.len() == frames && self.digest == digest {
            self.expected = None;
            return None;
        }
        (is_mark || self.len() >= frames).then_some(frames)
    }

    /// Frames so far.
    fn len(&self) -> u64 {
        self.base + self.frames.len() as u64
    }

    /// A client may have so many frames of that digest.
    pub(crate) fn expect(&mut self, frames: u64, digest: u64) {
        self.expected = (frames > 0).then_some((frames, digest));
        self.noted = frames;
    }

    /// How many frames there are and their digest, when there are more than the journal was told of.
    pub(crate) fn note(&mut self) -> Option<(u64, u64)> {
        let frames = self.len();
        let more = frames > self.noted;
        self.noted = self.noted.max(frames);
        more.then_some((frames, self.digest))
    }

    pub(crate) fn to_journal(&self) -> KeptResult {
        let (mark, count) = self.mark.unwrap_or((v1::Mark::None, 0));
        KeptResult {
            base: self.base,
            frames: self.frames.iter().cloned().collect(),
            mark: mark.into(),
            count,
        }
    }

    pub(crate) fn restored(kept: KeptResult) -> Self {
        let mark = kept.mark();
        Self {
            base: kept.base,
            bytes: kept.frames.iter().map(Bytes::len).sum(),
            frames: kept.frames.into(),
            mark: (mark != v1::Mark::None).then_some((mark, kept.count)),
            ..Self::default()
        }
    }

    /// Drops every frame up to and with `seq`. Returns the bytes given back.
    pub(crate) fn ack(&mut self, seq: u64) -> usize {
        let before = self.bytes;
        while self.base <= seq
            && let Some(frame) = self.frames.pop_front()
        {
            self.bytes -= frame.len();
            self.base += 1;
        }
        before - self.bytes
    }

    /// What a reader at `cursor` sees next, and where its cursor is then. The mark counts as the frame after the last.
    pub(crate) fn read(&self, port: u32, cursor: u64) -> Option<(v1::ResultFrame, u64)> {
        if self.expected.is_some() {
            return None;
        }
        let seq = cursor.max(self.base);
        let end = self.base + self.frames.len() as u64;
        let mut frame = v1::ResultFrame {
            port,
            seq,
            ..Default::default()
        };
        if let Some(payload) = self.frames.get((seq - self.base) as usize) {
            frame.payload = payload.clone();
        } else {
            let (mark, count) = self.mark.filter(|_| seq == end)?;
            frame.mark = mark.into();
            frame.count = count;
        }
        Some((frame, seq + 1))
    }
}

/// The scheduler's part of one job.
pub(crate) struct JobData {
    pub(crate) graph: Arc<Graph>,
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
        inputs: Vec<InputData>,
        parameters: BTreeMap<String, v1::Value>,
        fingerprint: u64,
    ) -> Self {
        let resolver = Resolver::with_results(graph.clone());
        Self {
            results: graph
                .results()
                .iter()
                .map(|_| ResultLog::default())
                .collect(),
            graph,
            running: Some(Running {
                inputs,
                parameters,
                resolver,
            }),
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
    pub(crate) fn restored(graph: Arc<Graph>, kept: Vec<KeptResult>, fingerprint: u64) -> Self {
        let mut data = Self::new(graph, Vec::new(), BTreeMap::new(), fingerprint);
        data.running = None;
        for (log, kept) in data.results.iter_mut().zip(kept) {
            *log = ResultLog::restored(kept);
        }
        data
    }

    /// Bytes of its inputs that are still held.
    pub(crate) fn input_bytes(&self) -> usize {
        let inputs = self.running.iter().flat_map(|running| &running.inputs);
        inputs.map(InputData::bytes).sum()
    }

    /// Bytes of its results that are still kept.
    pub(crate) fn result_bytes(&self) -> usize {
        self.results.iter().map(|log| log.bytes).sum()
    }

    /// The frames of the job's inputs that a node reads, in the order in which they are sent.
    pub(crate) fn frames_into(&self, job: u64, node: u32, term: u64) -> Vec<Frame> {
        let Some(running) = &self.running else {
            return Vec::new();
        };
        let mut frames = Vec::new();
        for (port, input) in running.inputs.iter().enumerate() {
            for edge in self.graph.edges_from(Origin::Input {
                port: PortIx(port as u32),
            }) {
                if leads_to(&self.graph, *edge, NodeId(node)) {
                    let header = v1::FrameHeader {
                        job,
                        edge: edge.0,
                        term,
                        ..Default::default()
                    };
                    input.frames(&header, &mut frames);
                }
            }
        }
        frames
    }
}

impl InputData {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Plain(payload) => payload.len(),
            Self::Stream(payloads) => payloads.iter().map(Bytes::len).sum(),
            Self::Closed => 0,
        }
    }

    fn frames(&self, header: &v1::FrameHeader, frames: &mut Vec<Frame>) {
        let mark = |mark: v1::Mark, count| {
            let header = v1::FrameHeader {
                mark: mark.into(),
                count,
                ..header.clone()
            };
            Frame {
                header,
                payload: Bytes::new(),
            }
        };
        match self {
            Self::Plain(payload) => frames.push(Frame {
                header: header.clone(),
                payload: payload.clone(),
            }),
            Self::Closed => frames.push(mark(v1::Mark::Closed, 0)),
            Self::Stream(payloads) => {
                for (seq, payload) in payloads.iter().enumerate() {
                    let header = v1::FrameHeader {
                        seq: seq as u64,
                        ..header.clone()
                    };
                    frames.push(Frame {
                        header,
                        payload: payload.clone(),
                    });
                }
                frames.push(mark(v1::Mark::End, payloads.len() as u64));
            }
        }
    }
}

fn leads_to(graph: &Graph, edge: EdgeId, wanted: NodeId) -> bool {
    graph
        .edge(edge)
        .is_some_and(|edge| matches!(edge.to, Destination::Node { node, .. } if node == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(seq: u64) -> Item<Bytes> {
        Item::Frame {
            seq,
            payload: Bytes::from(vec![seq as u8]),
        }
    }

    #[test]
    fn a_reader_sees_every_frame_and_the_mark_once() {
        let mut log = ResultLog::default();
        assert!(log.read(0, 0).is_none());
        assert_eq!(log.push(frame(0)), None);
        assert_eq!(log.push(frame(1)), None);
        let (first, cursor) = log.read(0, 0).unwrap();
        assert_eq!((first.seq, &first.payload[..], cursor), (0, &[0][..], 1));
        let (_, cursor) = log.read(0, cursor).unwrap();
        assert!(log.read(0, cursor).is_none());
        log.push(Item::End { count: 2 });
        let (mark, cursor) = log.read(0, cursor).unwrap();
        assert_eq!((mark.mark(), mark.count, mark.seq), (v1::Mark::End, 2, 2));
        assert!(log.read(0, cursor).is_none());
    }

    #[test]
    fn what_was_acknowledged_is_gone_and_a_late_reader_starts_after_it() {
        let mut log = ResultLog::default();
        (0..4).for_each(|seq| assert_eq!(log.push(frame(seq)), None));
        log.ack(1);
        assert_eq!(log.read(0, 0).unwrap().0.seq, 2);
        log.ack(100);
        assert!(log.read(0, 0).is_none());
        log.push(Item::End { count: 4 });
        assert_eq!(log.read(0, 0).unwrap().0.count, 4);
    }

    /// A log that expects what `shown` holds.
    fn after_a_restart(shown: &ResultLog) -> ResultLog {
        let mut log = ResultLog::default();
        log.expect(shown.len(), shown.digest);
        log
    }

    #[test]
    fn rule_12_a_job_that_runs_again_shows_nothing_before_it_has_said_the_same() {
        let mut shown = ResultLog::default();
        (0..2).for_each(|seq| assert_eq!(shown.push(frame(seq)), None));
        let mut log = after_a_restart(&shown);
        assert_eq!(log.push(frame(0)), None);
        assert!(log.read(0, 0).is_none());
        assert_eq!(log.push(frame(1)), None);
        assert_eq!(log.read(0, 1).unwrap().0.seq, 1);
        // Another frame in the place of the second; an end before it.
        let mut log = after_a_restart(&shown);
        assert_eq!(log.push(frame(0)), None);
        assert_eq!(log.push(frame(7)), Some(2));
        let mut log = after_a_restart(&shown);
        assert_eq!(log.push(frame(0)), None);
        assert_eq!(log.push(Item::End { count: 1 }), Some(2));
    }
}
