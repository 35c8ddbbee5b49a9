//! How far results may come to one subscription, as its client says (rule 10): one that reads a job slowly is sent no more of
//! that than it has room for, whatever else goes over its stream.

use omniflow_control::{Event, Micros};
use omniflow_flow::Amount;
use omniflow_wire::v1;

use crate::clients::Urgency;
use crate::convert;
use crate::job_data::JobData;
use crate::pacing::WINDOW;
use crate::state::State;

/// Of one result of a subscription. What counts is how much has been sent on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    sent: Amount,
    limit: Amount,
    /// Nobody reads it there for now.
    unread: bool,
}

impl Room {
    fn new(limit: Amount) -> Self {
        Self {
            sent: Amount::default(),
            limit,
            unread: false,
        }
    }

    /// Whether one more frame may be sent. What is left of a job that has `ended` is about a window, if its client was there:
    /// that need not wait until somebody reads.
    pub(crate) fn has_room(&self, ended: bool) -> bool {
        let more = if ended { WINDOW } else { Amount::default() };
        self.limit.plus(more).has_room(self.sent)
    }

    pub(crate) fn sent(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        self.sent = self.sent.plus(Amount { frames: 1, bytes });
    }

    pub(crate) fn is_unread(&self) -> bool {
        self.unread
    }

    /// What the client says. It takes nothing back: what was sent was sent.
    fn allow(&mut self, room: &v1::Room) {
        self.limit.frames = self.limit.frames.max(room.frames);
        self.limit.bytes = self.limit.bytes.max(room.bytes);
        self.unread = room.unread;
    }
}

/// Of all results of a job. One that nobody would make more slowly for it is not kept from its client: here it would take
/// room that is everybody's.
pub(crate) fn rooms(data: &JobData, window: &v1::Window) -> Box<[Room]> {
    let (frames, bytes) = (window.frames, window.bytes);
    let all = Amount {
        frames: u64::MAX,
        bytes: u64::MAX,
    };
    let mut rooms = vec![Room::new(all); data.results.len()];
    for (port, _) in data.feeds.paced() {
        rooms[port] = Room::new(Amount { frames, bytes });
    }
    rooms.into()
}

impl State {
    /// One that comes after its job's end means nothing any more.
    pub(crate) fn room(&mut self, client: u64, tag: u64, request: &v1::Room, now: Micros) {
        let data = convert::job_id(&request.job).and_then(|id| Some((id, self.jobs.get(&id)?)));
        let Some((job, data)) = data else {
            return;
        };
        let clients = &self.clients;
        let of_it = |id: &&usize| clients.is_at(**id, client, tag);
        let Some(id) = data.subscribers.iter().find(of_it).copied() else {
            return;
        };
        let after = data.written_at;
        let room = self
            .clients
            .subscription(id)
            .and_then(|subscription| subscription.rooms.as_mut())
            .and_then(|rooms| rooms.get_mut(request.port as usize));
        let Some(room) = room else {
            return;
        };
        let was_unread = room.unread;
        room.allow(request);
        if was_unread != room.unread {
            self.pace_results(job);
        }
        if !request.unread {
            self.step(Event::Read { job }, now);
        }
        self.clients.news(id, after, Urgency::Now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(frames: u64, bytes: u64) -> Room {
        Room::new(Amount { frames, bytes })
    }

    fn allowed(frames: u64, bytes: u64, unread: bool) -> v1::Room {
        v1::Room {
            frames,
            bytes,
            unread,
            ..Default::default()
        }
    }

    /// Sends frames of so many bytes as long as there is room; how many.
    fn fill(room: &mut Room, bytes: usize, ended: bool) -> u64 {
        let before = room.sent.frames;
        while room.has_room(ended) {
            room.sent(bytes);
        }
        room.sent.frames - before
    }

    #[test]
    fn frames_come_up_to_either_limit_and_the_one_that_passes_the_bytes_comes_too() {
        assert_eq!(fill(&mut room(3, 100), 1, false), 3);
        assert_eq!(fill(&mut room(10, 10), 4, false), 3);
        assert_eq!(fill(&mut room(10, 1), 1_000, false), 1);
        assert_eq!(fill(&mut room(0, 10), 1, false), 0);
    }

    #[test]
    fn more_room_counts_from_the_beginning_and_nothing_is_taken_back() {
        let mut room = room(3, 100);
        fill(&mut room, 1, false);
        room.allow(&allowed(5, 100, false));
        assert_eq!(fill(&mut room, 1, false), 2);
        room.allow(&allowed(4, 0, true));
        assert!(!room.has_room(false) && room.is_unread());
        room.allow(&allowed(6, 0, false));
        assert_eq!(fill(&mut room, 1, false), 1);
        assert!(!room.is_unread());
    }

    #[test]
    fn of_an_ended_job_a_window_more_comes() {
        let mut room = room(3, 100);
        assert_eq!(fill(&mut room, 1, true), 3 + WINDOW.frames);
    }
}
