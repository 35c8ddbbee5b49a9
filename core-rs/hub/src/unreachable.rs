//! A worker that another one cannot reach.
//!
//! Mostly it is dying, which its own link to the scheduler shows a moment later, and then its nodes run again elsewhere.
//! So nothing fails on such a report until the worker has answered: it lives, the frames between the two have no other
//! way, and jobs that need it fail now, naming both, instead of at their deadline.

use omniflow_control::{Attempt, Code, Event, Fault, Job, Micros, NodeState};
use omniflow_flow::{Destination, EdgeSpec, Home, NodeId, Origin};
use omniflow_placement::WorkerId;
use omniflow_wire::v1;
use rustc_hash::FxHashMap;

use crate::flows::link_frame;
use crate::state::State;

/// Nonces from here on ask a suspect; those below are heartbeats.
pub(crate) const FIRST_QUESTION: u64 = 1 << 63;

/// Somebody could not reach somebody.
struct Suspicion {
    from: WorkerId,
    to: WorkerId,
    cause: String,
}

/// Suspicions by the nonce of the question that was sent to the suspect.
#[derive(Default)]
pub(crate) struct Suspicions {
    asked: u64,
    open: FxHashMap<u64, Suspicion>,
}

impl Suspicions {
    /// The worker is dead, so that nobody wonders any more.
    pub(crate) fn forget(&mut self, worker: WorkerId) {
        self.open
            .retain(|_, suspicion| suspicion.to != worker && suspicion.from != worker);
    }
}

impl State {
    pub(crate) fn peer_unreachable(&mut self, from: WorkerId, report: v1::PeerUnreachable) {
        let to = WorkerId(report.worker);
        if self.workers.line(to).is_none() {
            return;
        }
        let nonce = FIRST_QUESTION | self.suspicions.asked;
        self.suspicions.asked += 1;
        let cause = report.cause;
        self.suspicions
            .open
            .insert(nonce, Suspicion { from, to, cause });
        let question = link_frame(&v1::Ping { nonce }.into(), 0);
        self.workers.send(to, question);
    }

    pub(crate) fn suspect_answered(&mut self, nonce: u64, now: Micros) {
        let Some(Suspicion { from, to, cause }) = self.suspicions.open.remove(&nonce) else {
            return;
        };
        let (Some(sender), Some(receiver)) = (self.workers.line(from), self.workers.line(to))
        else {
            return;
        };
        let message = format!(
            "worker {:?} cannot reach worker {:?}, and both live",
            sender.name, receiver.name
        );
        let cure = "open the network between their hosts, or give the worker an address that others can reach";
        let fault = Fault::new(Code::Unavailable, message, cure);
        let fault = fault.at("", &receiver.name.clone()).because(cause);
        let cut = self
            .control
            .jobs()
            .filter(|job| !job.outcome.is_ended() && needs_path(self, job, from, to));
        for job in cut.map(|job| job.id).collect::<Vec<_>>() {
            self.step(
                Event::Failed {
                    job,
                    fault: Box::new(fault.clone()),
                },
                now,
            );
        }
    }
}

/// Whether a node on `from` feeds one on `to` that has not ended, itself or by control nodes at their sides.
fn needs_path(state: &State, job: &Job, from: WorkerId, to: WorkerId) -> bool {
    let Some(graph) = state.control.graph(job.flow) else {
        return false;
    };
    let on = |node: NodeId, worker, wanted: fn(&Attempt) -> bool| match graph.home(node) {
        Home::Scheduler => false,
        Home::Node(home) => job
            .attempts
            .iter()
            .any(|attempt| attempt.node == home.0 && attempt.worker == worker && wanted(attempt)),
    };
    let feeds = |edge: &EdgeSpec| match (edge.from, edge.to) {
        (Origin::Node { node: producer, .. }, Destination::Node { node: consumer, .. }) => {
            on(producer, from, |attempt| attempt.state < NodeState::Lost)
                && on(consumer, to, |attempt| !attempt.is_over())
        }
        _ => false,
    };
    graph.spec().edges.iter().any(feeds)
}
