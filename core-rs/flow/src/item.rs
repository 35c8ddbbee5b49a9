//! What travels on an edge.

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
