//! What operators and clients ask about.

use omniflow_control::{Code, Job, JobId, Micros, Outcome};
use omniflow_wire::v1;
use omniflow_wire::v1::job_status::State as JobState;
use omniflow_wire::v1::worker_status::State as WorkerState;

use crate::convert;
use crate::state::State;
use crate::workers::Seat;

/// Jobs in a list when the request doesn't say.
const LIST_LIMIT: usize = 100;

impl State {
    pub(crate) fn cluster_status(&self, now: Micros) -> v1::ClusterStatus {
        let counters = self.control.counters();
        v1::ClusterStatus {
            cluster: self.config.cluster.clone(),
            term: self.config.term,
            uptime_ms: now.since(self.born) / 1_000,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            jobs_running: counters.running as u32,
            jobs_waiting: counters.waiting as u32,
            jobs_succeeded: counters.succeeded,
            jobs_failed: counters.failed,
            // Only the edge talks to the registry.
            registry_reachable: true,
            workers: self
                .workers
                .seats
                .values()
                .map(|seat| self.worker_status(seat, now))
                .collect(),
            policy: self.control.policy_name().to_owned(),
            queue_limit: self.config.queue_limit as u32,
            standby: self.standby_status(),
        }
    }

    fn worker_status(&self, seat: &Seat, now: Micros) -> v1::WorkerStatus {
        let view = seat.worker.and_then(|worker| self.control.worker(worker));
        let state = match (seat.worker, seat.draining) {
            (Some(_), true) => WorkerState::Draining,
            (Some(_), false) => WorkerState::Ready,
            (None, _) if seat.was_up => WorkerState::Lost,
            (None, _) => WorkerState::Connecting,
        };
        v1::WorkerStatus {
            info: Some(seat.info.clone()),
            state: state.into(),
            outstanding: seat
                .worker
                .map_or(0, |worker| self.control.load(worker).outstanding),
            completed: seat.completed + view.map_or(0, |view| view.completed),
            connected_ms: if seat.worker.is_some() {
                now.since(seat.connected) / 1_000
            } else {
                0
            },
        }
    }

    pub(crate) fn job_status(&self, name: &str, now: Micros) -> Option<v1::JobStatus> {
        let job = self.control.job(convert::job_id(name)?)?;
        let graph = self.control.graph(job.flow)?;
        let mut status = self.brief_status(job, now);
        status.report = Some(convert::report(job, graph));
        Some(status)
    }

    /// Newest first, without reports.
    pub(crate) fn list_jobs(&self, request: &v1::ListRequest, now: Micros) -> v1::ListResponse {
        let wanted = self.control.jobs().filter(|job| {
            (request.ended || !job.outcome.is_ended())
                && (request.tenant.is_empty() || *job.tenant == *request.tenant)
        });
        let mut wanted: Vec<JobId> = wanted.map(|job| job.id).collect();
        wanted.sort_unstable_by(|a, b| b.cmp(a));
        wanted.truncate(if request.limit == 0 {
            LIST_LIMIT
        } else {
            request.limit as usize
        });
        let jobs = wanted.into_iter().filter_map(|id| self.control.job(id));
        v1::ListResponse {
            jobs: jobs.map(|job| self.brief_status(job, now)).collect(),
        }
    }

    fn brief_status(&self, job: &Job, now: Micros) -> v1::JobStatus {
        let flow = self.flows.get(job.flow);
        let (state, fault) = match &job.outcome {
            Outcome::Waiting(_) => (JobState::Waiting, None),
            Outcome::Running | Outcome::Settling => (JobState::Running, None),
            Outcome::Succeeded => (JobState::Succeeded, None),
            Outcome::Failed(fault) if fault.code == Code::Cancelled => {
                (JobState::Cancelled, Some(fault))
            }
            Outcome::Failed(fault) => (JobState::Failed, Some(fault)),
        };
        v1::JobStatus {
            job: convert::job_name(job.id),
            flow: flow.map(|flow| flow.flow.name.clone()).unwrap_or_default(),
            flow_version: flow
                .map(|flow| flow.flow.version.clone())
                .unwrap_or_default(),
            tenant: job.tenant.to_string(),
            state: state.into(),
            priority: job.priority,
            age_ms: now.since(job.arrived) / 1_000,
            remaining_ms: if job.outcome.is_ended() {
                0
            } else {
                job.remaining_ms(now)
            },
            error: fault.map(|fault| convert::error(fault)),
            report: None,
        }
    }
}
