//! Cores, the wires between them, a scheduler and roles in one thread. One step is one thing that can happen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use omniflow_flow::{Graph, NodeId, NodeSpec, PortIx};
use omniflow_wire::{LinkMessage, v1};

use super::WORKERS;
use super::scheduler::Scheduler;
use super::support::mix;
use super::support::role::{self, Carried};
use super::wire::Wire;
use super::words::{decode, encode};
use crate::activation::{Activation, InputKind};
use crate::core::credits::Grant;
use crate::core::{Core, Outputs, Target};
use crate::flow_entry::FlowEntry;
use crate::ready::ReadyQueue;

struct Running {
    worker: usize,
    activation: Arc<Activation>,
    inputs: Vec<(PortIx, Carried)>,
    /// Streams that have not ended: index into `inputs`, and the parameter.
    open: Vec<(usize, String)>,
    /// What is still to be sent; none before all was read.
    outputs: Option<Vec<(PortIx, Bytes)>>,
}

/// What each output of a node carries, given what its inputs carried.
pub(super) type Role = fn(&NodeSpec, NodeId, &[(PortIx, Carried)]) -> Vec<Carried>;

pub(super) struct World {
    pub(super) cores: Vec<Core>,
    /// By (from, to); the scheduler comes after the workers.
    wires: BTreeMap<(usize, usize), Wire>,
    running: Vec<Running>,
    pub(super) scheduler: Scheduler,
    now: Instant,
    roles: Vec<String>,
    /// What roles do.
    pub(super) role: Role,
    /// Which activations read their streams.
    pub(super) reads: fn(&Activation) -> bool,
    /// Whether links break, messages come twice, and anything may happen next; else what is on its way comes first.
    pub(super) wild: bool,
    /// The most that one worker has kept.
    pub(super) most_kept: u64,
    steps: u64,
}

pub(super) const SCHEDULER: usize = WORKERS;
/// A run that takes more goes round in circles.
const MOST_STEPS: u64 = 1_000_000;

impl World {
    pub(super) fn new(graph: Arc<Graph>, seed: u64) -> Self {
        let roles: Vec<String> = graph.nodes().iter().map(|node| node.name.clone()).collect();
        let core = |worker: usize| {
            let queue = |role: &String| (role.clone(), Arc::new(ReadyQueue::default()));
            let queues = roles.iter().map(queue).collect();
            Core::new(&format!("w{worker}"), "first", queues, 1 << 26)
        };
        let mut world = Self {
            cores: (0..WORKERS).map(core).collect(),
            wires: BTreeMap::new(),
            running: Vec::new(),
            scheduler: Scheduler::new(graph.clone(), seed),
            now: Instant::now(),
            roles,
            role: role::outputs,
            reads: is_patient,
            wild: true,
            most_kept: 0,
            steps: 0,
        };
        let peers = (0..WORKERS).map(|worker| v1::Peer {
            id: worker as u32 + 1,
            name: format!("w{worker}"),
            incarnation: "first".into(),
            ..Default::default()
        });
        let peers = v1::Peers {
            term: 1,
            peers: peers.collect(),
        };
        for worker in 0..WORKERS {
            let entry = Arc::new(FlowEntry::of_graph(graph.clone()));
            world.cores[worker].flows.insert(1, Ok(entry));
            world.act(worker, |core, now, out| {
                core.scheduler_connected(1, now, out)
                    .expect("the first term");
                core.flows
                    .insert(1, Ok(Arc::new(FlowEntry::of_graph(graph.clone()))));
                core.from_scheduler(peers.clone().into(), now, out)
                    .expect("expected");
            });
        }
        world
    }

    fn act<T>(
        &mut self,
        worker: usize,
        step: impl FnOnce(&mut Core, Instant, &mut Outputs) -> T,
    ) -> T {
        let mut out = Outputs::default();
        let core = &mut self.cores[worker];
        let result = step(core, self.now, &mut out);
        for peer in out.dial {
            let to = index_of(&core.peer(peer).0);
            self.wires.entry((worker, to)).or_default().peer = Some(peer);
        }
        for (target, message) in out.sends {
            let to = match target {
                Target::Scheduler => SCHEDULER,
                Target::Peer(peer) => index_of(&core.peer(peer).0),
            };
            self.wires.entry((worker, to)).or_default().push(message);
        }
        for message in self.cores[worker].take_reports(self.now) {
            let wire = self.wires.entry((worker, SCHEDULER)).or_default();
            wire.push(message);
        }
        result
    }

    // --- steps ----------------------------------------------------------------------------------------------------------

    pub(super) fn choose(&mut self, among: usize) -> usize {
        self.scheduler.choose(among)
    }

