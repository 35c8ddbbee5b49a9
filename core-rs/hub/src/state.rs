//! The hub's whole state. Whoever holds its lock takes one turn: something happened, what follows is done, and at the end
//! each link gets one write and the waiting event loop one wake-up.

use std::mem;
use std::time::Duration;

use omniflow_control::{
    ClientId, Control, Effect, Event, Fault, JobId, Limits, Micros, Submission, key,
};
use omniflow_placement::policy;
use omniflow_wire::v1;
use omniflow_wire::v1::client_message::Message as Request;
use omniflow_wire::v1::job_event;
use rustc_hash::FxHashMap;

use crate::awaiting::Awaited;
use crate::budgets::Budgets;
use crate::clients::{Clients, Subscription, Urgency};
use crate::config::HubConfig;
use crate::connect::Told;
use crate::convert;
use crate::error::HubError;
use crate::feeding::NewBind;
use crate::flows::{Flows, NewFlow};
use crate::job_data::JobData;
use crate::journal::{Image, Journal};
use crate::journaling::Journaling;
use crate::replication::Replication;
use crate::rooms::rooms;
use crate::starting_over::EarlierRuns;
use crate::stop_at::stop_at;
use crate::submit::{self, Prepared};
use crate::unreachable::Suspicions;
use crate::workers::Workers;

/// See the module.
pub(crate) struct State {
    pub(crate) config: HubConfig,
    pub(crate) control: Control,
    pub(crate) jobs: FxHashMap<JobId, JobData>,
    pub(crate) flows: Flows,
    pub(crate) workers: Workers,
    pub(crate) clients: Clients,
    /// The request that the job table is looking at.
    pub(crate) pending: Option<Pending>,
    pub(crate) budgets: Budgets,
    pub(crate) suspicions: Suspicions,
    pub(crate) journaling: Journaling,
    pub(crate) replication: Option<Replication>,
    pub(crate) awaited: Awaited,
    pub(crate) earlier_runs: EarlierRuns,
    /// This life is over: links that close say nothing of their workers.
    pub(crate) leaving: bool,
    /// When this life began.
    pub(crate) born: Micros,
    effects: Vec<Effect>,
    /// Nodes that were bound in this step.
    pub(crate) bound: Vec<NewBind>,
    /// Jobs whose inputs the scheduler's own resolvers have not seen yet.
    pub(crate) starting: Vec<JobId>,
    /// When the timer will look next.
    armed: Micros,
}

/// A request between its check and its answer.
pub(crate) struct Pending {
    pub(crate) client: u64,
    pub(crate) tag: u64,
    pub(crate) wanted: Wanted,
    pub(crate) fingerprint: u64,
    pub(crate) prepared: Prepared,
}

/// What a client wants to be told of a job, beside its end.
pub(crate) struct Wanted {
    pub(crate) progress: bool,
    /// So much of each result, until it says more; none: all there is.
    pub(crate) window: Option<v1::Window>,
}

/// What the turn leaves to be done without the lock.
#[derive(Default)]
pub(crate) struct Afterwards {
    /// When whoever waits for clients must be woken.
    pub(crate) wake_clients: Option<Duration>,
    /// Who serves a client for which there is something.
    pub(crate) told: Told,
    pub(crate) rearm_timer: bool,
    pub(crate) tell_workers: bool,
    pub(crate) idle: bool,
    /// etcd is to be asked something.
    pub(crate) ask_etcd: bool,
}

impl State {
    /// With everything that the journal's image says.
    pub(crate) fn new(
        config: HubConfig,
        journal: Option<Journal>,
        image: Image,
        now: Micros,
    ) -> Result<Self, HubError> {
        let limits = Limits {
            queue_limit: config.queue_limit,
            max_deadline_ms: config.max_deadline_ms,
            client_grace_ms: config.client_grace_ms,
            result_ttl_ms: config.result_ttl_ms,
            max_attempts: config.max_attempts,
            ..Limits::default()
        };
        let term = config.term;
        let replication = config.replication.as_ref();
        let replication = replication.map(|of| Replication::new(of.limit, image.extent.clone()));
        let mut state = Self {
            control: Control::new(limits, policy(&config.policy)?, term),
            config,
            jobs: FxHashMap::default(),
            flows: Flows::default(),
            workers: Workers::new(term),
            clients: Clients::default(),
            pending: None,
            budgets: Budgets::default(),
            suspicions: Suspicions::default(),
            journaling: Journaling::new(journal, &image),
            replication,
            awaited: Awaited::default(),
            earlier_runs: EarlierRuns::default(),
            leaving: false,
            born: now,
            effects: Vec::new(),
            bound: Vec::new(),
            starting: Vec::new(),
            armed: Micros(u64::MAX),
        };
        state.restore(image, now);
        Ok(state)
    }

