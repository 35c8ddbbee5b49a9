//! Bounds of a link.

use std::time::Duration;

/// The least that may be under way: enough for a peer to say in time what it has.
const LEAST_WINDOW: usize = 1 << 20;

/// Bounds of a link, the same for all links of an [`Endpoint`](crate::Endpoint).
#[derive(Debug, Clone, Copy)]
pub struct LinkConfig {
    /// The longest message, in bytes, either way.
    pub max_message_bytes: usize,
    /// The most bytes that may wait for the peer.
    pub max_queued_bytes: usize,
    /// The most bytes that are kept until the peer says that it has them (at least 1 MiB). What is more waits.
    pub window_bytes: usize,
    /// How often a silent peer is asked whether it is there.
    pub heartbeat: Duration,
    /// A peer that is silent for longer is dead.
    pub heartbeat_limit: Duration,
    /// How long a link outlives its connection. The peer goes by its own.
    pub resume_within: Duration,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            max_message_bytes: 256 << 20,
            max_queued_bytes: 1 << 30,
            window_bytes: 16 << 20,
            heartbeat: Duration::from_secs(1),
            heartbeat_limit: Duration::from_secs(10),
            resume_within: Duration::from_secs(2),
        }
    }
}

impl LinkConfig {
    pub(crate) fn window(&self) -> usize {
        self.window_bytes.max(LEAST_WINDOW)
    }
}
