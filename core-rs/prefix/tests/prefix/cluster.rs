//! The cluster index against an oracle that knows, for each worker, the set of whole sequences that it holds.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Sequence, keys, sequence};
use omniflow_prefix::{ClusterIndex, ClusterMatch, Holder, IndexError};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// A worker reports a sequence from its start, or what follows its first pages.
    Insert(u32, Sequence, usize),
    /// A worker reports that some pages, by their number, are gone.
    Remove(u32, Vec<usize>),
    RemoveWorker(u32),
}

/// More workers than are listed in a set of few.
fn step() -> impl Strategy<Value = Step> {
    let worker = || 0..20_u32;
    prop_oneof![
        12 => (worker(), sequence(), 0..6_usize).prop_map(|(worker, sequence, known)| Step::Insert(worker, sequence, known)),
        4 => (worker(), prop::collection::vec(0..99_usize, 1..4)).prop_map(|(worker, which)| Step::Remove(worker, which)),
        1 => worker().prop_map(Step::RemoveWorker),
    ]
}

/// The pages of each worker, as the sequences that end with them.
type Oracle = BTreeMap<u32, BTreeSet<Sequence>>;

fn prefix_of(pages: &BTreeSet<Sequence>, sequence: &[u32]) -> usize {
    (1..=sequence.len())
        .take_while(|&end| pages.contains(&sequence[..end]))
        .count()
}

fn lengths(oracle: &Oracle, sequence: &[u32]) -> Vec<(usize, u32)> {
    let mut lengths: Vec<(usize, u32)> = oracle
        .iter()
        .map(|(worker, pages)| (prefix_of(pages, sequence), *worker))
        .filter(|(pages, _)| *pages > 0)
        .collect();
    lengths.sort_unstable();
    lengths
}

fn take(index: &mut ClusterIndex, oracle: &mut Oracle, step: Step) -> Result<(), TestCaseError> {
    match step {
        Step::Insert(worker, sequence, known) => {
            let pages = oracle.entry(worker).or_default();
            let known = known.min(sequence.len());
            let keys = keys(&sequence);
            let after = known.checked_sub(1).map(|last| &keys[last]);
            let inserted = index.insert(Holder(worker), after, &keys[known..]);
            if known > 0 && !pages.contains(&sequence[..known]) {
                let refused = matches!(
                    inserted,
                    Err(IndexError::UnknownKey(_) | IndexError::NotHeld { .. })
                );
                prop_assert!(refused, "{:?}", inserted);
                return Ok(());
            }
            let inserted = inserted.unwrap();
            let before = pages.len();
            pages.extend((1..=sequence.len()).map(|end| sequence[..end].to_vec()));
            prop_assert_eq!(inserted.added, pages.len() - before);
            prop_assert_eq!(inserted.present, keys.len() - known - inserted.added);
        }
        Step::Remove(worker, which) => {
            let all: Vec<Sequence> = oracle.values().flatten().cloned().collect();
            let gone: Vec<&Sequence> = which
                .iter()
                .filter_map(|which| all.get(which % all.len().max(1)))
                .collect();
            let gone_keys: Vec<_> = gone
                .iter()
                .map(|sequence| *keys(sequence).last().unwrap())
                .collect();
            let pages = oracle.entry(worker).or_default();
            let before = pages.len();
            pages.retain(|page| !gone.iter().any(|gone| page.starts_with(gone)));
            prop_assert_eq!(
                index.remove(Holder(worker), &gone_keys),
                before - pages.len()
            );
            prop_assert_eq!(index.remove(Holder(worker), &gone_keys), 0, "said twice");
        }
        Step::RemoveWorker(worker) => {
            let pages = oracle.remove(&worker).unwrap_or_default();
            prop_assert_eq!(index.remove_holder(Holder(worker)), pages.len());
        }
    }
    Ok(())
}