    /// One random thing that can happen. False: nothing can, or the job has failed.
    pub(super) fn step(&mut self) -> bool {
        for (worker, message) in std::mem::take(&mut self.scheduler.out) {
            let wire = self.wires.entry((SCHEDULER, worker)).or_default();
            wire.up = true;
            wire.push(message);
        }
        if self.scheduler.seen.failed.is_some() {
            return false;
        }
        if self.wild && self.choose(20) == 0 {
            self.cut();
        }
        self.steps += 1;
        assert!(self.steps < MOST_STEPS, "the run does not end");
        if self.steps.is_multiple_of(512) {
            let kept = (0..WORKERS).map(|worker| self.stat(worker, "kept_items"));
            self.most_kept = self.most_kept.max(kept.max().unwrap_or_default());
        }
        let down = self
            .wires
            .iter()
            .filter(|(_, wire)| !wire.up && wire.peer.is_some());
        let down: Vec<(usize, usize)> = down.map(|(at, _)| *at).collect();
        let full = self.wires.iter().filter(|(_, wire)| !wire.is_empty());
        let full: Vec<(usize, usize)> = full.map(|(at, _)| *at).collect();
        let queued = (0..WORKERS).flat_map(|worker| {
            let roles = self.roles.iter().map(move |role| (worker, role.clone()));
            roles.filter(|(worker, role)| {
                self.cores[*worker]
                    .queue(role)
                    .is_some_and(|queue| queue.len() > 0)
            })
        });
        let queued: Vec<(usize, String)> = queued.collect();
        self.running
            .retain(|running| !running.activation.cancelled());
        let asked = self.scheduler.asked.len();
        let others = down.len() + full.len() + queued.len() + asked;
        if others == 0 {
            // Nothing comes any more: whoever still reads must have it all by now.
            return (0..self.running.len()).any(|one| self.run_one(one));
        }
        let count = others + self.running.len();
        let mut chosen = match self.wild {
            true => self.choose(count),
            // The newest of those that run, once nothing else is left to do.
            false if others - asked == 0 => count - 1,
            false => 0,
        };
        if chosen < down.len() {
            self.connect(down[chosen]);
            return true;
        }
        chosen -= down.len();
        if chosen < full.len() {
            self.deliver(full[chosen]);
            return true;
        }
        chosen -= full.len();
        if chosen < queued.len() {
            let (worker, role) = &queued[chosen];
            self.take(*worker, role);
            return true;
        }
        chosen -= queued.len();
        if chosen < self.running.len() {
            self.run_one(chosen);
        } else {
            self.scheduler.bind_asked();
        }
        true
    }

    pub(super) fn run(&mut self) {
        while self.step() {}
    }

    /// All that is on its way comes, and whoever can begin does; nobody gets on.
    pub(super) fn settle(&mut self) {
        self.wild = false;
        let running = std::mem::take(&mut self.running);
        let mut begun = Vec::new();
        while self.step() {
            begun.append(&mut self.running);
        }
        self.running = running;
        self.running.append(&mut begun);
    }

    /// Each activation of this role gets on by a frame, if it can. How many did.
    pub(super) fn run_role(&mut self, role: &str) -> usize {
        let of_role = |running: &Running| running.activation.role() == role;
        let count = self.running.iter().filter(|one| of_role(one)).count();
        let mut got_on = 0;
        for _ in 0..count {
            // It goes to the end of the list when it has made something.
            if let Some(first) = self.running.iter().position(of_role) {
                got_on += usize::from(self.run_one(first));
            }
        }
        got_on
    }

    /// How many frames of its first output the activation of a role has made.
    pub(super) fn made(&self, role: &str) -> u64 {
        let of_role = |running: &&Running| running.activation.role() == role;
        let one = self.running.iter().find(of_role);
        one.map_or(0, |one| one.activation.traffic.given(0).frames)
    }

    fn connect(&mut self, at: (usize, usize)) {
        let Some(wire) = self.wires.get_mut(&at) else {
            return;
        };
        if let Some(peer) = wire.peer {
            wire.up = true;
            self.act(at.0, |core, now, out| core.peer_connected(peer, now, out));
        }
    }

    fn cut(&mut self) {
        let up = self
            .wires
            .iter()
            .filter(|(_, wire)| wire.up && wire.peer.is_some());
        let up: Vec<(usize, usize)> = up.map(|(at, _)| *at).collect();
        if up.is_empty() {
            return;
        }
        let at = up[self.choose(up.len())];
        let Some(wire) = self.wires.get_mut(&at) else {
            return;
        };
        wire.clear();
        wire.up = false;
        if let Some(peer) = wire.peer
            && !self.cores[at.0].peer_lost(peer)
        {
            // Nobody dials until the core asks for it again.
            wire.peer = None;
        }
    }

    fn deliver(&mut self, (from, to): (usize, usize)) {
        let (choice, twice) = (self.choose(1 << 16), self.wild && self.choose(8) == 0);
        let wire = self.wires.get_mut(&(from, to));
        let Some(message) = wire.and_then(|wire| wire.pop(choice)) else {
            return;
        };
        if twice && matches!(message, LinkMessage::Frame(_)) {
            self.bring(from, to, message.clone());
        }
        self.bring(from, to, message);
    }

