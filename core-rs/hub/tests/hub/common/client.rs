//! A client, as the scheduler's edge serves it.

use std::sync::Arc;
use std::time::Instant;

use omniflow_hub::Hub;
use omniflow_wire::v1;
use omniflow_wire::v1::client_message::Message as Request;
use omniflow_wire::v1::job_event::Event;
use prost::Message;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::PATIENCE;

pub struct Client {
    hub: Arc<Hub>,
    pub number: u64,
    events: Vec<v1::JobEvent>,
    pub max_bytes: usize,
}

impl Client {
    pub fn open(hub: Arc<Hub>) -> Self {
        Self {
            number: hub.open_client(),
            hub,
            events: Vec::new(),
            max_bytes: 1 << 20,
        }
    }

    pub fn send(&self, tag: u64, message: Request) {
        self.send_with(tag, message, None);
    }

    /// With so much room for each result.
    pub fn send_with(&self, tag: u64, message: Request, window: Option<v1::Window>) {
        let messages = vec![v1::ClientMessage {
            tag,
            message: Some(message),
            window,
        }];
        self.hub
            .send(self.number, &v1::ClientBatch { messages }.encode_to_vec())
            .unwrap();
    }

    pub fn submit(&self, request: v1::SubmitRequest) {
        self.send(1, Request::Submit(request));
    }

    pub fn cancel(&self, job: &str) {
        self.send(
            2,
            Request::Cancel(v1::CancelRequest {
                job: job.to_owned(),
                reason: "enough".to_owned(),
            }),
        );
    }

    pub fn close(self) {
        self.hub.close_client(self.number);
    }

    /// The next event, waiting on the hub's descriptor as an event loop would.
    pub fn next(&mut self) -> Event {
        self.next_tagged().event.unwrap()
    }

    pub fn next_tagged(&mut self) -> v1::JobEvent {
        let started = Instant::now();
        loop {
            if !self.events.is_empty() {
                return self.events.remove(0);
            }
            let batch = self.hub.take(self.number, self.max_bytes);
            self.events = v1::EventBatch::decode(&batch[..]).unwrap().events;
            if self.events.is_empty() {
                assert!(started.elapsed() < PATIENCE, "no event came");
                wait_readable(&self.hub);
                self.hub.ready_clients();
            }
        }
    }

    /// What the hub has for it now, without waiting.
    pub fn at_hand(&mut self) -> Vec<v1::JobEvent> {
        let batch = self.hub.take(self.number, usize::MAX);
        let more = v1::EventBatch::decode(&batch[..]).unwrap().events;
        self.events.extend(more);
        std::mem::take(&mut self.events)
    }

    pub fn accepted(&mut self) -> (String, v1::Accepted) {
        let number = self.number;
        let started = Instant::now();
        loop {
            let batch = self.hub.take(number, self.max_bytes);
            self.events
                .extend(v1::EventBatch::decode(&batch[..]).unwrap().events);
            if let Some(event) = self.events.first() {
                let job = event.job.clone();
                match self.next() {
                    Event::Accepted(accepted) => return (job, accepted),
                    other => panic!("not accepted: {other:?}"),
                }
            }
            assert!(started.elapsed() < PATIENCE);
        }
    }

    pub fn refused(&mut self) -> v1::Error {
        match self.next() {
            Event::Refused(error) => error,
            other => panic!("not refused: {other:?}"),
        }
    }

    /// Result frames up to the end of the job.
    pub fn rest(&mut self) -> (Vec<v1::ResultFrame>, v1::JobEnd) {
        let mut frames = Vec::new();
        loop {
            match self.next() {
                Event::Frame(frame) => frames.push(frame),
                Event::Ended(end) => return (frames, end),
                Event::Progress(_) => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    pub fn failure(&mut self) -> v1::Error {
        self.rest().1.error.expect("the job failed")
    }
}

fn wait_readable(hub: &Hub) {
    // SAFETY: the hub outlives this call, and with it the descriptor.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(hub.fileno()) };
    let second = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&second)).unwrap();
}
