//! The set of free pages: a bitmap that is searched a word at a time, lowest page first.

const BITS: usize = u64::BITS as usize;

/// Free pages, by index. Bits past the end of the pool are never set.
#[derive(Debug)]
pub(crate) struct FreeSet {
    words: Vec<u64>,
    count: usize,
    /// All words before this one are zero: a nearly full pool isn't searched from its start each time.
    lowest: usize,
}

impl FreeSet {
    /// Pages `first..end` free, in a pool of `end` pages.
    pub(crate) fn with_range(first: usize, end: usize) -> Self {
        let mut set = Self {
            words: vec![0; end.div_ceil(BITS)],
            count: 0,
            lowest: 0,
        };
        for page in first..end {
            set.insert(page);
        }
        set.lowest = first / BITS;
        set
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn contains(&self, page: usize) -> bool {
        self.words
            .get(page / BITS)
            .is_some_and(|word| word >> (page % BITS) & 1 == 1)
    }

    pub(crate) fn insert(&mut self, page: usize) {
        debug_assert!(!self.contains(page), "page {page} freed twice");
        self.words[page / BITS] |= 1 << (page % BITS);
        self.count += 1;
        self.lowest = self.lowest.min(page / BITS);
    }

    fn remove(&mut self, page: usize) {
        debug_assert!(self.contains(page), "page {page} taken twice");
        self.words[page / BITS] &= !(1 << (page % BITS));
        self.count -= 1;
    }

    /// Takes pages `start..start + wanted` if all are free.
    pub(crate) fn take_at(&mut self, start: usize, wanted: usize) -> bool {
        let free = (start..start + wanted).all(|page| self.contains(page));
        if free {
            (start..start + wanted).for_each(|page| self.remove(page));
        }
        free
    }

    /// Takes the lowest `wanted` consecutive free pages, if there are so many in a row; returns the first.
    pub(crate) fn take_run(&mut self, wanted: usize) -> Option<usize> {
        let start = self.find_run(wanted)?;
        (start..start + wanted).for_each(|page| self.remove(page));
        self.raise_lowest();
        Some(start)
    }

    /// Takes the lowest `wanted` free pages, wherever they are. The caller has made sure that there are so many.
    pub(crate) fn take_scattered(&mut self, wanted: usize, mut take: impl FnMut(usize)) {
        debug_assert!(wanted <= self.count);
        for _ in 0..wanted {
            self.raise_lowest();
            let Some(word) = self.words.get(self.lowest) else {
                return;
            };
            let page = self.lowest * BITS + word.trailing_zeros() as usize;
            self.remove(page);
            take(page);
        }
    }

    fn raise_lowest(&mut self) {
        while self.words.get(self.lowest) == Some(&0) {
            self.lowest += 1;
        }
    }

    fn find_run(&self, wanted: usize) -> Option<usize> {
        // The free pages that end right before the word at hand.
        let mut length = 0;
        for (index, &word) in self.words.iter().enumerate().skip(self.lowest) {
            let here = index * BITS;
            if length + word.trailing_ones() as usize >= wanted {
                return Some(here - length);
            }
            if word == u64::MAX {
                length += BITS;
                continue;
            }
            if let Some(bit) = find_run_in_word(word, wanted) {
                return Some(here + bit);
            }
            length = word.leading_ones() as usize;
        }
        None
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
        match self
            .words
            .iter()
            .take(self.lowest)
            .position(|&word| word != 0)
        {
            Some(word) => Err(format!(
                "word {word} has free pages below the search start {}",
                self.lowest
            )),
            None => Ok(()),
        }
    }
}

/// The lowest bit from which `wanted` (at least 1) bits in a row are set.
fn find_run_in_word(word: u64, wanted: usize) -> Option<usize> {
    if wanted > BITS {
        return None;
    }
    // After each step a bit is set where `covered` bits in a row were set in `word`.
    let (mut starts, mut covered) = (word, 1);
    while covered < wanted {
        let step = covered.min(wanted - covered);
        starts &= starts >> step;
        covered += step;
    }
    (starts != 0).then(|| starts.trailing_zeros() as usize)
}
