//! A new life of the scheduler: the journal's jobs are put back, and go on once every worker that the last life knew has
//! reported or is dead (rule 14).
//!
//! What workers still hold of them goes on there (`awaiting`); the rest runs again, from the journaled inputs and under higher
//! epochs. Frames that a client may have are not contradicted: their digest is compared before it is given anything more.

use std::sync::Arc;

use bytes::Bytes;
use omniflow_control::{
    Attempt, Code, Event, Fault, JobId, Micros, NOBODY, NodeState, Restored, RestoredEnd,
    Submission,
};
use omniflow_flow::{Graph, Key};
use omniflow_placement::WorkerId;
use omniflow_wire::v1;

use crate::convert;
use crate::flows::NewFlow;
use crate::job_data::JobData;
use crate::journal::bodies::Ended;
use crate::journal::{Image, JobImage};
use crate::state::State;
use crate::submit;
use crate::traffic;

/// Epochs of one life; a node has far fewer attempts.
const EPOCHS: u32 = 1_000;

impl State {
    /// Puts back everything that the journal says. Nothing else has happened yet.
    pub(crate) fn restore(&mut self, image: Image, now: Micros) {
        for flow in &image.flows {
            // It was valid when it was registered.
            if let Ok(new) = NewFlow::parse(flow) {
                self.put_flow(new);
            }
        }
        let (mut ended, living): (Vec<_>, Vec<_>) = image
            .jobs
            .into_values()
            .partition(|job| job.ended.is_some());
        ended.sort_by_key(|job| job.ended.as_ref().map(|ended| ended.at_us));
        for job in ended.into_iter().chain(living) {
            self.restore_job(job, now);
        }
        self.wait_for(image.workers, now);
    }

    fn restore_job(&mut self, image: JobImage, now: Micros) {
        let JobImage {
            spec,
            delivered,
            ended,
        } = image;
        let id = JobId(spec.job);
        let Some(entry) = self.flows.find(&spec.flow, &spec.flow_version) else {
            return;
        };
        let (flow, graph, feeds) = (entry.id, entry.graph.clone(), entry.feeds.clone());
        let end = ended
            .as_ref()
            .map(|ended| restored_end(ended, spec.arrived_us, &graph));
        let data = match ended {
            Some(ended) => JobData::restored(graph, feeds, ended.results, spec.fingerprint),
            None => {
                let mut request = v1::SubmitRequest {
                    flow: spec.flow,
                    flow_version: spec.flow_version,
                    inputs: spec.inputs,
                    parameters: spec.parameters,
                    ..Default::default()
                };
                let prepared =
                    submit::prepare(&mut request, &self.flows, &self.workers, usize::MAX);
                let Ok(prepared) = prepared else {
                    return;
                };
                let mut data = JobData::new(
                    graph,
                    feeds,
                    prepared.inputs,
                    prepared.parameters,
                    spec.fingerprint,
                );
                for (port, (frames, digest)) in delivered {
                    if let Some(log) = data.results.get_mut(port as usize) {
                        log.expect(frames, digest);
                    }
                }
                data
            }
        };
        self.budgets.held_inputs += data.held_bytes();
        self.budgets.kept_results += data.result_bytes();
        if data.running.is_some() {
            self.awaited.jobs.insert(id);
        }
        self.jobs.insert(id, data);
        let restored = Restored {
            job: id,
            submission: Submission {
                ticket: 0,
                client: NOBODY,
                flow,
                tenant: spec.tenant.into(),
                priority: spec.priority,
                deadline_ms: 0,
                idempotency_key: spec.idempotency_key.into(),
                detach: spec.detach,
            },
            order: spec.order,
            arrival: spec.arrival,
            arrived: Micros(spec.arrived_us),
            deadline: Micros(spec.deadline_us),
            first_epoch: self
                .journaling
                .life
                .saturating_sub(1)
                .saturating_mul(EPOCHS),
            end,
        };
        self.step(Event::Restore(Box::new(restored)), now);
    }
}

fn restored_end(ended: &Ended, arrived_us: u64, graph: &Graph) -> RestoredEnd {
    let report = ended.report.clone().unwrap_or_default();
    let since = |us: u64| (us > 0).then(|| Micros(arrived_us + us));
    RestoredEnd {
        at: Micros(ended.at_us),
        fault: ended.error.clone().map(convert::fault),
        attempts: report
            .activations
            .into_iter()
            .map(|report| attempt(report, graph))
            .collect(),
        first_frame: since(report.first_frame_us),
        last_result: since(ended.last_result_us),
    }
}

fn attempt(report: v1::ActivationReport, graph: &Graph) -> Attempt {
    let node = graph
        .nodes()
        .iter()
        .position(|node| node.name == report.node);
    let node = node.unwrap_or_default() as u32;
    let traffic = traffic::restored(&report, graph, node);
    let name: Arc<str> = report.worker.into();
    Attempt {
        node,
        key: Key::new(&report.key),
        worker: WorkerId(0),
        worker_name: name,
        epoch: report.attempt,
        state: convert::node_state(report.state).unwrap_or(NodeState::Bound),
        bound_us: 0,
        queued_us: report.queued_us,
        started_us: report.started_us,
        first_frame_us: report.first_frame_us,
        ended_us: report.ended_us,
        features: report.features.into_iter().collect(),
        traffic,
    }
}

/// A restored job says something else than what a client has.
pub(crate) fn contradicted(frames: u64) -> Fault {
    Fault::new(
        Code::NotReplayable,
        format!(
            "the job ran again after the scheduler was restarted, and its first {frames} result frames are not those that \
             had been delivered"
        ),
        "submit the job again; methods that give the same frames for the same inputs and seed can be replayed",
    )
}

/// What a digest is made of: the frames in their order.
pub(crate) fn chain(digest: u64, frame: &Bytes) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&digest.to_le_bytes());
    hasher.update(frame);
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}
