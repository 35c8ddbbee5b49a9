//! Writing a client's events, from cursors, in the order: accepted, progress, result frames, end.

use omniflow_control::{Job, Outcome, key};
use omniflow_wire::v1;
use omniflow_wire::v1::job_event::Event;
use prost::Message;
use prost::encoding::{encoded_len_varint, message};

use crate::clients::{Entry, Subscription, Urgency};
use crate::convert;
use crate::flows::FlowEntry;
use crate::job_data::JobData;
use crate::state::State;
use crate::stop_at::stop_at;

/// How a subscription stands after it was written.
enum Written {
    /// There was no room for all of it.
    Partly,
    /// The client knows all there is, or all that it has room for; more will come.
    Fully,
    /// The client knows how the job ended.
    ToTheEnd,
}

/// An `EventBatch` in the making.
struct Batch {
    out: Vec<u8>,
    limit: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.out.len() >= self.limit
    }

    fn has_room_for(&self, event: &v1::JobEvent) -> bool {
        let length = event.encoded_len();
        self.out.is_empty()
            || self.out.len() + 1 + encoded_len_varint(length as u64) + length <= self.limit
    }

    /// False when it does not fit; then it was not written.
    fn push(&mut self, event: &v1::JobEvent) -> bool {
        let fits = self.has_room_for(event);
        if fits {
            message::encode(1, event, &mut self.out);
        }
        fits
    }
}

impl State {
    /// A serialized `EventBatch` of about `limit` bytes; empty when nothing is left. A larger single event goes alone.
    pub(crate) fn take(&mut self, client: u64, limit: usize) -> Vec<u8> {
        let mut batch = Batch {
            out: Vec::new(),
            limit: limit.max(1),
        };
        while !batch.is_full() {
            match self.clients.pop(client) {
                None => break,
                Some(Entry::Event(event)) => {
                    // Refusals are small: one may pass the limit by its own length.
                    message::encode(1, &*event, &mut batch.out);
                }
                Some(Entry::News(id)) => {
                    if self.write_news(id, &mut batch) {
                        break;
                    }
                }
            }
        }
        batch.out
    }

    /// True when the batch is full.
    fn write_news(&mut self, id: usize, batch: &mut Batch) -> bool {
        if self.clients.hold(id) {
            return false;
        }
        let Some(subscription) = self.clients.subscription(id) else {
            return false;
        };
        let id_of_job = subscription.job;
        let job = self.control.job(subscription.job);
        let data = self.jobs.get(&subscription.job);
        let known = job
            .zip(data)
            .and_then(|(job, data)| Some((job, data, self.flows.get(job.flow)?)));
        let written = match known {
            Some((job, data, flow)) => subscription.write(job, data, flow, batch),
            None => subscription.write_forgotten(batch),
        };
        match written {
            Written::Partly => self.clients.put_back(id),
            Written::Fully => {
                subscription.queued = false;
                subscription.urgency = Urgency::None;
            }
            Written::ToTheEnd => {
                stop_at("told");
                let job = subscription.job;
                self.clients.unsubscribe(id);
                if let Some(data) = self.jobs.get_mut(&job) {
                    data.subscribers.retain(|subscriber| *subscriber != id);
                    if !std::mem::replace(&mut data.delivered, true) {
                        self.budgets.delivered.push_back(job);
                    }
                }
            }
        }
        let partly = matches!(written, Written::Partly);
        self.read_up_to(id_of_job, id);
        partly
    }
}

impl Subscription {
    fn event(&self, event: Event) -> v1::JobEvent {
        v1::JobEvent {
            tag: self.tag,
            job: convert::job_name(self.job),
            event: Some(event),
        }
    }

    fn write(&mut self, job: &Job, data: &JobData, flow: &FlowEntry, batch: &mut Batch) -> Written {
        let told = self.write_accepted(flow, batch) && self.write_progress(job, data, batch);
        if !told {
            return Written::Partly;
        }
        let ended = job.outcome.is_ended();
        if let Some(stopped) = self.write_frames(data, ended, batch) {
            return stopped;
        }
        let error = match &job.outcome {
            Outcome::Succeeded => None,
            Outcome::Failed(fault) => Some(convert::error(fault)),
            _ => return Written::Fully,
        };
        let report = Some(convert::report(job, &flow.graph));
        self.write_end(v1::JobEnd { error, report }, batch)
    }

    fn write_end(&self, end: v1::JobEnd, batch: &mut Batch) -> Written {
        if batch.push(&self.event(Event::Ended(end))) {
            Written::ToTheEnd
        } else {
            Written::Partly
        }
    }

    /// The client was so slow that the job's record is gone.
    fn write_forgotten(&self, batch: &mut Batch) -> Written {
        let error = v1::Error {
            code: v1::ErrorCode::UnknownJob.into(),
            message: "the job ended, and its results are no longer kept".to_owned(),
            cure: format!("read events sooner, or raise {}", key("result_ttl_s")),
            ..Default::default()
        };
        self.write_end(
            v1::JobEnd {
                error: Some(error),
                report: None,
            },
            batch,
        )
    }

    fn write_accepted(&mut self, flow: &FlowEntry, batch: &mut Batch) -> bool {
        let Some(existed) = self.accepted else {
            return true;
        };
        let accepted = v1::Accepted {
            flow: flow.flow.name.clone(),
            flow_version: flow.flow.version.clone(),
            results: flow.result_names(),
            existed,
        };
        let written = batch.push(&self.event(Event::Accepted(accepted)));
        if written {
            self.accepted = None;
            stop_at("accepted");
        }
        written
    }

    fn write_progress(&mut self, job: &Job, data: &JobData, batch: &mut Batch) -> bool {
        let Some(mut cursor) = self.progress else {
            return true;
        };
        while let Some((attempt, state)) = data.progress.get(cursor) {
            if let Some(attempt) = job.attempts.get(*attempt as usize) {
                let progress = convert::progress(attempt, *state, &data.graph);
                if !batch.push(&self.event(Event::Progress(progress))) {
                    return false;
                }
            }
            cursor += 1;
            self.progress = Some(cursor);
        }
        true
    }

    /// How the subscription stands when not all frames were written: its client has to have room, and so has the batch.
    fn write_frames(&mut self, data: &JobData, ended: bool, batch: &mut Batch) -> Option<Written> {
        let mut waits = None;
        for (port, log) in data.results.iter().enumerate() {
            while let Some((frame, next)) = log.read(port as u32, self.cursors[port]) {
                let bytes = (frame.mark() == v1::Mark::None).then_some(frame.payload.len());
                if bytes.is_some() && !self.has_room(port, ended) {
                    waits = Some(Written::Fully);
                    break;
                }
                if !batch.push(&self.event(Event::Frame(frame))) {
                    return Some(Written::Partly);
                }
                self.cursors[port] = next;
                if let (Some(bytes), Some(rooms)) = (bytes, &mut self.rooms) {
                    rooms[port].sent(bytes);
                }
            }
        }
        waits
    }

    fn has_room(&self, port: usize, ended: bool) -> bool {
        let rooms = self.rooms.as_ref();
        rooms.is_none_or(|rooms| rooms[port].has_room(ended))
    }
}
