//! How far a journal reaches and who wrote which part of it: what two journals are compared by.
//!
//! A record is made by one life of one leader, which had read everything before it. So two journals that hold a record of the
//! same life at the same number are the same up to there, and the last such number is where one can go on from the other.

use super::bodies::Opened;
use super::record::{Kind, Record};

/// Records from a number on, up to the next run's, are of one life of one leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) term: u64,
    /// Drawn at random by that life: terms begin anew when etcd loses its data.
    pub(crate) mark: u64,
    /// The number of its first record.
    pub(crate) first: u64,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The last record that the snapshot covers: nothing before it can be cut off.
    pub(crate) base: u64,
    /// The last record.
    pub(crate) last: u64,
    /// In their order; the first one known covers `base`.
    pub(crate) runs: Vec<Run>,
}

impl Extent {
    /// A record follows. One that opens a life and does not parse is found where its content is needed.
    pub(crate) fn note(&mut self, record: Record<'_>) {
        self.last = record.index;
        if record.kind == Kind::Opened
            && let Ok(opened) = <Opened as prost::Message>::decode(record.body)
        {
            self.runs.push(Run {
                term: record.term,
                mark: opened.mark,
                first: record.index,
            });
        }
    }

    /// The term of whoever wrote its end; 0: nobody is known to.
    pub(crate) fn newest_term(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.term)
    }

    /// The last record that both hold and that both can go on from; 0: one has to be copied from its beginning.
    pub(crate) fn common(&self, other: &Self) -> u64 {
        let shared = self.runs.iter().enumerate().rev().find_map(|(place, run)| {
            let same = |known: &Run| known.term == run.term && known.mark == run.mark;
            let theirs = other.runs.iter().position(same)?;
            Some(self.end(place).min(other.end(theirs)))
        });
        shared
            .filter(|last| *last >= self.base.max(other.base))
            .unwrap_or(0)
    }

    /// The last record of a run.
    fn end(&self, place: usize) -> u64 {
        let next = self.runs.get(place + 1);
        next.map_or(self.last, |run| run.first - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A journal as the lives that wrote each record of it.
    fn extent(lives: &[u64], base: u64) -> Extent {
        let mut extent = Extent {
            base,
            last: lives.len() as u64,
            runs: Vec::new(),
        };
        for (first, life) in (1..).zip(lives) {
            if extent.runs.last().is_none_or(|run| run.mark != *life) {
                let (term, mark) = (*life, *life);
                extent.runs.push(Run { term, mark, first });
            }
        }
        // What a compaction leaves: the last life before the base, and later ones.
        let kept = extent.runs.iter().rposition(|run| run.first <= base);
        extent.runs.drain(..kept.unwrap_or(0));
        extent
    }

    fn lives() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(1..5_usize, 0..5).prop_map(|lengths| {
            (1..)
                .zip(lengths)
                .flat_map(|(life, n)| vec![life; n])
                .collect()
        })
    }

    proptest! {
        #[test]
        fn rule_17_the_common_part_is_the_longest_prefix_that_is_not_inside_a_snapshot(
            shared in lives(),
            mine in lives(),
            theirs in lives(),
            bases in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        ) {
            let of = |own: &[u64], apart: u64| -> Vec<u64> {
                let own = own.iter().map(|life| life + apart);
                shared.iter().copied().chain(own).collect()
            };
            let (a, b) = (of(&mine, 100), of(&theirs, 200));
            let base_a = bases.0.index(a.len() + 1) as u64;
            let base_b = bases.1.index(b.len() + 1) as u64;
            let prefix = shared.len() as u64;
            let expected = if prefix >= base_a.max(base_b) { prefix } else { 0 };
            let (a, b) = (extent(&a, base_a), extent(&b, base_b));
            prop_assert_eq!(a.common(&b), expected);
            prop_assert_eq!(b.common(&a), expected);
        }
    }
}
