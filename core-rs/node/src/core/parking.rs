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

    /// Keeps the frame, unless its job is over or there is no room.
    pub(crate) fn park(&mut self, frame: Frame, now: Instant) {
        let job = JobId(frame.header.job);
        if self.released.contains(&job) {
            return;
        }
        let bytes = FRAME_BYTES + frame.payload.len();
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

    /// The job is over: late frames of it are dropped from now on.
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
