//! What happens when a worker dies: which nodes run again, and where (rules 11 to 13, first form).
//!
//! Lost are the dead worker's nodes that have not ended, and those that have, but whose frames somebody still needs: a
//! worker retains what it sent, and the dead one's retention is gone. That goes on upstream, to the job's inputs, which
//! the scheduler keeps. Consumers that live keep what was delivered to them, for a new attempt sends the same, unless it
//! comes from a node that is not deterministic: then all that may have read it runs again too, or, when some of that is
//! with the client, the job fails (rule 12).

use std::sync::Arc;

use omniflow_placement::WorkerId;

use crate::effect::Effect;
use crate::event::NodeState;
use crate::fault::Fault;
use crate::fleet::Fleet;
use crate::ids::{JobId, Micros};
use crate::job::{Job, Outcome};
use crate::plan::{Consumer, Plan};
use crate::table::Control;

impl Control {
    pub(crate) fn worker_down(
        &mut self,
        worker: WorkerId,
        cause: &str,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        if self.fleet.remove(worker).is_none() {
            return;
        }
        self.ledger.withdraw(worker);
        let touched = self.jobs.values().filter(|job| {
            !job.outcome.is_ended() && (0..job.slots.len()).any(|node| job.runs_on(node, worker))
        });
        let mut touched: Vec<JobId> = touched.map(|job| job.id).collect();
        // In order of arrival, so that the same history gives the same binds.
        touched.sort_unstable();
        for id in touched {
            self.recover(id, cause, now, effects);
        }
        self.ledger.leave(worker);
        self.policy.left(worker);
    }

    fn recover(&mut self, id: JobId, cause: &str, now: Micros, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        if matches!(job.outcome, Outcome::Settling) {
            self.succeed(id, now, effects);
            return;
        }
        let plan = &self.plans[job.flow.0 as usize];
        let (lost, again) = match to_run_again(job, plan, &self.fleet) {
            Ok(found) => found,
            Err(node) => {
                let worker = job.current(node).map_or("", |attempt| &attempt.worker_name);
                let fault = Fault::unrepeatable(plan.name(node), worker, cause);
                self.fail(id, Arc::new(fault), now, effects);
                return;
            }
        };
        let spent = lost
            .iter()
            .copied()
            .find(|node| job.tries(*node) >= self.attempts_allowed(plan, *node));
        if let Some(node) = spent {
            let worker = job.current(node).map_or("", |attempt| &attempt.worker_name);
            let fault = Fault::worker_lost(plan.name(node), worker, job.tries(node), cause);
            self.mark_lost(id, &lost, now, effects);
            self.fail(id, Arc::new(fault), now, effects);
        } else if !again.is_empty() {
            self.mark_lost(id, &again, now, effects);
            self.stop_waiting(id);
            self.place(id, now, effects);
        }
    }

    fn attempts_allowed(&self, plan: &Plan, node: usize) -> u32 {
        match plan.nodes[node].max_attempts {
            0 => self.limits.max_attempts.max(1),
            own => own,
        }
    }

    /// Takes the nodes' places away. An attempt that had ended well stays so in the report.
    fn mark_lost(&mut self, id: JobId, lost: &[usize], now: Micros, effects: &mut Vec<Effect>) {
        for node in lost {
            let Some(job) = self.jobs.get_mut(&id) else {
                return;
            };
            let (role, arrived) = (
                self.plans[job.flow.0 as usize].nodes[*node].role,
                job.arrived,
            );
            let index = job.slots[*node].attempt.take();
            let attempt = index.and_then(|index| job.attempts.get_mut(index as usize));
            let Some(attempt) = attempt.filter(|attempt| !attempt.is_over()) else {
                continue;
            };
            attempt.lose(now, arrived);
            let worker = attempt.worker;
            let attempt = index.unwrap_or_default() as usize;
            effects.push(Effect::Progress {
                job: id,
                attempt,
                state: NodeState::Lost,
            });
            self.unload(role, worker);
        }
    }
}

