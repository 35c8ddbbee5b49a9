//! Why a job was not done in time: which node, loop or result it hung at.

use omniflow_flow::{Key, NodeId, NodeKind, ScopeId};

use crate::event::NodeState;
use crate::fault::Fault;
use crate::ids::Micros;
use crate::job::{Job, Outcome};
use crate::plan::Plan;
use crate::report::Attempt;
use crate::slot::{Slot, Stand};
use crate::table::Control;

/// A loop of which nothing is under way, though it has begun and not ended.
struct BetweenRounds<'a> {
    /// The loop's node.
    cycle: usize,
    /// Rounds that are over for the node that is the farthest behind.
    rounds: u32,
    /// That node's bind.
    at: (usize, &'a Key, &'a Slot),
}

impl Control {
    /// Why the job was not done in time: no worker for a role, or the node where it hung.
    pub(crate) fn expired(&self, job: &Job, now: Micros) -> Fault {
        let plan = &self.plans[job.flow.0 as usize];
        let (waited_ms, allowed_ms) = (
            now.since(job.arrived) / 1_000,
            job.deadline.since(job.arrived) / 1_000,
        );
        if let Some(worker) = job.letting_go.first() {
            let view = self.fleet.get(*worker);
            let name = view.map_or("", |view| &view.name);
            let stage = format!(
                "worker {name:?} has not let go of the job's run before it was started over"
            );
            return Fault::deadline_exceeded(allowed_ms, "", name, &stage);
        }
        if let Outcome::Waiting(role) = job.outcome {
            let of_role = |(node, _): &&(u32, Key)| plan.nodes[*node as usize].role == Some(role);
            let node = job.pending.iter().find(of_role);
            let name = node.map_or("?", |(node, _)| plan.name(*node as usize));
            return Fault::no_worker(self.fleet.role_name(role), name, waited_ms);
        }
        let Some((node, key, slot)) = job.held_up_at() else {
            let (name, stage) = job.nothing_left(plan);
            return Fault::deadline_exceeded(allowed_ms, &name, "", &stage);
        };
        if let Some(between) = job.between_rounds(plan) {
            let (_, _, slot) = between.at;
            let (name, worker) = (plan.name(between.cycle), self.holder(job, slot));
            let stage = between.stage(job, plan, &worker);
            return Fault::deadline_exceeded(allowed_ms, name, &worker, &stage);
        }
        let (name, worker) = (plan.name(node), self.holder(job, slot));
        let what = match key.is_root() {
            true => format!("node {name:?}"),
            false => format!("node {name:?} of key {key}"),
        };
        let listed = slot.entry().and_then(|entry| job.attempts.get(entry));
        let for_ms = |since: fn(&Attempt) -> u64| {
            let elapsed_us = now.since(job.arrived);
            listed.map_or(String::new(), |attempt| {
                let ms = elapsed_us.saturating_sub(since(attempt)) / 1_000;
                format!(" for {ms} ms")
            })
        };
        let stage = match slot.state {
            NodeState::Bound => format!("{what} on worker {worker:?} still waits for its inputs"),
            NodeState::Queued => {
                let waited = for_ms(|attempt| attempt.queued_us);
                format!("{what} has waited in the queue of worker {worker:?}{waited}")
            }
            _ => {
                let run = for_ms(|attempt| attempt.started_us);
                format!("{what} has been running on worker {worker:?}{run}")
            }
        };
        Fault::deadline_exceeded(allowed_ms, name, &worker, &stage)
    }
}

impl BetweenRounds<'_> {
    fn stage(&self, job: &Job, plan: &Plan, worker: &str) -> String {
        let (node, key, _) = self.at;
        let known = if job.is_full() { "at least " } else { "" };
        let of_key = match key.is_root() {
            true => String::new(),
            false => format!(" of key {key}"),
        };
        let (cycle, next) = (plan.name(self.cycle), self.rounds + 1);
        format!(
            "loop {cycle:?}{} has not ended: {known}{} of its rounds are over, and node {:?}{of_key} on worker {worker:?} waits for its inputs of round {next}",
            plan.line(self.cycle),
            self.rounds,
            plan.name(node),
        )
    }
}

