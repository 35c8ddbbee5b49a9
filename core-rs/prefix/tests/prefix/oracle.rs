//! The index against an oracle that knows whole token sequences and no hash.

use std::collections::BTreeMap;

use crate::common::{Sequence, keys, sequence};
use omniflow_prefix::{IndexError, PrefixIndex, TooFew};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(Sequence),
    Match(Sequence),
    Find(Sequence),
    Pin(usize),
    Unpin(usize),
    Evict(usize, u32),
    Remove(usize),
    Retain(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => sequence().prop_map(Step::Insert),
        3 => sequence().prop_map(Step::Match),
        1 => sequence().prop_map(Step::Find),
        1 => (0..99_usize).prop_map(Step::Pin),
        1 => (0..99_usize).prop_map(Step::Unpin),
        2 => (0..6_usize, 1..5_u32).prop_map(|(pages, refused)| Step::Evict(pages, refused)),
        1 => (0..99_usize).prop_map(Step::Remove),
        1 => (2..7_u32).prop_map(Step::Retain),
    ]
}

#[derive(Clone, Debug)]
struct Known {
    value: u32,
    used: usize,
    pins: u32,
}

#[derive(Default)]
struct Oracle {
    pages: BTreeMap<Sequence, Known>,
    now: usize,
}

impl Oracle {
    fn find(&self, sequence: &[u32]) -> usize {
        (1..=sequence.len())
            .take_while(|&end| self.pages.contains_key(&sequence[..end]))
            .count()
    }

    fn touch(&mut self, sequence: &[u32]) {
        self.now += 1;
        for end in 1..=self.find(sequence) {
            self.pages.get_mut(&sequence[..end]).unwrap().used = self.now;
        }
    }

    fn children(&self, sequence: &[u32]) -> usize {
        self.pages
            .keys()
            .filter(|other| other.len() == sequence.len() + 1 && other.starts_with(sequence))
            .count()
    }

    /// The leaf that goes next, or none.
    fn victim(&self, may: impl Fn(u32) -> bool) -> Option<Sequence> {
        let candidates = self.pages.iter().filter(|(sequence, known)| {
            known.pins == 0 && may(known.value) && self.children(sequence) == 0
        });
        candidates
            .min_by_key(|(_, known)| known.used)
            .map(|(sequence, _)| sequence.clone())
    }

    fn evictable(&self, may: impl Fn(u32) -> bool) -> usize {
        let mut left = Self {
            pages: self.pages.clone(),
            now: self.now,
        };
        while let Some(sequence) = left.victim(&may) {
            left.pages.remove(&sequence);
        }
        self.pages.len() - left.pages.len()
    }

    /// Those that go when pages with such values do: they and all behind them, without those that a pin holds.
    fn doomed(&self, goes: impl Fn(u32) -> bool) -> Vec<Sequence> {
        let held = |sequence: &Sequence| {
            let mut all = self.pages.iter();
            all.any(|(other, known)| known.pins > 0 && other.starts_with(sequence))
        };
        let gone = |sequence: &Sequence| {
            (1..=sequence.len()).any(|end| goes(self.pages[&sequence[..end]].value))
        };
        let all = self.pages.keys();
        all.filter(|sequence| gone(sequence) && !held(sequence))
            .cloned()
            .collect()
    }

    fn nth(&self, which: usize) -> Option<Sequence> {
        self.pages
            .keys()
            .nth(which % self.pages.len().max(1))
            .cloned()
    }
}

#[derive(Default)]
struct Bench {
    index: PrefixIndex<u32>,
    oracle: Oracle,
    next_value: u32,
}