    /// Lets the job table take in an event and does what it decides.
    pub(crate) fn step(&mut self, event: Event, now: Micros) {
        let mut effects = mem::take(&mut self.effects);
        self.control.step(event, now, &mut effects);
        for effect in effects.drain(..) {
            self.execute(effect, now);
        }
        self.effects = effects;
        self.feed(now);
    }

    /// The end of a turn.
    pub(crate) fn settle(&mut self, now: Micros) -> Afterwards {
        self.settle_journal();
        self.workers.flush();
        let next = self.control.next_timer().unwrap_or(Micros(u64::MAX));
        let rearm_timer = next < self.armed;
        if rearm_timer {
            self.armed = next;
        }
        let counters = self.control.counters();
        Afterwards {
            wake_clients: self.clients.must_signal(now),
            told: self.clients.untold(),
            tell_workers: self.workers.has_untold(),
            rearm_timer,
            idle: counters.running + counters.waiting == 0,
            ask_etcd: self.has_mark(),
        }
    }

    /// When the timer has to look next; none: when it is told to.
    pub(crate) fn arm(&mut self) -> Option<Micros> {
        let next = self.control.next_timer();
        self.armed = next.unwrap_or(Micros(u64::MAX));
        next
    }

    pub(crate) fn put_flow(&mut self, new: NewFlow) -> (bytes::Bytes, bool) {
        let version = new.version();
        if self.flows.renew(&new) {
            return (version, true);
        }
        let id = self.control.add_flow(new.graph.clone());
        self.flows.add(id, new, self.config.term);
        (version, false)
    }

    /// What a client says. The fingerprint is that of a submit.
    pub(crate) fn request(
        &mut self,
        client: u64,
        message: v1::ClientMessage,
        fingerprint: u64,
        now: Micros,
    ) {
        match message.message {
            Some(Request::Submit(request)) => {
                let window = message.window;
                self.submit(client, message.tag, request, window, fingerprint, now);
            }
            Some(Request::Watch(request)) => {
                self.watch(client, message.tag, &request, message.window, now);
            }
            Some(Request::Room(request)) => self.room(client, message.tag, &request, now),
            Some(Request::Leave(_)) => self.step(Event::ClientGone(ClientId(client)), now),
            Some(Request::Ack(request)) => self.ack(client, message.tag, &request),
            Some(Request::Cancel(request)) => self.cancel(client, message.tag, request, now),
            None => {
                let fault = Fault::invalid(
                    "message",
                    "the message is empty",
                    "send a submit, watch, room, ack, cancel or leave",
                );
                self.refuse(client, message.tag, &fault);
            }
        }
    }

    fn submit(
        &mut self,
        client: u64,
        tag: u64,
        mut request: v1::SubmitRequest,
        window: Option<v1::Window>,
        fingerprint: u64,
        now: Micros,
    ) {
        let limit = self.config.max_input_bytes;
        let prepared = match submit::prepare(&mut request, &self.flows, &self.workers, limit) {
            Ok(prepared) => prepared,
            Err(fault) => return self.refuse(client, tag, &fault),
        };
        let key = &request.idempotency_key;
        let known = self.control.job_of_key(&request.tenant, key);
        let refusal = match known.and_then(|job| Some((job, self.jobs.get(&job)?))) {
            Some((job, data)) if data.fingerprint != fingerprint => Some(another_request(job, key)),
            Some(_) => None,
            None => self
                .journal_refuses()
                .or_else(|| self.replication_refuses())
                .or_else(|| self.over_budget(prepared.input_bytes(), now)),
        };
        if let Some(fault) = refusal {
            return self.refuse(client, tag, &fault);
        }
        let submission = Submission {
            ticket: tag,
            client: ClientId(client),
            flow: prepared.flow,
            tenant: request.tenant.into(),
            priority: request.priority,
            deadline_ms: request.deadline_ms,
            idempotency_key: request.idempotency_key.into(),
            detach: request.detach,
        };
        self.pending = Some(Pending {
            client,
            tag,
            wanted: Wanted {
                progress: request.progress,
                window,
            },
            fingerprint,
            prepared,
        });
        stop_at("submitted");
        self.step(Event::Submit(submission), now);
    }

