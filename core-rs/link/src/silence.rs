//! When a silent peer is asked, and when it is given up. Pure, and counted in ticks of this process: one that was itself
//! stopped for a while does not take its peers for dead when it goes on.

use std::time::Duration;

/// What a tick shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Something came since the last tick.
    Heard,
    /// Nothing came: it has to be asked.
    Silent,
    /// Nothing came for too long.
    Dead,
}

/// Counts the ticks without a sign of life.
#[derive(Debug)]
pub(crate) struct Silence {
    limit: u32,
    ticks: u32,
    seen: u64,
}

impl Silence {
    /// For ticks that are `beat` apart.
    pub(crate) fn new(beat: Duration, limit: Duration) -> Self {
        let beats = limit.as_nanos().div_ceil(beat.as_nanos().max(1));
        Self {
            // A peer is asked at the first silent tick, and has one more to answer.
            limit: u32::try_from(beats).unwrap_or(u32::MAX).max(2),
            ticks: 0,
            seen: 0,
        }
    }

    /// `reads` grows with every sign of life.
    pub(crate) fn tick(&mut self, reads: u64) -> Verdict {
        if reads != self.seen {
            self.seen = reads;
            self.ticks = 0;
            return Verdict::Heard;
        }
        self.ticks += 1;
        if self.ticks >= self.limit {
            Verdict::Dead
        } else {
            Verdict::Silent
        }
    }

    /// A new socket: what was before it doesn't count.
    pub(crate) fn restart(&mut self, reads: u64) {
        self.seen = reads;
        self.ticks = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silence() -> Silence {
        Silence::new(Duration::from_secs(1), Duration::from_millis(2_500))
    }

    #[test]
    fn rule_13_a_peer_is_asked_when_it_is_silent_and_dead_past_the_limit() {
        let mut silence = silence();
        assert_eq!(silence.tick(1), Verdict::Heard);
        assert_eq!(silence.tick(1), Verdict::Silent);
        assert_eq!(silence.tick(1), Verdict::Silent);
        assert_eq!(silence.tick(1), Verdict::Dead);
    }

    #[test]
    fn rule_13_a_sign_of_life_or_a_new_socket_starts_the_count_again() {
        let mut silence = silence();
        silence.tick(0);
        silence.tick(0);
        assert_eq!(silence.tick(7), Verdict::Heard);
        silence.tick(7);
        silence.tick(7);
        silence.restart(7);
        assert_eq!(silence.tick(7), Verdict::Silent);
    }

    #[test]
    fn a_limit_within_one_beat_still_leaves_time_to_answer() {
        let mut silence = Silence::new(Duration::from_secs(9), Duration::from_secs(1));
        assert_eq!(silence.tick(0), Verdict::Silent);
        assert_eq!(silence.tick(0), Verdict::Dead);
    }
}