fn agree(index: &ClusterIndex, oracle: &Oracle, asked: &[u32]) -> Result<(), TestCaseError> {
    let matched = index.matched(&keys(asked));
    let expected = lengths(oracle, asked);
    let mut found: Vec<(usize, u32)> = matched
        .by_length()
        .map(|(holder, pages)| (pages, holder.0))
        .collect();
    prop_assert!(
        found.windows(2).all(|pair| pair[0].0 >= pair[1].0),
        "most pages first"
    );
    found.sort_unstable();
    prop_assert_eq!(&found, &expected);
    prop_assert_eq!(
        matched.longest(),
        expected.last().map_or(0, |(pages, _)| *pages)
    );
    prop_assert_eq!(matched.holders(), expected.len());
    prop_assert_eq!(
        matched
            .levels()
            .map(|(_, holders)| holders)
            .max()
            .unwrap_or(0),
        expected.len()
    );
    for worker in 0..20 {
        let pages = oracle
            .get(&worker)
            .map_or(0, |pages| prefix_of(pages, asked));
        prop_assert_eq!(matched.pages_of(Holder(worker)), pages);
        let held = oracle.get(&worker).map_or(0, BTreeSet::len);
        prop_assert_eq!(index.held_by(Holder(worker)), held);
    }
    let all: BTreeSet<&Sequence> = oracle.values().flatten().collect();
    prop_assert_eq!(index.len(), all.len());
    prop_assert_eq!(
        index.held(),
        oracle.values().map(BTreeSet::len).sum::<usize>()
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn agrees_with_the_oracle(steps in prop::collection::vec((step(), sequence()), 1..60)) {
        let (mut index, mut oracle) = (ClusterIndex::default(), Oracle::new());
        for (step, asked) in steps {
            take(&mut index, &mut oracle, step)?;
            prop_assert_eq!(index.check(), Ok(()));
            agree(&index, &oracle, &asked)?;
        }
        for worker in 0..20 {
            index.remove_holder(Holder(worker));
        }
        prop_assert!(index.is_empty());
        prop_assert_eq!(index.check(), Ok(()));
    }
}

fn shown(matched: &ClusterMatch) -> Vec<(u32, usize)> {
    matched
        .by_length()
        .map(|(holder, pages)| (holder.0, pages))
        .collect()
}

#[test]
fn a_match_stays_as_it_was_when_workers_go_and_others_take_their_seats() {
    let mut index = ClusterIndex::default();
    let keys = keys(&[1, 2, 3]);
    index.insert(Holder(5), None, &keys).unwrap();
    index.insert(Holder(6), None, &keys[..1]).unwrap();
    let before = index.matched(&keys);
    index.remove_holder(Holder(5));
    index.insert(Holder(7), None, &keys[..2]).unwrap();
    assert_eq!(shown(&before), [(5, 3), (6, 1)]);
    assert_eq!(
        (before.pages_of(Holder(5)), before.pages_of(Holder(7))),
        (3, 0)
    );
    assert_eq!(shown(&index.matched(&keys)), [(7, 2), (6, 1)]);
}

#[test]
fn a_page_lost_before_those_behind_it_takes_them_along() {
    let mut index = ClusterIndex::default();
    let (one, two) = (keys(&[1, 2, 3, 4]), keys(&[1, 2, 5]));
    for holder in [Holder(1), Holder(2)] {
        index.insert(holder, None, &one).unwrap();
        index.insert(holder, None, &two).unwrap();
    }
    assert_eq!(index.remove(Holder(1), &one[1..2]), 4);
    assert_eq!(shown(&index.matched(&one)), [(2, 4), (1, 1)]);
    assert_eq!(index.len(), 5);
    assert_eq!(index.check(), Ok(()));
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut index = ClusterIndex::default();
    let (one, two) = (keys(&[1, 1, 1]), keys(&[2, 2, 2]));
    index.insert(Holder(1), None, &one).unwrap();
    assert_eq!(
        index.insert(Holder(2), Some(&two[0]), &two[1..]),
        Err(IndexError::UnknownKey(two[0]))
    );
    assert_eq!(
        index.insert(Holder(2), Some(&one[0]), &one[1..]),
        Err(IndexError::NotHeld {
            holder: Holder(2),
            key: one[0]
        })
    );
    for mixed in [[two[0], two[1], one[2]], [one[0], two[1], one[2]]] {
        assert_eq!(
            index.insert(Holder(2), None, &mixed),
            Err(IndexError::NotAChain { position: 2 })
        );
    }
    assert_eq!(
        index.insert(Holder(2), None, &[two[0], two[0]]),
        Err(IndexError::NotAChain { position: 1 })
    );
    assert_eq!(
        (index.len(), index.held(), index.held_by(Holder(2))),
        (3, 3, 0)
    );
    assert_eq!(index.check(), Ok(()));
}

#[test]
fn a_system_prompt_held_by_all_is_one_level_whatever_their_number() {
    let mut index = ClusterIndex::default();
    let prompt = keys(&[7; 16]);
    for worker in 0..4_000 {
        index.insert(Holder(worker), None, &prompt).unwrap();
    }
    let mut long = vec![7; 16];
    long.extend([1, 2, 3]);
    let long = keys(&long);
    index.insert(Holder(2_500), None, &long).unwrap();
    let matched = index.matched(&long);
    assert_eq!(matched.levels().collect::<Vec<_>>(), [(19, 1), (16, 4_000)]);
    assert_eq!(matched.by_length().next(), Some((Holder(2_500), 19)));
    assert_eq!(matched.pages_of(Holder(3_999)), 16);
    assert_eq!(index.check(), Ok(()));
}