    fn watch(
        &mut self,
        client: u64,
        tag: u64,
        request: &v1::WatchRequest,
        window: Option<v1::Window>,
        now: Micros,
    ) {
        let known = convert::job_id(&request.job).and_then(|id| Some((id, self.jobs.get(&id)?)));
        let Some((id, data)) = known else {
            return self.refuse(client, tag, &unknown_job(&request.job));
        };
        let results = data.graph.results();
        let mut cursors = vec![0; results.len()];
        for (name, seq) in &request.next_seq {
            let Some(port) = results.iter().position(|port| port.name == *name) else {
                let names: Vec<&str> = results.iter().map(|port| port.name.as_str()).collect();
                let message = format!(
                    "the flow has no result {name:?}; it has: {}",
                    names.join(", ")
                );
                let fault = Fault::invalid(format!("next_seq.{name}"), message, "name one of them");
                return self.refuse(client, tag, &fault);
            };
            cursors[port] = *seq;
        }
        let watched = Event::Watch {
            job: id,
            client: ClientId(client),
        };
        self.step(watched, now);
        let progress = request.progress;
        let wanted = Wanted { progress, window };
        self.subscribe(client, tag, id, true, cursors, &wanted);
    }

    pub(crate) fn subscribe(
        &mut self,
        client: u64,
        tag: u64,
        job: JobId,
        existed: bool,
        cursors: Vec<u64>,
        wanted: &Wanted,
    ) {
        let Some(data) = self
            .jobs
            .get_mut(&job)
            .filter(|_| self.clients.is_open(client))
        else {
            return;
        };
        data.wants_progress |= wanted.progress;
        let rooms = wanted.window.as_ref().map(|window| rooms(data, window));
        let id = self.clients.subscribe(Subscription {
            client,
            tag,
            job,
            accepted: Some(existed),
            cursors: cursors.into(),
            rooms,
            progress: wanted.progress.then_some(data.progress.len()),
            queued: false,
            after: 0,
            held: false,
            urgency: Urgency::None,
        });
        data.subscribers.push(id);
        let after = data.written_at;
        let urgency = if existed { Urgency::Now } else { Urgency::Soon };
        self.clients.news(id, after, urgency);
        self.read_up_to(job, id);
    }

    fn ack(&mut self, client: u64, tag: u64, request: &v1::AckRequest) {
        let data = convert::job_id(&request.job).and_then(|id| self.jobs.get_mut(&id));
        let Some(data) = data else {
            return self.refuse(client, tag, &unknown_job(&request.job));
        };
        let ports = data.results.len();
        let Some(log) = data.results.get_mut(request.port as usize) else {
            let message = format!("the flow has no result {}; it has {ports}", request.port);
            return self.refuse(
                client,
                tag,
                &Fault::invalid("port", message, "results are numbered from 0"),
            );
        };
        self.budgets.kept_results -= log.ack(request.seq);
    }

    fn cancel(&mut self, client: u64, tag: u64, request: v1::CancelRequest, now: Micros) {
        let job = convert::job_id(&request.job).filter(|id| self.jobs.contains_key(id));
        match job {
            Some(job) => self.step(
                Event::Cancel {
                    job,
                    reason: request.reason,
                },
                now,
            ),
            None => self.refuse(client, tag, &unknown_job(&request.job)),
        }
    }

    pub(crate) fn close_client(&mut self, client: u64, now: Micros) {
        for (job, id) in self.clients.close(client) {
            if let Some(data) = self.jobs.get_mut(&job) {
                data.subscribers.retain(|subscriber| *subscriber != id);
            }
            self.pace_results(job);
        }
        self.step(Event::ClientLost(ClientId(client)), now);
    }

    pub(crate) fn refuse(&mut self, client: u64, tag: u64, fault: &Fault) {
        let event = Some(job_event::Event::Refused(convert::error(fault)));
        self.clients.tell(
            client,
            v1::JobEvent {
                tag,
                job: String::new(),
                event,
            },
        );
    }
}

fn another_request(job: JobId, key: &str) -> Fault {
    let job = convert::job_name(job);
    let message =
        format!("idempotency key {key:?} was given with another request, that of job {job}");
    let cure =
        "give every request a key of its own; the same one only to send the same request again";
    Fault::invalid("idempotency_key", message, cure)
}

fn unknown_job(name: &str) -> Fault {
    let message = format!("no job {name:?} is known here");
    let cure = format!(
        "it never was, or it ended longer ago than results are kept ({})",
        key("result_ttl_s")
    );
    Fault::new(omniflow_control::Code::UnknownJob, message, cure).field("job")
}
