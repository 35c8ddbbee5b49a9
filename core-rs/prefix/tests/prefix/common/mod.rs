//! What the tests of both indexes share.

use std::num::NonZeroU32;

use omniflow_prefix::{KeyChain, KeyRoot, PageKey};
use proptest::prelude::*;

/// Tokens, one a page.
pub type Sequence = Vec<u32>;

/// Short sequences of two tokens: long common prefixes are the rule.
pub fn sequence() -> impl Strategy<Value = Sequence> {
    prop::collection::vec(0..2_u32, 0..9)
}

pub fn keys(sequence: &[u32]) -> Vec<PageKey> {
    let mut chain = KeyChain::new(KeyRoot::new(b"model", "layout", NonZeroU32::MIN, b""));
    chain.extend(sequence);
    chain.keys().to_vec()
}
