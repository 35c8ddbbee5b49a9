//! Frames that arrive ahead of the BindJob of their job (rule 15), and jobs that were released lately.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use omniflow_wire::Frame;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::JobId;

const MAX_BYTES: usize = 64 << 20;
const FRAME_BYTES: usize = 64;
/// A BindJob that has not come by then will not come.
const MAX_AGE: Duration = Duration::from_secs(30);
const MAX_RELEASED: usize = 16_384;

/// What waits for one job's bind.
#[derive(Debug)]
pub(crate) struct Parked {
    since: Instant,
    bytes: usize,
    pub(crate) frames: Vec<Frame>,
    /// A frame found no room: the job cannot run here as it is.
    pub(crate) overflowed: bool,
}

/// Frames of jobs that are not known here.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    jobs: FxHashMap<JobId, Parked>,
    bytes: usize,
    released: FxHashSet<JobId>,
    release_order: VecDeque<JobId>,
    dropped: u64,
}

impl Parking {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Frames that found no room or no bind in time.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Keeps the frame, unless there is no room.
    pub(crate) fn park(&mut self, frame: Frame, now: Instant) {
        let job = JobId(frame.header.job);
        let bytes = FRAME_BYTES + frame.payload.len();
        if self.bytes + bytes > MAX_BYTES {
            self.drop_released();
        }
        let parked = self.jobs.entry(job).or_insert_with(|| Parked {
            since: now,
            bytes: 0,
            frames: Vec::new(),
            overflowed: false,
        });
        if self.bytes + bytes > MAX_BYTES {
            parked.overflowed = true;
            self.dropped += 1;
            return;
        }
        self.bytes += bytes;
        parked.bytes += bytes;
        parked.frames.push(frame);
    }

    /// The job is bound: what waited for it.
    pub(crate) fn bound(&mut self, job: JobId) -> Option<Parked> {
        self.released.remove(&job);
        self.take(job)
    }

    /// The job is over here, for all that is known. It may be bound here again: a worker whose link to the scheduler broke
    /// is told to let go of what it held. So late frames of it are kept too, but make room first.
    pub(crate) fn released(&mut self, job: JobId) {
        self.take(job);
        if self.released.insert(job) {
            self.release_order.push_back(job);
        }
        if self.release_order.len() > MAX_RELEASED
            && let Some(oldest) = self.release_order.pop_front()
        {
            self.released.remove(&oldest);
        }
    }

    fn drop_released(&mut self) {
        let jobs = self.jobs.keys().filter(|job| self.released.contains(job));
        for job in jobs.copied().collect::<Vec<_>>() {
            self.take(job);
        }
    }

    /// Drops what waited for too long.
    pub(crate) fn expire(&mut self, now: Instant) {
        let old = |parked: &Parked| now.saturating_duration_since(parked.since) > MAX_AGE;
        let jobs = self.jobs.iter().filter(|(_, parked)| old(parked));
        let jobs: Vec<JobId> = jobs.map(|(job, _)| *job).collect();
        for job in jobs {
            let parked = self.take(job);
            self.dropped += parked.map_or(0, |parked| parked.frames.len() as u64);
        }
    }

    fn take(&mut self, job: JobId) -> Option<Parked> {
        let parked = self.jobs.remove(&job)?;
        self.bytes -= parked.bytes;
        Some(parked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omniflow_wire::v1;

    fn frame(job: u64, bytes: usize) -> Frame {
        let header = v1::FrameHeader {
            job,
            ..Default::default()
        };
        Frame {
            header,
            payload: vec![0; bytes].into(),
        }
    }

    #[test]
    fn frames_of_a_released_job_wait_for_a_new_bind_but_make_room_first() {
        let (mut parking, now) = (Parking::default(), Instant::now());
        parking.released(JobId(1));
        parking.park(frame(1, 10), now);
        let again = parking.bound(JobId(1)).expect("it was bound again");
        assert_eq!(again.frames.len(), 1);
        parking.released(JobId(1));
        parking.park(frame(1, MAX_BYTES / 2), now);
        parking.park(frame(2, MAX_BYTES / 2), now);
        assert!(parking.bound(JobId(1)).is_none(), "it made room");
        assert_eq!(parking.bound(JobId(2)).expect("kept").frames.len(), 1);
        assert_eq!((parking.bytes(), parking.dropped()), (0, 0));
    }

    #[test]
    fn what_waits_is_bounded_in_bytes_and_time() {
        let (mut parking, now) = (Parking::default(), Instant::now());
        parking.park(frame(1, MAX_BYTES / 2), now);
        parking.park(frame(1, MAX_BYTES / 2), now);
        assert_eq!(parking.dropped(), 1);
        parking.expire(now + MAX_AGE * 2);
        assert!(parking.bound(JobId(1)).is_none());
        assert_eq!(parking.bytes(), 0);
    }
}
