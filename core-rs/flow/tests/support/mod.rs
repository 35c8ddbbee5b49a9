//! What the resolver's tests share: a builder of flows, roles without a worker, and a job over several places.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod build;
pub mod job;
pub mod place;
pub mod plan;
pub mod role;

use omniflow_flow::Payload;

/// A payload that is its own content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Word(pub u64);

impl Payload for Word {
    fn digest(&self) -> u64 {
        self.0
    }

    fn size(&self) -> usize {
        8
    }
}

/// A fixed scrambling of numbers (splitmix64), for contents and for random choices.
pub fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |sum, part| {
        let mut value = (sum ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    })
}
