//! What the hub writes into its journal, and what waits for that (rule 17): `accepted` for the job, frames for a note of how
//! far they go, the end for the end.

use bytes::Bytes;
use omniflow_control::{Code, Event, Fault, JobId, Micros, Outcome};
use omniflow_wire::v1;

use crate::clients::Urgency;
use crate::convert;
use crate::job_data::{InputData, JobData};
use crate::journal::bodies::{Delivered, Ended, Forgotten, JobSpec, WorkerKnown};
use crate::journal::record::Kind;
use crate::journal::{Image, Journal, Written};
use crate::state::State;
use crate::stop_at::stop_at;

/// Records that wait for a slow disk; beyond that no job is taken.
const MAX_WAITING: usize = 256 << 20;
const RETRY_AFTER_MS: u64 = 1_000;

/// The hub's journal and how it stands.
pub(crate) struct Journaling {
    journal: Option<Journal>,
    /// Of this life, from 1.
    pub(crate) life: u32,
    /// Flows that were written in this life.
    flows: Vec<bool>,
    /// Jobs with result frames of this turn.
    pub(crate) fresh: Vec<JobId>,
    /// Why nothing can be written now.
    failure: Option<String>,
}

impl Journaling {
    pub(crate) fn new(journal: Option<Journal>, image: &Image) -> Self {
        Self {
            journal,
            life: image.lives,
            flows: Vec::new(),
            fresh: Vec::new(),
            failure: None,
        }
    }

    pub(crate) fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    pub(crate) fn journal_mut(&mut self) -> Option<&mut Journal> {
        self.journal.as_mut()
    }
}

impl State {
    /// Why no job can be taken now.
    pub(crate) fn journal_refuses(&self) -> Option<Fault> {
        let journal = self.journaling.journal.as_ref()?;
        if let Some(failure) = &self.journaling.failure {
            return Some(unwritable(journal, failure));
        }
        (journal.waiting() > MAX_WAITING).then(|| {
            let message = "the disk is slower than the jobs that come: their journal waits for it";
            exhausted(
                message,
                "send them more slowly, or give the journal a faster disk",
            )
        })
    }

    /// Writes an accepted job with its inputs.
    pub(crate) fn journal_job(&mut self, id: JobId) {
        let Some(journal) = &mut self.journaling.journal else {
            return;
        };
        let (Some(job), Some(data)) = (self.control.job(id), self.jobs.get_mut(&id)) else {
            return;
        };
        let (Some(flow), Some(running)) = (self.flows.get(job.flow), &data.running) else {
            return;
        };
        let number = job.flow.0 as usize;
        if self.journaling.flows.len() <= number {
            self.journaling.flows.resize(number + 1, false);
        }
        if !std::mem::replace(&mut self.journaling.flows[number], true) {
            journal.append_raw(Kind::Flow, &flow.serialized);
        }
        let inputs = data.graph.inputs().iter().zip(&running.inputs);
        let inputs = inputs.filter_map(|(port, input)| wire_input(&port.name, input));
        let spec = JobSpec {
            job: id.0,
            flow: flow.flow.name.clone(),
            flow_version: flow.flow.version.clone(),
            tenant: job.tenant.to_string(),
            priority: job.priority,
            idempotency_key: job.idempotency_key.to_string(),
            detach: job.detach,
            arrived_us: job.arrived.0,
            deadline_us: job.deadline.0,
            arrival: job.arrival,
            order: job.order,
            fingerprint: data.fingerprint,
            inputs: inputs.collect(),
            parameters: running.parameters.clone(),
        };
        data.written_at = journal.append(Kind::Job, &spec);
        data.accepted_at = data.written_at;
    }

    /// Writes a job's end with the results that its client may not have.
    pub(crate) fn journal_end(&mut self, id: JobId) {
        let Some(journal) = &mut self.journaling.journal else {
            return;
        };
        let (Some(job), Some(data)) = (self.control.job(id), self.jobs.get_mut(&id)) else {
            return;
        };
        let error = match &job.outcome {
            Outcome::Failed(fault) => Some(convert::error(fault)),
            _ => None,
        };
        let ended = Ended {
            job: id.0,
            at_us: job.ended.0,
            error,
            report: Some(convert::report(job, &data.graph)),
            results: data.results.iter().map(|log| log.to_journal()).collect(),
            last_result_us: job.last_result.since(job.arrived),
        };
        data.written_at = journal.append(Kind::Ended, &ended);
    }

