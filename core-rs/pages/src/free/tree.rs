//! Where the longest run of free pages is, in O(log pages): a tree over the words of a bitmap.

const BITS: u32 = u64::BITS;

/// Runs of free pages in the part of the pool below a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Node {
    /// Free pages at its start, in a row.
    first: u32,
    /// Free pages at its end, in a row.
    last: u32,
    /// Its longest run.
    longest: u32,
}

impl Node {
    fn of_word(word: u64) -> Self {
        Self {
            first: word.trailing_ones(),
            last: word.leading_ones(),
            longest: longest_run(word),
        }
    }

    /// Two neighbours of `half` pages each.
    fn joined(left: Self, right: Self, half: u32) -> Self {
        Self {
            first: if left.first == half {
                half + right.first
            } else {
                left.first
            },
            last: if right.last == half {
                half + left.last
            } else {
                right.last
            },
            longest: left.longest.max(right.longest).max(left.last + right.first),
        }
    }
}

/// A complete binary tree: node 1 is the root, nodes `2 n` and `2 n + 1` are below `n`, a leaf is a word.
#[derive(Debug)]
pub(super) struct RunTree {
    nodes: Vec<Node>,
    leaves: usize,
}

impl RunTree {
    /// Over `words` words of zeros.
    pub(super) fn new(words: usize) -> Self {
        let leaves = words.next_power_of_two();
        Self {
            nodes: vec![Node::default(); 2 * leaves],
            leaves,
        }
    }

    /// The length of the longest run.
    pub(super) fn longest(&self) -> usize {
        self.nodes[1].longest as usize
    }

    /// Learns what `words[first..=last]` are now: all that changed since the last update must be among them.
    pub(super) fn update(&mut self, words: &[u64], first: usize, last: usize) {
        for (leaf, &word) in (first..=last).zip(&words[first..=last]) {
            self.nodes[self.leaves + leaf] = Node::of_word(word);
        }
        let (mut from, mut to) = (self.leaves + first, self.leaves + last);
        let mut half = BITS;
        while from > 1 {
            (from, to) = (from / 2, to / 2);
            for node in from..=to {
                self.nodes[node] =
                    Node::joined(self.nodes[2 * node], self.nodes[2 * node + 1], half);
            }
            half *= 2;
        }
    }

    /// Where the lowest run of at least `wanted` pages starts.
    pub(super) fn find(&self, words: &[u64], wanted: usize) -> Option<usize> {
        if wanted == 0 || self.longest() < wanted {
            return None;
        }
        let (mut node, mut start) = (1, 0);
        let mut half = self.leaves * BITS as usize / 2;
        while node < self.leaves {
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            if left.longest as usize >= wanted {
                node *= 2;
            } else if (left.last + right.first) as usize >= wanted {
                return Some(start + half - left.last as usize);
            } else {
                node = 2 * node + 1;
                start += half;
            }
            half /= 2;
        }
        find_in_word(*words.get(node - self.leaves)?, wanted).map(|bit| start + bit)
    }

    /// Whether it is what a new tree over `words` would be.
    pub(super) fn is_of(&self, words: &[u64]) -> bool {
        let mut fresh = Self::new(words.len());
        if !words.is_empty() {
            fresh.update(words, 0, words.len() - 1);
        }
        fresh.nodes == self.nodes
    }
}

/// Bits set from which on at least `length` (1 to 64) bits are set.
fn starts_of(word: u64, length: u32) -> u64 {
    // After each step a bit is set where `covered` bits in a row were set in `word`.
    let (mut starts, mut covered) = (word, 1);
    while covered < length {
        let step = covered.min(length - covered);
        starts &= starts >> step;
        covered += step;
    }
    starts
}

fn longest_run(word: u64) -> u32 {
    if word == 0 || word == u64::MAX {
        return word.count_ones();
    }
    let (mut starts, mut longest) = (word, 1);
    // Runs of 1, 2, 4, … as long as there are any; then the rest, bit by bit of the length.
    let mut steps = [0_u64; 6];
    let mut step = 0;
    while step < steps.len() {
        steps[step] = starts;
        let longer = starts & (starts >> (1 << step));
        if longer == 0 {
            break;
        }
        starts = longer;
        longest *= 2;
        step += 1;
    }
    for power in (0..step).rev() {
        let longer = starts & (steps[power] >> longest);
        if longer != 0 {
            starts = longer;
            longest += 1 << power;
        }
    }
    longest
}

/// The lowest bit from which `wanted` bits in a row are set.
fn find_in_word(word: u64, wanted: usize) -> Option<usize> {
    let wanted = u32::try_from(wanted).ok().filter(|&bits| bits <= BITS)?;
    let starts = starts_of(word, wanted);
    (starts != 0).then(|| starts.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any word, and words of few long runs, which random bits would hardly give.
    fn word() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            (any::<u64>(), any::<u64>()).prop_map(|(a, b)| a | b | (a << 3)),
            (0..64_u32, 0..64_u32).prop_map(|(low, high)| (u64::MAX << low) & (u64::MAX >> high)),
            Just(0),
            Just(u64::MAX),
        ]
    }

    fn free(words: &[u64], page: usize) -> bool {
        words[page / 64] >> (page % 64) & 1 == 1
    }

    /// The lowest run of `wanted`, by looking at each page.
    fn slowly(words: &[u64], wanted: usize) -> Option<usize> {
        let pages = words.len() * 64;
        let mut length = 0;
        for page in 0..pages {
            length = if free(words, page) { length + 1 } else { 0 };
            if length == wanted {
                return Some(page + 1 - wanted);
            }
        }
        None
    }

    proptest! {
        #[test]
        fn the_longest_run_of_a_word_is_found(word in word()) {
            let slow = (1..=64).rev().find(|&length| starts_of(word, length) != 0).unwrap_or(0);
            prop_assert_eq!(longest_run(word), slow);
        }

        #[test]
        fn the_lowest_run_is_found_however_words_change(
            words in prop::collection::vec(word(), 1..12),
            changes in prop::collection::vec((0..12_usize, word()), 0..6),
        ) {
            let mut words = words;
            let mut tree = RunTree::new(words.len());
            tree.update(&words, 0, words.len() - 1);
            for (index, word) in changes {
                let index = index % words.len();
                words[index] = word;
                tree.update(&words, index, index);
            }
            prop_assert!(tree.is_of(&words));
            for wanted in 1..=words.len() * 64 {
                prop_assert_eq!(tree.find(&words, wanted), slowly(&words, wanted), "{} pages", wanted);
            }
        }
    }
}
