//! The handle that the scheduler process holds, and the thread behind it.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use omniflow_control::{Code, Event, Fault, JobId};
use omniflow_grpc::News;
use omniflow_link::Address;
use omniflow_wire::v1;
use omniflow_wire::v1::client_message::Message as Request;
use parking_lot::Mutex;
use prost::Message;
use tokio::runtime::{Builder, Handle};

use crate::config::HubConfig;
use crate::error::HubError;
use crate::flows::NewFlow;
use crate::journal::{Image, Journal};
use crate::replication::{Mark, Marked, leader};
use crate::shared::{Shared, run};
use crate::state::State;
use crate::submit::fingerprint;
use crate::worker_link::{Target, keep_up};

/// How long a closing hub waits for a disk that is slow, or full.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// Acknowledgements of a standby wake nobody who closes.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// As good as for ever, and still a point in time.
const LONGEST_CLOSE: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Clients and worker links around the job table. Every call returns at once, but `close`.
pub struct Hub {
    shared: Arc<Shared>,
    runtime: Handle,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Hub {
    /// Starts the hub's thread, and its journal's. What the journal says is back when this returns.
    pub fn new(config: HubConfig) -> Result<Self, HubError> {
        let (journal, image) = match &config.journal {
            Some(journal) => {
                let (journal, image) = Journal::open(journal, config.term)?;
                (Some(journal), image)
            }
            None => (None, Image::default()),
        };
        let replication = config.replication.clone();
        let replication = replication.filter(|_| journal.is_some());
        let of = config.clone();
        let state = |now| State::new(of, journal, image, now);
        let shared = Arc::new(Shared::new(config, state)?);
        start_journal(&shared)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(HubError::io("starting the hub's event loop"))?;
        let handle = runtime.handle().clone();
        if let Some(replication) = replication {
            let listener = runtime.block_on(leader::listen(&shared.config, &replication))?;
            runtime.spawn(leader::serve(shared.clone(), listener, replication.limit));
        }
        let thread = {
            let shared = shared.clone();
            let builder = thread::Builder::new().name("omniflow-hub".to_owned());
            builder
                .spawn(move || run(&runtime, &shared))
                .map_err(HubError::io("starting the hub's thread"))?
        };
        Ok(Self {
            shared,
            runtime: handle,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// A descriptor, readable once `ready_clients` is to be asked.
    pub fn fileno(&self) -> RawFd {
        self.shared.wake.fileno()
    }

    /// A new client.
    pub fn open_client(&self) -> u64 {
        self.shared.turn(|state, _| state.clients.open(None))
    }

    /// A new client that `ready_clients` does not name: whoever serves it is told whenever there is something to `take`.
    pub fn open_told_client(&self, news: News) -> u64 {
        self.shared.turn(|state, _| state.clients.open(Some(news)))
    }

    /// The client's call is over: its jobs that nobody else owns and that are not detached are cancelled, unless somebody
    /// takes them over in the grace period.
    pub fn close_client(&self, client: u64) {
        self.shared
            .turn(|state, now| state.close_client(client, now));
    }

    /// Takes in a serialized `ClientBatch`. Returns how many answers wait for the client to take them: while they are
    /// many, it should not be listened to.
    pub fn send(&self, client: u64, batch: &[u8]) -> Result<usize, HubError> {
        let batch = v1::ClientBatch::decode(Bytes::copy_from_slice(batch))
            .map_err(HubError::wire("ClientBatch"))?;
        let messages = batch.messages.into_iter().map(|message| {
            let fingerprint = match &message.message {
                Some(Request::Submit(request)) if !request.idempotency_key.is_empty() => {
                    fingerprint(request)
                }
                _ => 0,
            };
            (message, fingerprint)
        });
        let messages: Vec<(v1::ClientMessage, u64)> = messages.collect();
        self.shared.turn(|state, now| {
            if !state.clients.is_open(client) {
                return Err(HubError::UnknownClient(client));
            }
            for (message, fingerprint) in messages {
                state.request(client, message, fingerprint, now);
            }
            Ok(state.clients.unsent(client))
        })
    }

    /// Clients with something to take; resets the descriptor. Each is named once until `take` has emptied it.
    pub fn ready_clients(&self) -> Vec<u64> {
        self.shared.wake.reset();
        self.shared.turn(|state, now| state.clients.take_ready(now))
    }

    /// A serialized `EventBatch` of about `max_bytes` at most; empty when nothing is left.
    pub fn take(&self, client: u64, max_bytes: usize) -> Vec<u8> {
        self.shared.turn(|state, _| state.take(client, max_bytes))
    }

    /// Validates a serialized `Flow` and makes it the newest of its name. Returns its version and whether it was known.
    pub fn put_flow(&self, flow: &[u8]) -> Result<(Bytes, bool), HubError> {
        let new = NewFlow::parse(flow)?;
        Ok(self.shared.turn(|state, _| state.put_flow(new)))
    }

    /// Forgets every version of a flow: no new job of it is taken, those that run go on. False when it was not known.
    pub fn drop_flow(&self, name: &str) -> bool {
        self.shared.turn(|state, _| state.flows.drop_name(name))
    }

    /// The newest version of every flow, serialized, by name.
    pub fn flows(&self) -> Vec<Bytes> {
        self.shared.turn(|state, _| state.flows.serialized())
    }

    /// The registry shows this serialized `WorkerInfo`: it is dialled when it is new.
    pub fn worker_seen(&self, info: &[u8]) -> Result<(), HubError> {
        let info = v1::WorkerInfo::decode(info).map_err(HubError::wire("WorkerInfo"))?;
        let addresses = info.addresses.iter().map(|address| address.parse());
        let addresses = addresses
            .collect::<Result<Vec<Address>, _>>()
            .map_err(|error| HubError::Wire {
                what: "WorkerInfo",
                cause: error.to_string(),
            })?;
        let target = Target {
            name: info.name.clone(),
            incarnation: info.incarnation.clone(),
            addresses,
        };
        let new = self.shared.turn(|state, now| state.worker_seen(info, now));
        if new {
            let task = self
                .runtime
                .spawn(keep_up(self.shared.clone(), target.clone()))
                .abort_handle();
            self.shared.turn(
                |state, _| match state.seat(&target.name, &target.incarnation) {
                    Some(seat) => seat.task = Some(task),
                    None => task.abort(),
                },
            );
        }
        Ok(())
    }

    /// The registration vanished. With a living link this changes nothing (rule 13).
    pub fn worker_gone(&self, name: &str, incarnation: &str) {
        self.shared
            .turn(|state, _| state.worker_gone(name, incarnation));
    }

    /// The worker finishes what it has and leaves; what it has not finished within the time goes on elsewhere (0: it
    /// takes the time that it needs). Returns its outstanding activations.
    pub fn drain_worker(&self, name: &str, within_ms: u64) -> Result<u32, HubError> {
        self.shared
            .turn(|state, now| state.drain_worker(name, within_ms, now))
    }

    /// A serialized `ClusterStatus`; the registry's part of it is the edge's to fill in.
    pub fn cluster_status(&self) -> Vec<u8> {
        self.shared
            .turn(|state, now| state.cluster_status(now))
            .encode_to_vec()
    }

    /// A serialized `JobStatus`; none when the job is not known.
    pub fn job_status(&self, job: &str) -> Option<Vec<u8>> {
        self.shared
            .turn(|state, now| state.job_status(job, now))
            .map(|status| status.encode_to_vec())
    }

    /// A serialized `ListResponse` to a serialized `ListRequest`.
    pub fn list_jobs(&self, request: &[u8]) -> Result<Vec<u8>, HubError> {
        let request = v1::ListRequest::decode(request).map_err(HubError::wire("ListRequest"))?;
        Ok(self
            .shared
            .turn(|state, now| state.list_jobs(&request, now))
            .encode_to_vec())
    }

    /// What etcd has to be asked about the standby's journal (rule 17), waiting up to `patience` for it. Each question is
    /// named once, and has to be answered by `marked` before the next one is asked.
    pub fn next_mark(&self, patience: Duration) -> Option<Mark> {
        let until = Instant::now() + patience;
        let mut state = self.shared.state.lock();
        loop {
            if let Some(mark) = state.take_mark() {
                return Some(mark);
            }
            let waited = self.shared.ask_etcd.wait_until(&mut state, until);
            if waited.timed_out() {
                return None;
            }
        }
    }

    /// What became of a question.
    pub fn marked(&self, ticket: u64, answer: Marked) {
        self.shared
            .turn(|state, now| state.marked(ticket, answer, now));
    }

    /// Verifies the job table's invariants. For tests, and when idle.
    pub fn check(&self) -> Result<(), String> {
        self.shared.turn(|state, _| state.control.check())
    }

    /// Refuses new jobs, waits for running ones up to `timeout`, closes the links. What still runs goes on in the next life,
    /// which finds it in the journal; without a journal it fails. Harmless when done before.
    pub fn close(&self, timeout: Duration) {
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        self.shared.turn(|state, now| state.step(Event::Close, now));
        let until = Instant::now() + timeout.min(LONGEST_CLOSE);
        let mut state = self.shared.state.lock();
        while state.control.jobs().any(|job| !job.outcome.is_ended()) {
            if self.shared.idle.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        drop(state);
        if self.shared.config.journal.is_none() {
            self.fail_the_rest();
        }
        self.wait_for_the_journal();
        self.shared.stop.notify_one();
        // The thread ends by itself; if it panicked there is nothing left to close.
        let _ = thread.join();
    }

    /// Clients hear of an end once it is written.
    fn wait_for_the_journal(&self) {
        let until = Instant::now() + LAST_WRITE;
        let mut state = self.shared.state.lock();
        let Some(journal) = state.journaling.journal() else {
            return;
        };
        let (inbox, last) = (journal.inbox(), journal.last());
        drop(state);
        inbox.wait(LAST_WRITE);
        // A standby has the last word.
        state = self.shared.state.lock();
        while state.replication.is_some() && state.clients.written_to() < last {
            let look = until.min(Instant::now() + LOOK_EVERY);
            self.shared.idle.wait_until(&mut state, look);
            if Instant::now() >= until {
                break;
            }
        }
    }

    fn fail_the_rest(&self) {
        self.shared.turn(|state, now| {
            let running = state.control.jobs().filter(|job| !job.outcome.is_ended());
            for job in running.map(|job| job.id).collect::<Vec<JobId>>() {
                let message = "the scheduler was shut down before the job was done";
                let mut fault = Fault::new(
                    Code::Unavailable,
                    message,
                    "submit it again when the scheduler is back",
                );
                fault.retry_after_ms = 1_000;
                state.step(
                    Event::Failed {
                        job,
                        fault: Box::new(fault),
                    },
                    now,
                );
            }
        });
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

fn start_journal(shared: &Arc<Shared>) -> Result<(), HubError> {
    let weak = Arc::downgrade(shared);
    let tell = move |said| {
        if let Some(shared) = weak.upgrade() {
            shared.turn(|state, now| state.journal_says(said, now));
        }
    };
    let mut state = shared.state.lock();
    match state.journaling.journal_mut() {
        Some(journal) => {
            journal.flush();
            journal
                .start(tell)
                .map_err(HubError::io("starting the journal's thread"))
        }
        None => Ok(()),
    }
}
