//! What travels on an edge.

use std::hash::Hasher;

use bytes::Bytes;
use rustc_hash::FxHasher;

/// What frames carry. A copy must be cheap: a frame is copied to each edge of its port.
pub trait Payload: Clone {
    /// Equal for equal content; compared when a later attempt sends a frame again (rule 12). Never leaves the process.
    fn digest(&self) -> u64;
    /// Size in bytes, for `Footprint`.
    fn size(&self) -> usize;
}

impl Payload for Bytes {
    fn digest(&self) -> u64 {
        let mut hasher = FxHasher::default();
        hasher.write(self);
        hasher.finish()
    }

    fn size(&self) -> usize {
        self.len()
    }
}

/// One message on an edge: a frame, or one of the two marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<P> {
    /// A frame. A plain edge carries exactly one, with `seq` 0, and no END.
    Frame {
        /// Position in the stream, from 0.
        seq: u64,
        /// Its content.
        payload: P,
    },
    /// The stream is over after `count` frames. Only on edges whose type is a stream.
    End {
        /// How many frames there were.
        count: u64,
    },
    /// Nothing comes on this edge for this key, and nothing came: the path is dead.
    Closed,
}
