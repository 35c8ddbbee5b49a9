//! Where the generations of a pool's pages are kept: read by everybody, raised by whoever allocates the page.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::id::{Generation, PageId};

/// One word for each page of a pool: of this process, or in memory that several processes map.
///
/// A word is written only by the process that the page's extent belongs to, and read by all.
pub trait Generations: fmt::Debug + Send + Sync {
    /// The words, by page. Always the same slice.
    fn words(&self) -> &[AtomicU64];
}

/// Generations that only this process sees.
#[derive(Debug)]
pub struct PrivateGenerations(Box<[AtomicU64]>);

impl PrivateGenerations {
    /// For a pool of `pages`, none of which was ever freed.
    pub fn new(pages: u32) -> Self {
        Self((0..pages).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Generations for PrivateGenerations {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// The generation of a page, if it is in the pool. What was read from the page before counts as read before.
pub fn current(words: &[AtomicU64], page: PageId) -> Option<Generation> {
    fence(Ordering::Acquire);
    let word = words.get(page.index())?;
    Some(Generation(word.load(Ordering::Relaxed)))
}

/// Raises the generation of a page that this process allocates. [`publish`] before the page is written again.
pub(crate) fn raise(words: &[AtomicU64], page: PageId) {
    let word = &words[page.index()];
    // Nobody else writes it: no need to pay for a locked instruction a page.
    word.store(
        word.load(Ordering::Relaxed).wrapping_add(1),
        Ordering::Relaxed,
    );
}

/// Nothing written from now on is seen by anyone who does not see the generations that were raised before.
pub(crate) fn publish() {
    fence(Ordering::Release);
}
