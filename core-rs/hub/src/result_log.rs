//! What came of one result of a job, kept until it is acknowledged or forgotten.

use std::collections::VecDeque;

use bytes::Bytes;
use omniflow_flow::Item;
use omniflow_wire::v1;

use crate::journal::bodies::KeptResult;
use crate::pacing::Pace;
use crate::restore::chain;

/// See the module. Frames are kept from `base` on.
#[derive(Debug, Default)]
pub(crate) struct ResultLog {
    base: u64,
    bytes: usize,
    frames: VecDeque<Bytes>,
    mark: Option<(v1::Mark, u64)>,
    /// Of all frames so far, acknowledged ones too, but for the last `undigested`: most jobs end before anybody asks.
    digest: u64,
    undigested: usize,
    /// What the journal was told of: frames.
    noted: u64,
    /// What a client may have of an earlier run: nothing is shown before it has come again.
    expected: Option<Expected>,
    /// How far it may come.
    pub(crate) pace: Pace,
}

/// What an earlier run of the job, or an earlier life of the scheduler, may have shown.
#[derive(Clone, Copy, Debug)]
struct Expected {
    frames: u64,
    digest: u64,
    mark: Option<(v1::Mark, u64)>,
    /// Frames before this one were acknowledged.
    base: u64,
}

impl ResultLog {
    /// Returns how many frames a client may have that are not those which came now.
    pub(crate) fn push(&mut self, item: Item<Bytes>) -> Option<u64> {
        match item {
            Item::Frame { payload, .. } => {
                self.pace.came(self.len(), payload.len());
                self.undigested += 1;
                self.bytes += payload.len();
                self.frames.push_back(payload);
            }
            Item::End { count } => self.mark = Some((v1::Mark::End, count)),
            Item::Closed => self.mark = Some((v1::Mark::Closed, 0)),
        }
        let expected = self.expected?;
        let frames = self.len();
        let same_frames = frames == expected.frames && self.digest() == expected.digest;
        let complete = expected.mark.is_none() || expected.mark == self.mark;
        if same_frames && complete {
            self.expected = None;
            self.ack(expected.base.checked_sub(1)?);
            return None;
        }
        let differs = match self.mark {
            Some(_) => true,
            None if frames == expected.frames => !same_frames,
            None => frames > expected.frames,
        };
        differs.then_some(expected.frames)
    }

    /// The job runs again from its inputs. Returns the bytes given back.
    pub(crate) fn start_over(&mut self) -> usize {
        let seen = Expected {
            frames: self.len(),
            digest: self.digest(),
            mark: self.mark,
            base: self.base,
        };
        // What had not come again yet is still to come.
        let expected = self.expected.unwrap_or(seen);
        let freed = self.bytes;
        *self = Self {
            noted: self.noted,
            // All of that has to come before anything is shown, whoever is there.
            pace: Pace::from(self.pace.reached().max(expected.frames)),
            expected: (expected.frames > 0 || expected.mark.is_some()).then_some(expected),
            ..Self::default()
        };
        freed
    }

    /// Of the frames that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Frames so far.
    fn len(&self) -> u64 {
        self.base + self.frames.len() as u64
    }

    /// A client may have so many frames of that digest.
    pub(crate) fn expect(&mut self, frames: u64, digest: u64) {
        let expected = Expected {
            frames,
            digest,
            mark: None,
            base: 0,
        };
        self.expected = (frames > 0).then_some(expected);
        self.noted = frames;
        self.pace = Pace::from(frames);
    }

    /// A client has everything before this frame, of what has come and of what has not yet.
    pub(crate) fn reach(&mut self, cursor: u64) {
        let from = self.pace.reached().max(self.base);
        let come = (from..cursor.min(self.len())).map(|seq| (seq - self.base) as usize);
        let bytes = come
            .filter_map(|at| self.frames.get(at))
            .map(Bytes::len)
            .sum();
        if cursor > self.pace.reached() {
            self.pace.reach(cursor, bytes);
        }
    }

    /// How many frames there are and their digest, when there are more than the journal was told of.
    pub(crate) fn note(&mut self) -> Option<(u64, u64)> {
        let frames = self.len();
        let more = frames > self.noted;
        self.noted = self.noted.max(frames);
        more.then(|| (frames, self.digest()))
    }

    fn digest(&mut self) -> u64 {
        let known = self.frames.len() - self.undigested;
        let fresh = self.frames.range(known..);
        self.digest = fresh.fold(self.digest, chain);
        self.undigested = 0;
        self.digest
    }

    pub(crate) fn to_journal(&self) -> KeptResult {
        let (mark, count) = self.mark.unwrap_or((v1::Mark::None, 0));
        KeptResult {
            base: self.base,
            frames: self.frames.iter().cloned().collect(),
            mark: mark.into(),
            count,
        }
    }

    pub(crate) fn restored(kept: KeptResult) -> Self {
        let mark = kept.mark();
        Self {
            base: kept.base,
            bytes: kept.frames.iter().map(Bytes::len).sum(),
            frames: kept.frames.into(),
            mark: (mark != v1::Mark::None).then_some((mark, kept.count)),
            ..Self::default()
        }
    }

