//! How far streams of results may come (rule 10): a window beyond what their client has been sent. One that reads and falls
//! behind holds up whoever makes them, and nobody else. One that does not read holds nobody up; without a client they come up
//! to a quota. What is beyond stays with the worker, in the quota that it has there.

use omniflow_control::JobId;
use omniflow_flow::{Amount, Grant, Key, Meter};
use omniflow_placement::WorkerId;
use omniflow_wire::v1;

use crate::feeds::Paced;
use crate::flows::link_frame;
use crate::frames::CONTROL;
use crate::job_data::JobData;
use crate::state::State;

#[cfg(test)]
mod tests;

/// What a client may have unread here, of one stream.
#[cfg(not(test))]
pub(crate) const WINDOW: Amount = Amount {
    frames: 1_024,
    bytes: 4 << 20,
};

/// So little that tests meet its end.
#[cfg(test)]
pub(crate) const WINDOW: Amount = Amount {
    frames: 4,
    bytes: 40,
};

/// Of what the scheduler may keep of results, one job whose client is gone gets no more than this part.
const SHARE: usize = 4;

/// Who reads a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Some client.
    #[default]
    There,
    /// Some client will, or reads another result meanwhile.
    Elsewhere,
    /// Nobody, for now: so many bytes may come all the same.
    Away(u64),
}

/// Of one result: how far it has been read, and what its producer was told.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// How far some client is, or was in an earlier run: the next frame's number.
    reached: u64,
    /// Of what has come.
    unread: Amount,
    /// Read since the meter was told.
    fresh: Amount,
    meter: Meter,
    /// For whom what the producer was told last is.
    told_for: Reader,
}

impl Pace {
    /// Of a run whose first frames some client has.
    pub(crate) fn from(reached: u64) -> Self {
        Self {
            reached,
            fresh: frames(reached),
            ..Self::default()
        }
    }

    /// How far some client is.
    pub(crate) fn reached(&self) -> u64 {
        self.reached
    }

    /// A frame has come.
    pub(crate) fn came(&mut self, seq: u64, bytes: usize) {
        let bytes = bytes as u64;
        if seq < self.reached {
            self.fresh.bytes += bytes;
        } else {
            self.unread = self.unread.plus(Amount { frames: 1, bytes });
        }
    }

    /// A client is so far. `bytes`: of the frames that have come between where one was and there.
    pub(crate) fn reach(&mut self, to: u64, bytes: usize) {
        let moved = frames(to.saturating_sub(self.reached));
        let read = Amount {
            bytes: bytes as u64,
            ..moved
        };
        self.fresh = self.fresh.plus(read);
        self.unread = self.unread.minus(read);
        self.reached = self.reached.max(to);
    }

    /// What the producer has to hear, if it is news.
    pub(crate) fn due(&mut self, reader: Reader) -> Option<Grant> {
        let unread = match reader {
            _ if self.told_for != reader => return Some(self.now(reader)),
            Reader::There => self.unread,
            // It is not behind.
            Reader::Elsewhere => Amount::default(),
            Reader::Away(_) => return None,
        };
        let fresh = std::mem::take(&mut self.fresh);
        self.meter.note(fresh, unread, WINDOW)
    }

    /// The same, for a producer that knows nothing; none: it does what that does.
    pub(crate) fn told_anew(&mut self, reader: Reader) -> Option<Grant> {
        let grant = self.now(reader);
        let passes = WINDOW;
        let holds = false;
        (grant != Grant { passes, holds }).then_some(grant)
    }

    fn now(&mut self, reader: Reader) -> Grant {
        let fresh = std::mem::take(&mut self.fresh);
        self.meter.note(fresh, Amount::default(), WINDOW);
        self.told_for = reader;
        if reader != Reader::There {
            self.meter.lift();
        }
        let Reader::Away(quota) = reader else {
            return self.meter.now(WINDOW);
        };
        let bytes = self.meter.read().bytes.saturating_add(quota);
        let frames = u64::MAX;
        Grant {
            passes: Amount { frames, bytes },
            holds: false,
        }
    }
}

fn frames(frames: u64) -> Amount {
    Amount { frames, bytes: 0 }
}

impl State {
    /// A subscription has been told, or has begun, of this job.
    pub(crate) fn read_up_to(&mut self, id: JobId, subscription: usize) {
        let Some(data) = self.jobs.get_mut(&id) else {
            return;
        };
        if data.running.is_none() || data.feeds.paced().next().is_none() {
            return;
        }
        let cursors = self.clients.subscription(subscription);
        let cursors = cursors.map_or(&[][..], |subscription| &subscription.cursors);
        for (log, cursor) in data.results.iter_mut().zip(cursors) {
            log.reach(*cursor);
        }
        self.pace_results(id);
    }

    /// Some result of the job was read, or has another reader: whoever makes it hears how far it may come.
    pub(crate) fn pace_results(&mut self, id: JobId) {
        self.tell_makers(id, |pace, reader, _| pace.due(reader));
    }

    /// A node has a place: what makes results there hears how far they may come, unless that is what it thinks anyway.
    pub(crate) fn pace_again(&mut self, id: JobId, node: omniflow_flow::NodeId) {
        self.tell_makers(id, |pace, reader, paced| {
            let is_there = paced.iter().any(|paced| paced.home == node);
            is_there.then(|| pace.told_anew(reader)).flatten()
        });
    }

    fn tell_makers(
        &mut self,
        id: JobId,
        grant: impl Fn(&mut Pace, Reader, &[Paced]) -> Option<Grant>,
    ) {
        let away = (self.config.max_kept_result_bytes / SHARE) as u64;
        let Some(data) = self.jobs.get_mut(&id) else {
            return;
        };
        let feeds = data.feeds.clone();
        for (port, paced) in feeds.paced() {
            let read = |subscriber: &usize| self.clients.reads(*subscriber, port);
            let reader = match &data.subscribers[..] {
                [] => Reader::Away(away),
                some if some.iter().any(read) => Reader::There,
                _ => Reader::Elsewhere,
            };
            let log = data.results.get_mut(port);
            let grant = log.and_then(|log| grant(&mut log.pace, reader, paced));
            let grant = grant.into_iter();
            let told = grant.flat_map(|grant| paced.iter().map(move |paced| (*paced, grant)));
            for (worker, credit) in told.filter_map(|told| credit(id, data, told, self.config.term))
            {
                self.workers
                    .send(worker, link_frame(&credit.into(), CONTROL));
            }
        }
    }
}

/// To whoever makes it, if that has a place.
fn credit(
    id: JobId,
    data: &JobData,
    (paced, grant): (Paced, Grant),
    term: u64,
) -> Option<(WorkerId, v1::Credit)> {
    let running = data.running.as_ref()?;
    let place = running.outgoing.place(paced.home, &Key::ROOT)?;
    let credit = v1::Credit {
        job: id.0,
        edge: paced.edge.0,
        key: Vec::new(),
        frames: grant.passes.frames,
        bytes: grant.passes.bytes,
        term,
        epoch: 0,
        holds: grant.holds,
    };
    Some((place.worker, credit))
}
