//! What was delivered of a stream, as far as it takes to tell whether a later attempt says the same (rule 12): the last
//! frames one by one, and all before them as one digest. So a stream may be as long as it likes.

use std::collections::VecDeque;

/// How many of the last frames are told apart.
const RECENT: usize = 1_024;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Digests {
    recent: VecDeque<u64>,
    /// All frames before those.
    before: Chain,
    /// What the present attempt has said again of what came before the recent ones when it began.
    again: Option<Again>,
}

/// Frames from the first on, in sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Chain {
    count: u64,
    digest: u64,
}

#[derive(Debug)]
struct Again {
    said: Chain,
    wanted: Chain,
}

impl Chain {
    fn add(&mut self, digest: u64) {
        // Order counts: a sum would not tell two frames that have changed places.
        let mixed = (self.digest.rotate_left(23) ^ digest).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.digest = mixed ^ (mixed >> 32);
        self.count += 1;
    }
}

impl Digests {
    /// The next frame was delivered.
    pub(super) fn push(&mut self, digest: u64) {
        self.recent.push_back(digest);
        if self.recent.len() > RECENT
            && let Some(oldest) = self.recent.pop_front()
        {
            self.before.add(oldest);
        }
    }

    /// A later attempt begins.
    pub(super) fn restart(&mut self) {
        self.again = (self.before.count > 0).then(|| Again {
            said: Chain::default(),
            wanted: self.before,
        });
    }

    /// A frame came that had been delivered. The number of one that is not the same: of the last one, where several can only
    /// be compared together. Attempts say everything again, in sequence; what comes otherwise is compared with the recent
    /// frames only.
    pub(super) fn compare(&mut self, seq: u64, digest: u64) -> Option<u64> {
        if let Some(place) = seq.checked_sub(self.before.count) {
            let known = self.recent.get(usize::try_from(place).ok()?);
            return (known != Some(&digest)).then_some(seq);
        }
        let again = self
            .again
            .as_mut()
            .filter(|again| again.said.count == seq)?;
        again.said.add(digest);
        if again.said.count < again.wanted.count {
            return None;
        }
        let differs = again.said != again.wanted;
        self.again = None;
        differs.then_some(seq)
    }

    /// Frames so far.
    pub(super) fn count(&self) -> u64 {
        self.before.count + self.recent.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: u64 = 10_000;

    fn delivered() -> Digests {
        let mut digests = Digests::default();
        (0..LENGTH).for_each(|seq| digests.push(seq * 7));
        digests
    }

    /// What another attempt that says these gets to hear.
    fn said(digests: &mut Digests, frame: impl Fn(u64) -> u64) -> Vec<u64> {
        digests.restart();
        (0..LENGTH)
            .filter_map(|seq| digests.compare(seq, frame(seq)))
            .collect()
    }

    #[test]
    fn a_long_stream_takes_no_more_room_than_a_short_one() {
        let digests = delivered();
        assert_eq!(digests.count(), LENGTH);
        assert_eq!(digests.recent.len(), RECENT);
    }

    #[test]
    fn rule_12_whatever_another_attempt_says_otherwise_is_seen() {
        let mut digests = delivered();
        let last_of_before = LENGTH - RECENT as u64 - 1;
        assert_eq!(said(&mut digests, |seq| seq * 7), []);
        for wrong in [0, 1, 5_000, last_of_before] {
            let frame = |seq| seq * 7 + u64::from(seq == wrong);
            assert_eq!(said(&mut digests, frame), [last_of_before], "{wrong}");
        }
        let swapped = |seq| match seq {
            100 => 101 * 7,
            101 => 100 * 7,
            seq => seq * 7,
        };
        assert_eq!(said(&mut digests, swapped), [last_of_before]);
        for wrong in [last_of_before + 1, LENGTH - 1] {
            let frame = |seq| seq * 7 + u64::from(seq == wrong);
            assert_eq!(said(&mut digests, frame), [wrong], "exactly");
        }
    }

    #[test]
    fn rule_12_what_comes_twice_is_no_contradiction() {
        let mut digests = delivered();
        let mut seen = Vec::new();
        digests.restart();
        for seq in (0..3_000).chain(0..LENGTH).chain(0..LENGTH) {
            seen.extend(digests.compare(seq, seq * 7));
        }
        assert_eq!(seen, []);
        // The same attempt, once more: a link was resumed.
        let mut digests = delivered();
        assert!((0..LENGTH).all(|seq| digests.compare(seq, seq * 7).is_none()));
    }

    #[test]
    fn rule_12_an_attempt_that_goes_on_moves_no_frame_out_of_what_it_is_compared_with() {
        let mut digests = delivered();
        assert_eq!(said(&mut digests, |seq| seq * 7), []);
        (LENGTH..2 * LENGTH).for_each(|seq| digests.push(seq * 7));
        digests.restart();
        let whole = (0..2 * LENGTH).filter_map(|seq| digests.compare(seq, seq * 7));
        assert_eq!(whole.count(), 0);
    }
}