    /// Drops every frame up to and with `seq`. Returns the bytes given back.
    pub(crate) fn ack(&mut self, seq: u64) -> usize {
        let before = self.bytes;
        self.reach(self.len().min(seq.saturating_add(1)));
        self.digest();
        while self.base <= seq
            && let Some(frame) = self.frames.pop_front()
        {
            self.bytes -= frame.len();
            self.base += 1;
        }
        before - self.bytes
    }

    /// What a reader at `cursor` sees next, and where its cursor is then. The mark counts as the frame after the last.
    pub(crate) fn read(&self, port: u32, cursor: u64) -> Option<(v1::ResultFrame, u64)> {
        if self.expected.is_some() {
            return None;
        }
        let seq = cursor.max(self.base);
        let end = self.base + self.frames.len() as u64;
        let mut frame = v1::ResultFrame {
            port,
            seq,
            ..Default::default()
        };
        if let Some(payload) = self.frames.get((seq - self.base) as usize) {
            frame.payload = payload.clone();
        } else {
            let (mark, count) = self.mark.filter(|_| seq == end)?;
            frame.mark = mark.into();
            frame.count = count;
        }
        Some((frame, seq + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(seq: u64) -> Item<Bytes> {
        Item::Frame {
            seq,
            payload: Bytes::from(vec![seq as u8]),
        }
    }

    #[test]
    fn a_reader_sees_every_frame_and_the_mark_once() {
        let mut log = ResultLog::default();
        assert!(log.read(0, 0).is_none());
        assert_eq!(log.push(frame(0)), None);
        assert_eq!(log.push(frame(1)), None);
        let (first, cursor) = log.read(0, 0).unwrap();
        assert_eq!((first.seq, &first.payload[..], cursor), (0, &[0][..], 1));
        let (_, cursor) = log.read(0, cursor).unwrap();
        assert!(log.read(0, cursor).is_none());
        log.push(Item::End { count: 2 });
        let (mark, cursor) = log.read(0, cursor).unwrap();
        assert_eq!((mark.mark(), mark.count, mark.seq), (v1::Mark::End, 2, 2));
        assert!(log.read(0, cursor).is_none());
    }

    #[test]
    fn what_was_acknowledged_is_gone_and_a_late_reader_starts_after_it() {
        let mut log = ResultLog::default();
        (0..4).for_each(|seq| assert_eq!(log.push(frame(seq)), None));
        log.ack(1);
        assert_eq!(log.read(0, 0).unwrap().0.seq, 2);
        log.ack(100);
        assert!(log.read(0, 0).is_none());
        log.push(Item::End { count: 4 });
        assert_eq!(log.read(0, 0).unwrap().0.count, 4);
    }

    /// A log that expects what `shown` holds.
    fn after_a_restart(shown: &mut ResultLog) -> ResultLog {
        let mut log = ResultLog::default();
        log.expect(shown.len(), shown.digest());
        log
    }

    #[test]
    fn rule_12_a_job_that_runs_again_shows_nothing_before_it_has_said_the_same() {
        let mut shown = ResultLog::default();
        (0..2).for_each(|seq| assert_eq!(shown.push(frame(seq)), None));
        let mut log = after_a_restart(&mut shown);
        assert_eq!(log.push(frame(0)), None);
        assert!(log.read(0, 0).is_none());
        assert_eq!(log.push(frame(1)), None);
        assert_eq!(log.read(0, 1).unwrap().0.seq, 1);
        // Another frame in the place of the second; an end before it.
        let mut log = after_a_restart(&mut shown);
        assert_eq!(log.push(frame(0)), None);
        assert_eq!(log.push(frame(7)), Some(2));
        let mut log = after_a_restart(&mut shown);
        assert_eq!(log.push(frame(0)), None);
        assert_eq!(log.push(Item::End { count: 1 }), Some(2));
    }

    #[test]
    fn rule_12_a_job_that_starts_over_shows_what_is_new_once_it_has_said_the_same() {
        let mut log = ResultLog::default();
        (0..3).for_each(|seq| assert_eq!(log.push(frame(seq)), None));
        log.ack(0);
        assert_eq!(log.start_over(), 2);
        assert_eq!(log.bytes(), 0);
        // A second time before all of it has come again.
        assert_eq!(log.push(frame(0)), None);
        assert!(log.read(0, 1).is_none());
        log.start_over();
        (0..3).for_each(|seq| assert_eq!(log.push(frame(seq)), None));
        assert_eq!(log.read(0, 0).unwrap().0.seq, 1, "0 was acknowledged");
        assert_eq!(log.push(frame(3)), None);
        assert_eq!(log.read(0, 3).unwrap().0.seq, 3);
        // Once it had ended, it ends with the same.
        log.push(Item::End { count: 4 });
        log.start_over();
        (0..4).for_each(|seq| assert_eq!(log.push(frame(seq)), None));
        assert!(log.read(0, 1).is_none());
        assert_eq!(log.push(Item::End { count: 4 }), None);
        assert_eq!(log.read(0, 4).unwrap().0.count, 4);
        log.start_over();
        (0..4).for_each(|seq| assert_eq!(log.push(frame(seq)), None));
        assert_eq!(log.push(frame(4)), Some(4));
        log = ResultLog::default();
        log.start_over();
        assert_eq!(log.push(frame(0)), None);
        assert!(log.read(0, 0).is_some());
    }
}
