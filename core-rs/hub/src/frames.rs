//! Items of edges as frames of links, and back.

use bytes::Bytes;
use omniflow_control::JobId;
use omniflow_flow::{EdgeId, Item, Key};
use omniflow_wire::{Frame, v1};

use crate::job_data::keep;

/// The link stream of everything but frames: small messages, in order.
pub(crate) const CONTROL: u32 = 0;

/// Frames of one edge keep their order; those of different edges need not wait for each other's bulk.
pub(crate) fn stream_of(job: JobId, edge: EdgeId) -> u32 {
    let mixed = (job.0 as u32).wrapping_mul(0x9E37_79B9);
    mixed.wrapping_add(edge.0).max(CONTROL + 1)
}

/// What the scheduler sends on an edge.
pub(crate) fn wire_frame(
    job: JobId,
    edge: EdgeId,
    key: &Key,
    epoch: u32,
    item: Item<Bytes>,
    term: u64,
) -> Frame {
    let (seq, mark, count, payload) = match item {
        Item::Frame { seq, payload } => (seq, v1::Mark::None, 0, payload),
        Item::End { count } => (0, v1::Mark::End, count, Bytes::new()),
        Item::Closed => (0, v1::Mark::Closed, 0, Bytes::new()),
    };
    let header = v1::FrameHeader {
        job: job.0,
        edge: edge.0,
        key: key.path().to_vec(),
        seq,
        epoch,
        mark: mark.into(),
        count,
        term,
    };
    Frame { header, payload }
}

/// What came in a frame.
pub(crate) fn item(frame: &Frame) -> Item<Bytes> {
    match frame.header.mark() {
        v1::Mark::None => Item::Frame {
            seq: frame.header.seq,
            payload: keep(frame.payload.clone()),
        },
        v1::Mark::End => Item::End {
            count: frame.header.count,
        },
        v1::Mark::Closed => Item::Closed,
    }
}
