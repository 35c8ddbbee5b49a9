//! What the resolver's tests share: a builder of flows, roles without a worker, and a job over several places.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod build;
pub mod cluster;
pub mod evaluate;
pub mod job;
pub mod place;
pub mod plan;
pub mod role;
pub mod scoped;
pub mod script;
pub mod weave;

use omniflow_flow::Payload;
use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// Random cases, the same in every run. `OMNIFLOW_HUNT=20000` looks for new ones, that many of each property; what it finds
/// becomes a test with a name.
pub fn cases(cases: u32) -> ProptestConfig {
    let hunted = std::env::var("OMNIFLOW_HUNT").ok();
    let hunted = hunted.and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: hunted.unwrap_or(cases),
        rng_seed: match hunted {
            Some(_) => RngSeed::Random,
            None => RngSeed::Fixed(7),
        },
        max_global_rejects: 1_000_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A payload that is its own content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Word(pub u64);

/// Of a word that stands for a list: as a choice, it names a set of branches.
pub const SEVERAL: u64 = 1 << 63;

impl Payload for Word {
    fn digest(&self) -> u64 {
        self.0
    }

    fn size(&self) -> usize {
        8
    }

    fn list(items: Vec<Self>) -> Self {
        let words: Vec<u64> = items.iter().map(|word| word.0).collect();
        Word(mix(&words) | SEVERAL)
    }

    fn truth(&self) -> Option<bool> {
        Some(self.0.is_multiple_of(2))
    }

    fn names(&self) -> Option<Vec<String>> {
        if self.0 & SEVERAL == 0 {
            return Some(vec![format!("b{}", self.0 % 3)]);
        }
        let chosen = (0..3).filter(|bit| self.0 >> bit & 1 == 1);
        Some(chosen.map(|bit| format!("b{bit}")).collect())
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
