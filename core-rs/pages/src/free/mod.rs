//! The set of free pages: a bitmap, and a tree over it that finds runs.

mod tree;

use std::ops::Range;

use tree::RunTree;

const BITS: usize = u64::BITS as usize;

/// Runs shorter than this are not looked for one by one: so few pages in a row make no copy cheaper.
const SHORT_RUN: usize = 16;

/// Free pages, by index. Bits past the end of the pool are never set.
#[derive(Debug)]
pub(crate) struct FreeSet {
    words: Vec<u64>,
    count: usize,
    tree: RunTree,
}

impl FreeSet {
    /// No page free, in a pool of `pages`.
    pub(crate) fn new(pages: usize) -> Self {
        let words = vec![0; pages.div_ceil(BITS)];
        Self {
            tree: RunTree::new(words.len()),
            words,
            count: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn contains(&self, page: usize) -> bool {
        self.words
            .get(page / BITS)
            .is_some_and(|word| word >> (page % BITS) & 1 == 1)
    }

    /// Whether all of `pages` are free.
    pub(crate) fn contains_all(&self, pages: Range<usize>) -> bool {
        pages.end <= self.words.len() * BITS
            && masks(pages).all(|(word, mask)| self.words[word] & mask == mask)
    }

    /// Takes `pages` out, all of which are free.
    pub(crate) fn take(&mut self, pages: Range<usize>) {
        debug_assert!(self.contains_all(pages.clone()), "{pages:?} taken twice");
        let Some((first, last)) = ends(&pages) else {
            return;
        };
        self.count -= pages.len();
        for (word, mask) in masks(pages) {
            self.words[word] &= !mask;
        }
        self.tree.update(&self.words, first, last);
    }

    /// Takes the lowest `wanted` (at least 1) consecutive free pages, if there are so many in a row; returns the first.
    pub(crate) fn take_run(&mut self, wanted: usize) -> Option<usize> {
        let start = self.tree.find(&self.words, wanted)?;
        self.take(start..start + wanted);
        Some(start)
    }

    /// Takes `wanted` free pages in as few runs as can be had quickly. The caller has made sure that there are so many.
    pub(crate) fn take_scattered(&mut self, wanted: usize, mut take: impl FnMut(Range<usize>)) {
        debug_assert!(wanted <= self.count);
        let mut left = wanted;
        while left > 0 {
            let longest = self.tree.longest();
            if longest < SHORT_RUN {
                break;
            }
            let length = longest.min(left);
            let Some(start) = self.take_run(length) else {
                break;
            };
            take(start..start + length);
            left -= length;
        }
        while left > 0 {
            let Some(start) = self.tree.find(&self.words, 1) else {
                return;
            };
            left -= self.take_from_word(start / BITS, left, &mut take);
        }
    }

    /// Takes up to `most` free pages of one word, the lowest ones; returns how many.
    fn take_from_word(
        &mut self,
        word: usize,
        most: usize,
        take: &mut impl FnMut(Range<usize>),
    ) -> usize {
        let mut taken = 0;
        while taken < most && self.words[word] != 0 {
            let page = word * BITS + self.words[word].trailing_zeros() as usize;
            self.words[word] &= self.words[word] - 1;
            take(page..page + 1);
            taken += 1;
        }
        self.count -= taken;
        self.tree.update(&self.words, word, word);
        taken
    }

    /// For making many pages free at once.
    pub(crate) fn inserter(&mut self) -> Inserter<'_> {
        Inserter {
            set: self,
            dirty: None,
        }
    }

    /// Says what is wrong with the set itself, if anything.
    pub(crate) fn check(&self) -> Result<(), String> {
        let counted: usize = self
            .words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum();
        if counted != self.count {
            return Err(format!(
                "{counted} pages are marked free, {} are counted",
                self.count
            ));
        }
        if !self.tree.is_of(&self.words) {
            return Err("the tree of free runs is not of the pages that are free".into());
        }
        Ok(())
    }
}

/// Makes pages free. The tree learns of neighbouring words together: pages of a sequence mostly are neighbours.
pub(crate) struct Inserter<'a> {
    set: &'a mut FreeSet,
    /// First and last of neighbouring words that the tree doesn't know of yet.
    dirty: Option<(usize, usize)>,
}

impl Inserter<'_> {
    pub(crate) fn insert(&mut self, page: usize) {
        debug_assert!(!self.set.contains(page), "page {page} freed twice");
        let word = page / BITS;
        self.set.words[word] |= 1 << (page % BITS);
        self.set.count += 1;
        self.dirty = match self.dirty {
            Some((first, last)) if first <= word + 1 && word <= last + 1 => {
                Some((first.min(word), last.max(word)))
            }
            _ => {
                self.flush();
                Some((word, word))
            }
        };
    }

    fn flush(&mut self) {
        if let Some((first, last)) = self.dirty.take() {
            self.set.tree.update(&self.set.words, first, last);
        }
    }
}

impl Drop for Inserter<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The words of `pages`, and which of their bits are meant.
fn masks(pages: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let words = match ends(&pages) {
        Some((first, last)) => first..last + 1,
        None => 0..0,
    };
    words.map(move |word| {
        let from = pages.start.saturating_sub(word * BITS);
        let to = (pages.end - word * BITS).min(BITS);
        (word, (u64::MAX << from) & (u64::MAX >> (BITS - to)))
    })
}

/// First and last word of `pages`.
fn ends(pages: &Range<usize>) -> Option<(usize, usize)> {
    (!pages.is_empty()).then(|| (pages.start / BITS, (pages.end - 1) / BITS))
}