impl Bench {
    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Insert(sequence) => self.insert(&sequence)?,
            Step::Match(sequence) => {
                let found: Vec<u32> = self
                    .index
                    .matched(&keys(&sequence))
                    .into_iter()
                    .copied()
                    .collect();
                let known = (1..=self.oracle.find(&sequence))
                    .map(|end| self.oracle.pages[&sequence[..end]].value);
                prop_assert_eq!(found, known.collect::<Vec<_>>());
                self.oracle.touch(&sequence);
            }
            Step::Find(sequence) => {
                prop_assert_eq!(
                    self.index.find(&keys(&sequence)),
                    self.oracle.find(&sequence)
                );
            }
            Step::Evict(pages, refused) => self.evict(pages, refused)?,
            Step::Retain(every) => {
                let goes = |value: u32| value.is_multiple_of(every);
                let mut removed = self.index.retain(|value| !goes(*value));
                let mut expected: Vec<u32> = Vec::new();
                for sequence in self.oracle.doomed(goes) {
                    expected.extend(self.oracle.pages.remove(&sequence).map(|known| known.value));
                }
                removed.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(removed, expected);
            }
            Step::Pin(which) | Step::Unpin(which) | Step::Remove(which) => {
                if let Some(sequence) = self.oracle.nth(which) {
                    self.take_on_key(&step, &sequence)?;
                }
            }
        }
        Ok(())
    }

    fn insert(&mut self, sequence: &[u32]) -> Result<(), TestCaseError> {
        let first = self.next_value;
        let present = self.oracle.find(sequence);
        let inserted = self
            .index
            .insert(&keys(sequence), |missing| {
                missing.map(|page| first + page as u32)
            })
            .unwrap();
        prop_assert_eq!(
            (inserted.present, inserted.added),
            (present, sequence.len() - present)
        );
        for end in present + 1..=sequence.len() {
            let known = Known {
                value: first + end as u32 - 1,
                used: 0,
                pins: 0,
            };
            self.oracle.pages.insert(sequence[..end].to_vec(), known);
        }
        self.next_value += sequence.len() as u32;
        self.oracle.touch(sequence);
        Ok(())
    }

    fn evict(&mut self, pages: usize, refused: u32) -> Result<(), TestCaseError> {
        let may = |value: u32| !value.is_multiple_of(refused + 1);
        prop_assert_eq!(
            self.index.count_evictable(|value| may(*value)),
            self.oracle.evictable(may)
        );
        if pages > self.oracle.evictable(may) {
            let available = self.oracle.evictable(may);
            prop_assert_eq!(
                self.index.try_evict(pages, |value| may(*value)),
                Err(TooFew { available })
            );
        }
        let evicted = match self.index.try_evict(pages, |value| may(*value)) {
            Ok(evicted) => evicted,
            Err(_) => self.index.evict(pages, |value| may(*value)),
        };
        let mut expected = Vec::new();
        while expected.len() < pages
            && let Some(sequence) = self.oracle.victim(may)
        {
            expected.extend(self.oracle.pages.remove(&sequence).map(|known| known.value));
        }
        prop_assert_eq!(evicted, expected);
        Ok(())
    }

    fn take_on_key(&mut self, step: &Step, sequence: &[u32]) -> Result<(), TestCaseError> {
        let key = *keys(sequence).last().unwrap();
        let values = self.index.values_up_to(&key).unwrap();
        let known = (1..=sequence.len()).map(|end| &self.oracle.pages[&sequence[..end]].value);
        prop_assert_eq!(values, known.collect::<Vec<_>>());
        let children = self.oracle.children(sequence) as u32;
        let known = self.oracle.pages.get_mut(sequence).unwrap();
        match step {
            Step::Pin(_) => {
                self.index.pin(&key).unwrap();
                known.pins += 1;
            }
            Step::Unpin(_) if known.pins > 0 => {
                self.index.unpin(&key).unwrap();
                known.pins -= 1;
            }
            Step::Unpin(_) => {
                prop_assert_eq!(self.index.unpin(&key), Err(IndexError::NotPinned(key)));
            }
            Step::Remove(_) => {
                let expected = match (known.pins, children) {
                    (0, 0) => Ok(known.value),
                    (0, children) => Err(IndexError::HasChildren { key, children }),
                    (pins, _) => Err(IndexError::Pinned { key, pins }),
                };
                if expected.is_ok() {
                    self.oracle.pages.remove(sequence);
                }
                prop_assert_eq!(self.index.remove(&key), expected);
            }
            _ => {}
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn agrees_with_the_oracle(steps in prop::collection::vec(step(), 1..60)) {
        let mut bench = Bench::default();
        for step in steps {
            bench.take(step)?;
            prop_assert_eq!(bench.index.check(), Ok(()));
            prop_assert_eq!(bench.index.len(), bench.oracle.pages.len());
        }
    }
}

#[test]
fn keys_of_two_chains_in_one_call_are_refused_and_change_nothing() {
    let mut index = PrefixIndex::default();
    let (one, two) = (keys(&[1, 1, 1]), keys(&[2, 2, 2]));
    index.insert(&one, |missing| missing).unwrap();
    let mixed = [two[0], two[1], one[2]];
    assert_eq!(
        index.insert(&mixed, |missing| missing),
        Err(IndexError::NotAChain { position: 2 })
    );
    let middle = [one[0], two[1], one[2]];
    assert_eq!(
        index.insert(&middle, |missing| missing),
        Err(IndexError::NotAChain { position: 2 })
    );
    let twice = [two[0], two[0]];
    assert_eq!(
        index.insert(&twice, |missing| missing),
        Err(IndexError::NotAChain { position: 1 })
    );
    assert_eq!(index.check(), Ok(()));
    assert_eq!(index.len(), 3);
    assert_eq!(
        index.find(&mixed[2..]),
        0,
        "a page in the middle of a sequence starts none"
    );
}

#[test]
fn unknown_keys_cannot_be_pinned_or_removed() {
    let mut index = PrefixIndex::<u32>::default();
    let key = keys(&[1])[0];
    assert_eq!(index.pin(&key), Err(IndexError::UnknownKey(key)));
    assert_eq!(index.unpin(&key), Err(IndexError::UnknownKey(key)));
    assert_eq!(index.remove(&key), Err(IndexError::UnknownKey(key)));
}

#[test]
fn keys_without_a_value_are_left_out() {
    let mut index = PrefixIndex::default();
    let keys = keys(&[1, 2, 3]);
    let inserted = index.insert(&keys, |missing| missing.take(2)).unwrap();
    assert_eq!(
        (inserted.present, inserted.added, index.find(&keys)),
        (0, 2, 2)
    );
}
