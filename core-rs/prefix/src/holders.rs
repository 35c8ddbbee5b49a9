//! Sets of holders: a few by name, many by bits.

/// A holder's place in the bit sets of one index; given to another when its holder holds nothing any more.
pub(crate) type Seat = u32;

/// Up to so many are listed.
const FEW: usize = 7;
const BITS: usize = u64::BITS as usize;

/// A set of seats. Most pages are held by a few workers, the first ones of a system prompt by all.
#[derive(Clone, Debug)]
pub(crate) enum HolderSet {
    /// The first `count` of `seats`, in order.
    Few { count: u8, seats: [Seat; FEW] },
    /// More than [`FEW`] when it was made. A word may be zero, also the last.
    Many { count: u32, words: Vec<u64> },
}

impl HolderSet {
    pub(crate) fn of(seat: Seat) -> Self {
        let mut seats = [0; FEW];
        seats[0] = seat;
        Self::Few { count: 1, seats }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few { count, .. } => usize::from(*count),
            Self::Many { count, .. } => *count as usize,
        }
    }

    pub(crate) fn contains(&self, seat: Seat) -> bool {
        match self {
            Self::Few { count, seats } => seats[..usize::from(*count)].contains(&seat),
            Self::Many { words, .. } => words
                .get(seat as usize / BITS)
                .is_some_and(|word| word >> (seat as usize % BITS) & 1 == 1),
        }
    }

    /// Whether `seat` is the only one in it.
    pub(crate) fn is_only(&self, seat: Seat) -> bool {
        self.len() == 1 && self.contains(seat)
    }

    /// Adds a seat that is not in it.
    pub(crate) fn insert(&mut self, seat: Seat) {
        match self {
            Self::Few { count, seats } if usize::from(*count) < FEW => {
                let position = seats[..usize::from(*count)].partition_point(|&other| other < seat);
                seats.copy_within(position..usize::from(*count), position + 1);
                seats[position] = seat;
                *count += 1;
            }
            Self::Few { seats, .. } => {
                let seats = *seats;
                *self = Self::Many {
                    count: 0,
                    words: Vec::new(),
                };
                seats.into_iter().for_each(|seat| self.insert(seat));
                self.insert(seat);
            }
            Self::Many { count, words } => {
                let word = seat as usize / BITS;
                if words.len() <= word {
                    words.resize(word + 1, 0);
                }
                words[word] |= 1 << (seat as usize % BITS);
                *count += 1;
            }
        }
    }

    /// Removes a seat that is in it.
    pub(crate) fn remove(&mut self, seat: Seat) {
        match self {
            Self::Few { count, seats } => {
                let position = seats[..usize::from(*count)].partition_point(|&other| other < seat);
                seats.copy_within(position + 1..usize::from(*count), position);
                *count -= 1;
            }
            Self::Many { count, words } => {
                words[seat as usize / BITS] &= !(1 << (seat as usize % BITS));
                *count -= 1;
                // Well below what made it a bit set, so that it does not go back and forth.
                if *count as usize <= FEW / 2 {
                    *self = self.listed();
                }
            }
        }
    }

    fn listed(&self) -> Self {
        let mut seats = [0; FEW];
        let mut count = 0;
        for (slot, seat) in seats.iter_mut().zip(self.iter()) {
            *slot = seat;
            count += 1;
        }
        Self::Few { count, seats }
    }

    /// In order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Seat> {
        let (listed, words): (&[Seat], &[u64]) = match self {
            Self::Few { count, seats } => (&seats[..usize::from(*count)], &[]),
            Self::Many { words, .. } => (&[], words),
        };
        let set = words.iter().enumerate().flat_map(|(index, &word)| {
            let next = |left: &u64| Some(left & (left - 1)).filter(|left| *left != 0);
            std::iter::successors(Some(word).filter(|word| *word != 0), next)
                .map(move |left| (index * BITS) as Seat + left.trailing_zeros())
        });
        listed.iter().copied().chain(set)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_set_of_the_standard_library(first in 0..400_u32, steps in prop::collection::vec(0..400_u32, 0..60)) {
            let (mut set, mut known) = (HolderSet::of(first), BTreeSet::from([first]));
            for seat in steps {
                if known.insert(seat) {
                    set.insert(seat);
                } else if known.len() > 1 {
                    known.remove(&seat);
                    set.remove(seat);
                }
                prop_assert_eq!(set.len(), known.len());
                prop_assert_eq!(set.iter().collect::<Vec<_>>(), known.iter().copied().collect::<Vec<_>>());
                prop_assert!((0..450).all(|seat| set.contains(seat) == known.contains(&seat)));
                prop_assert_eq!(set.is_only(first), known == BTreeSet::from([first]));
            }
        }

        #[test]
        fn taking_all_out_again_leaves_nothing(seats in prop::collection::btree_set(0..200_u32, 1..40)) {
            let mut all = seats.iter().copied();
            let mut set = HolderSet::of(all.next().unwrap());
            all.for_each(|seat| set.insert(seat));
            seats.iter().for_each(|seat| set.remove(*seat));
            prop_assert_eq!((set.len(), set.iter().count()), (0, 0));
        }
    }
}
