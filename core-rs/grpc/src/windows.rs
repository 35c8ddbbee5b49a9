//! How much each side may send before it hears that the other has taken some: the same at every connection.

pub(crate) const STREAM_WINDOW: u32 = 4 << 20;
pub(crate) const CONNECTION_WINDOW: u32 = 8 << 20;
pub(crate) const FRAME_BYTES: u32 = 1 << 20;
pub(crate) const HEADER_BYTES: u32 = 64 << 10;