    pub(crate) fn journal_forgotten(&mut self, id: JobId) {
        if let Some(journal) = &mut self.journaling.journal {
            journal.append(Kind::Forgotten, &Forgotten { job: id.0 });
        }
    }

    pub(crate) fn journal_worker(&mut self, name: &str, incarnation: &str, up: bool) {
        if let Some(journal) = &mut self.journaling.journal {
            let known = WorkerKnown {
                name: name.to_owned(),
                incarnation: incarnation.to_owned(),
                up,
            };
            journal.append(Kind::Worker, &known);
        }
    }

    /// The job has a result frame that no client has been told of; they are at the end of the turn.
    pub(crate) fn has_fresh_results(&mut self, id: JobId) {
        if let Some(data) = self.jobs.get_mut(&id)
            && !std::mem::replace(&mut data.fresh, true)
        {
            self.journaling.fresh.push(id);
        }
    }

    /// The end of a turn: how far results have got is written, once for each and turn, and clients are told when it is.
    pub(crate) fn settle_journal(&mut self) {
        for id in std::mem::take(&mut self.journaling.fresh) {
            let Some(data) = self.jobs.get_mut(&id) else {
                continue;
            };
            data.fresh = false;
            // The end of a job says everything about its results.
            if data.running.is_some()
                && let Some(journal) = &mut self.journaling.journal
            {
                note_results(id, data, journal);
            }
            for subscriber in &data.subscribers {
                self.clients
                    .news(*subscriber, data.written_at, Urgency::Now);
            }
        }
        if let Some(journal) = &mut self.journaling.journal {
            journal.flush();
        }
    }

    /// The journal's thread has news.
    pub(crate) fn journal_says(&mut self, said: Written, now: Micros) {
        match said {
            Written::UpTo(number) => {
                stop_at("written");
                self.journaling.failure = None;
                let told = self.agreed(number, now);
                self.clients.written(told);
            }
            Written::Failed(cause) => {
                self.journaling.failure = Some(cause);
                self.refuse_unwritten(now);
            }
        }
    }

    /// Jobs whose clients wait for `accepted`, while nothing can be written, or nobody else has it: they never were.
    pub(crate) fn refuse_unwritten(&mut self, now: Micros) {
        let refused = self.journal_refuses();
        let Some(fault) = refused.or_else(|| self.replication_refuses()) else {
            return;
        };
        let written = self.clients.written_to();
        for (subscriber, client, tag, id) in self.clients.unaccepted() {
            let unwritten = |data: &&mut JobData| data.accepted_at > written;
            let Some(data) = self.jobs.get_mut(&id).filter(unwritten) else {
                continue;
            };
            data.subscribers.retain(|known| *known != subscriber);
            self.clients.unsubscribe(subscriber);
            self.refuse(client, tag, &fault);
            let (job, fault) = (id, Box::new(fault.clone()));
            self.step(Event::Failed { job, fault }, now);
            self.step(Event::Forget { job }, now);
        }
    }
}

/// How far each result is that has grown in this turn.
fn note_results(id: JobId, data: &mut JobData, journal: &mut Journal) {
    for (port, log) in data.results.iter_mut().enumerate() {
        if let Some((frames, digest)) = log.note() {
            let delivered = Delivered {
                job: id.0,
                port: port as u32,
                frames,
                digest,
            };
            data.written_at = journal.append(Kind::Delivered, &delivered);
        }
    }
}

fn wire_input(name: &str, input: &InputData) -> Option<v1::Input> {
    let frames: Vec<Bytes> = match input {
        InputData::Plain(payload) => vec![payload.clone()],
        InputData::Stream(payloads) => payloads.clone(),
        InputData::Closed => return None,
    };
    Some(v1::Input {
        name: name.to_owned(),
        frames,
    })
}

fn unwritable(journal: &Journal, cause: &str) -> Fault {
    let message = format!(
        "the scheduler's journal in {} cannot be written, so no job can be accepted: {cause}",
        journal.folder.display()
    );
    exhausted(
        &message,
        "make room on that disk, or mend its rights; the scheduler tries again by itself",
    )
}

fn exhausted(message: &str, cure: &str) -> Fault {
    let mut fault = Fault::new(Code::ResourceExhausted, message, cure);
    fault.retry_after_ms = RETRY_AFTER_MS;
    fault
}
