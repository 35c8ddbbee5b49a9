//! What a reader finds wrong with something that was lent to it.

use omniflow_arena::ArenaError;
use omniflow_wire::v1;
use thiserror::Error;

/// Why a lent payload was not taken. Nothing of it has been read then.
#[derive(Debug, Error)]
pub(crate) enum BorrowError {
    /// Its lender's channel is not open here.
    #[error("a frame was lent over a link whose worker has no arena channel to this one")]
    NotConnected,
    /// The arena's descriptor did not come before the frame.
    #[error("a frame was lent from arena {0}, which its worker has not passed on")]
    UnknownArena(String),
    /// No place of that arena, or no longer what it was.
    #[error("a frame was lent from a place that cannot be: {0}")]
    Place(#[from] ArenaError),
    /// There is nothing in it.
    #[error("a frame of 0 bytes was lent")]
    Empty,
    /// The lease is one that this worker holds already.
    #[error("lease {0} was given twice")]
    LeaseTwice(u64),
    /// A mark has no payload.
    #[error("a mark was lent")]
    Mark,
}

impl BorrowError {
    /// What the lender is told.
    pub(crate) fn to_proto(&self) -> v1::Error {
        v1::Error {
            code: v1::ErrorCode::InvalidArgument.into(),
            message: self.to_string(),
            field: "LentFrame".to_owned(),
            cure: "run one version of omniflow on all workers of the host".to_owned(),
            ..Default::default()
        }
    }
}