    pub(super) fn bring(&mut self, from: usize, to: usize, message: LinkMessage) {
        if to == SCHEDULER {
            return self.scheduler.hear(from, message);
        }
        self.act(to, |core, now, out| {
            let taken = match from == SCHEDULER {
                true => core.from_scheduler(message, now, out),
                false => core.from_peer(message, now, out),
            };
            taken.expect("expected");
        });
    }

    // --- roles ----------------------------------------------------------------------------------------------------------

    fn take(&mut self, worker: usize, role: &str) {
        let queue = self.cores[worker].queue(role).expect("served");
        let taken = queue.take(1, Duration::ZERO).expect("open");
        self.act(worker, |core, now, out| core.started(&taken, now, out));
        for activation in taken {
            let running = begin(&self.scheduler.graph, worker, activation, self.reads);
            self.running.push(running);
        }
    }

    /// An activation gets on by a frame. False: it waits for one.
    fn run_one(&mut self, chosen: usize) -> bool {
        if !self.running[chosen].open.is_empty() {
            let mut grants = Vec::new();
            let running = &mut self.running[chosen];
            let got_on = running.read(&mut grants) || !grants.is_empty();
            let (worker, activation) = (running.worker, Arc::clone(&running.activation));
            self.act(worker, |core, now, out| {
                core.grant(&activation, grants, now, out);
            });
            return got_on;
        }
        let mut running = self.running.swap_remove(chosen);
        let activation = Arc::clone(&running.activation);
        let graph = self.scheduler.graph.clone();
        let outputs = running.outputs.get_or_insert_with(|| {
            let spec = &graph.nodes()[activation.node.index()];
            let all = (self.role)(spec, activation.node, &running.inputs);
            let mut frames = Vec::new();
            for (port, carried) in (0..).map(PortIx).zip(all) {
                let words = match carried {
                    Carried::Nothing => Vec::new(),
                    Carried::One(word) => vec![word],
                    Carried::Many(words) => words,
                };
                let kind = &spec.outputs[port.index()].value_type.kind;
                frames.extend(words.into_iter().map(|word| (port, encode(word, kind))));
            }
            frames.reverse();
            frames
        });
        let next = outputs.pop();
        let (mut refused, mut next) = (false, next);
        let over = self.act(running.worker, |core, now, out| match &next {
            Some((port, frame)) => {
                let spec = &graph.nodes()[activation.node.index()];
                let name = &spec.outputs[port.index()].name;
                let sent = core.emit(&activation, name, vec![frame.clone()], now, out);
                refused = sent.expect("running") == 0;
                false
            }
            None => {
                core.finish(&activation, Vec::new(), Vec::new(), now, out)
                    .expect("running");
                true
            }
        });
        if refused && let Some(outputs) = &mut running.outputs {
            outputs.extend(next.take());
        }
        if !over {
            self.running.push(running);
        }
        !refused
    }

    // --- the end --------------------------------------------------------------------------------------------------------

    pub(super) fn stat(&self, worker: usize, gauge: &str) -> u64 {
        let stats = self.cores[worker].stats();
        let found = stats.iter().find(|(name, _)| *name == gauge);
        found.expect("known").1
    }
}

impl Running {
    /// False: nothing is there, and it is not over.
    fn read(&mut self, grants: &mut Vec<(PortIx, Grant)>) -> bool {
        let (index, parameter) = &self.open[0];
        let read = self.activation.read_now(parameter, grants);
        let read = read.expect("running");
        let Some(frames) = read else {
            drop(self.open.remove(0));
            return true;
        };
        if let (_, Carried::Many(words)) = &mut self.inputs[*index] {
            words.extend(frames.iter().map(|frame| decode(frame)));
        }
        !frames.is_empty()
    }
}

/// Some finish without reading their streams, as `role::outputs` has it.
fn is_patient(activation: &Activation) -> bool {
    !mix(&[activation.node.0.into(), 77]).is_multiple_of(5)
}

fn begin(
    graph: &Graph,
    worker: usize,
    activation: Arc<Activation>,
    reads: fn(&Activation) -> bool,
) -> Running {
    let spec = &graph.nodes()[activation.node.index()];
    let ports = spec.trigger.first().into_iter().flatten();
    let ports = ports.filter(|port| !spec.inputs[port.index()].gate);
    let (mut inputs, mut open) = (Vec::new(), Vec::new());
    for (port, (parameter, kind)) in ports.zip(activation.inputs()) {
        let carried = match kind {
            InputKind::None => Carried::Nothing,
            InputKind::Value => {
                let value = activation.value(parameter).expect("plain");
                Carried::One(decode(&value.expect("it is there")))
            }
            InputKind::Stream => {
                if reads(&activation) {
                    open.push((inputs.len(), parameter.to_owned()));
                }
                Carried::Many(Vec::new())
            }
        };
        inputs.push((*port, carried));
    }
    Running {
        worker,
        activation,
        inputs,
        open,
        outputs: None,
    }
}

fn index_of(name: &str) -> usize {
    name[1..].parse().expect("named so")
}