impl Job {
    /// The bind that a failure is blamed on: the farthest along of those that have not ended, upstream first.
    fn held_up_at(&self) -> Option<(usize, &Key, &Slot)> {
        let open = self
            .slots
            .iter()
            .filter(|(_, _, slot)| slot.stand == Stand::Held);
        open.reduce(|best, next| {
            if stage(next.2.state) > stage(best.2.state) {
                next
            } else {
                best
            }
        })
    }

    /// The loop that holds the job up, when nothing else of the job is under way.
    fn between_rounds<'a>(&'a self, plan: &Plan) -> Option<BetweenRounds<'a>> {
        let held = self
            .slots
            .iter()
            .filter(|(_, _, slot)| slot.stand == Stand::Held);
        let mut behind: Option<BetweenRounds<'a>> = None;
        let mut began = false;
        for (node, key, slot) in held {
            if slot.state != NodeState::Bound {
                return None;
            }
            let Some(scope) = plan.innermost_loop(node) else {
                continue;
            };
            let Some(cycle) = plan.loop_node(scope) else {
                continue;
            };
            let rounds = self.rounds_over(plan, scope, node, key);
            began |= rounds > 0;
            if behind.as_ref().is_none_or(|known| known.rounds > rounds) {
                let at = (node, key, slot);
                behind = Some(BetweenRounds { cycle, rounds, at });
            }
        }
        behind.filter(|_| began)
    }

    /// Of the innermost loop around a bind: how many rounds are over there, as far as they are listed.
    fn rounds_over(&self, plan: &Plan, scope: u32, node: usize, bind: &Key) -> u32 {
        // The index of the round is the one that the loop's scope has added.
        let place = plan.scopes[scope as usize].around.len().saturating_sub(1);
        let ended = self.attempts.iter().filter(|attempt| {
            attempt.node as usize == node
                && attempt.is_over()
                && plan.bind_key(node, &attempt.key) == *bind
        });
        let rounds = ended.filter_map(|attempt| attempt.key.path().get(place));
        rounds.max().map_or(0, |round| round + 1)
    }

    /// No node has anything to do: what is missing is with a loop, or a result that nobody sent.
    fn nothing_left(&self, plan: &Plan) -> (String, String) {
        let open_loop = (1..plan.scopes.len() as u32).find_map(|scope| {
            let planned = &plan.scopes[scope as usize];
            let is_open = planned.is_loop && !planned.turns && !self.has_ended(scope, &Key::ROOT);
            plan.loop_node(scope).filter(|_| is_open)
        });
        if let Some(cycle) = open_loop {
            let name = plan.name(cycle);
            let line = plan.line(cycle);
            let stage = format!(
                "loop {name:?}{line} has not ended, and none of its nodes has anything to do"
            );
            return (name.to_owned(), stage);
        }
        let open = self.open_results.iter().position(|open| *open);
        let port = open.and_then(|port| plan.graph.results().get(port));
        let name = port.map_or("", |port| &port.name);
        (
            String::new(),
            format!("every node has ended, but result {name:?} is missing"),
        )
    }
}

impl Plan {
    fn innermost_loop(&self, node: usize) -> Option<u32> {
        let around = self.nodes[node].around.iter().rev();
        around
            .copied()
            .find(|scope| self.scopes[*scope as usize].is_loop)
    }

    /// The node whose rounds the scope is.
    fn loop_node(&self, scope: u32) -> Option<usize> {
        let of_scope = |kind: &NodeKind| matches!(kind, NodeKind::Loop { scope: of, .. } if *of == ScopeId(scope));
        self.graph
            .nodes()
            .iter()
            .position(|node| of_scope(&node.kind))
    }

    /// " (file:line)" of a node, where it is known.
    fn line(&self, node: usize) -> String {
        let spec = self.graph.node(NodeId(node as u32));
        let source = spec.and_then(|spec| spec.source.as_ref());
        source.map_or_else(String::new, |at| format!(" ({}:{})", at.file, at.line))
    }
}

/// A stream's consumer starts while its producer runs, so what has sent a frame is no farther than what has started.
fn stage(state: NodeState) -> NodeState {
    state.min(NodeState::Started)
}