/// Nodes that are lost, and all that run again for them, in flow order. The error names a node that cannot: the client has
/// something of it, and a new attempt would say something else.
fn to_run_again(job: &Job, plan: &Plan, fleet: &Fleet) -> Result<(Vec<usize>, Vec<usize>), usize> {
    let mut again = vec![false; plan.nodes.len()];
    add_lost(job, plan, fleet, &mut again);
    let placed = |again: &[bool]| {
        let nodes = (0..again.len()).filter(|node| again[*node] && job.current(*node).is_some());
        nodes.collect::<Vec<usize>>()
    };
    let lost = placed(&again);
    // A reader that runs again may need producers that had ended and are gone, and those may have other readers.
    while add_readers(job, plan, &mut again)? {
        add_lost(job, plan, fleet, &mut again);
    }
    Ok((lost, placed(&again)))
}

/// Adds what died and is needed. Consumers are looked at before their producers.
fn add_lost(job: &Job, plan: &Plan, fleet: &Fleet, again: &mut [bool]) {
    for node in plan.graph.order().iter().rev() {
        let node = node.index();
        let Some(attempt) = job.current(node) else {
            // Waits for a place already: its producers are looked at as if it were lost now.
            again[node] = true;
            continue;
        };
        let dead = !fleet.is_alive(attempt.worker);
        again[node] |=
            dead && (attempt.state < NodeState::Done || is_needed(job, plan, node, again));
    }
}

/// Adds what may have read frames that a new attempt will not send again. Whether that was anything.
fn add_readers(job: &Job, plan: &Plan, again: &mut [bool]) -> Result<bool, usize> {
    let mut added = false;
    // What a node that runs again sends is new when it draws it anew, or reads what is new.
    let mut reads_new = vec![false; again.len()];
    for node in plan.graph.order() {
        let node = node.index();
        let planned = &plan.nodes[node];
        let sends_new = again[node] && (reads_new[node] || !planned.deterministic);
        if !sends_new || !job.may_have_sent(node) {
            continue;
        }
        if planned.results.iter().any(|port| job.has_shown(*port)) {
            return Err(node);
        }
        for consumer in &planned.consumers {
            added |= !std::mem::replace(&mut again[consumer.node.index()], true);
            reads_new[consumer.node.index()] = true;
        }
    }
    Ok(added)
}

/// Whether somebody still needs frames of an ended node whose retention is gone.
fn is_needed(job: &Job, plan: &Plan, node: usize, again: &[bool]) -> bool {
    let planned = &plan.nodes[node];
    planned
        .results
        .iter()
        .any(|port| job.open_results.get(*port as usize) == Some(&true))
        || planned
            .consumers
            .iter()
            .any(|consumer| again[consumer.node.index()] || may_lack_frames(job, *consumer))
}

/// A consumer that runs elsewhere has everything for certain only once it has ended or, of a plain input, is queued: a
/// producer's report may have overtaken its frames.
fn may_lack_frames(job: &Job, consumer: Consumer) -> bool {
    match job.state(consumer.node.index()) {
        None | Some(NodeState::Bound) => true,
        Some(state) => consumer.stream && state < NodeState::Done,
    }
}

impl Job {
    /// Whether any attempt of the node has said that it sent something.
    fn may_have_sent(&self, node: usize) -> bool {
        self.attempts.iter().any(|attempt| {
            attempt.node as usize == node
                && (attempt.first_frame_us > 0 || attempt.state == NodeState::Done)
        })
    }

    /// Whether frames of the result may be with the client. (Results that are not over are not told apart.)
    fn has_shown(&self, port: u32) -> bool {
        self.open_results.get(port as usize) == Some(&false) || self.first_frame.is_some()
    }

    fn runs_on(&self, node: usize, worker: WorkerId) -> bool {
        self.current(node)
            .is_some_and(|attempt| attempt.worker == worker)
    }
}
