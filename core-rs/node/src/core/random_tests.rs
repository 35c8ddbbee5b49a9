//! Three cores, a scheduler and roles in one thread: random orders, broken links and moves. Whatever happens, the job
//! ends in the right result, nothing is contradicted, and nothing is left.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use omniflow_flow::{EdgeId, Key};
use omniflow_wire::{Frame, LinkMessage, v1};
use proptest::prelude::*;
use rustc_hash::FxHashMap;

use super::{Core, Outputs, Target};
use crate::activation::Activation;
use crate::core::credits::WINDOW;
use crate::ids::{JobId, PeerIx};
use crate::ready::ReadyQueue;

#[path = "../../tests/node/support/flows.rs"]
mod flows;

const WORKERS: usize = 3;
/// Some windows of a stream.
const FRAMES: usize = 12;
const JOB: u64 = 5;

/// From one core to another: what was sent and has not arrived, and whether the link is up.
#[derive(Default)]
struct Wire {
    queue: VecDeque<LinkMessage>,
    peer: Option<PeerIx>,
    up: bool,
}

struct Running {
    worker: usize,
    activation: Arc<Activation>,
    read: Vec<Bytes>,
    emitted: usize,
}

struct World {
    cores: Vec<Core>,
    /// By (from, to).
    wires: FxHashMap<(usize, usize), Wire>,
    from_scheduler: Vec<VecDeque<LinkMessage>>,
    to_scheduler: Vec<LinkMessage>,
    running: Vec<Running>,
    /// Worker and epoch of each node.
    places: [(usize, u32); 3],
    done: [bool; 3],
    result: Option<Bytes>,
    now: Instant,
}

fn core(worker: usize) -> Core {
    let queues = ["a", "b", "c"].map(|role| (role.to_owned(), Arc::new(ReadyQueue::default())));
    Core::new(
        &format!("w{worker}"),
        "first",
        queues.into_iter().collect(),
        1 << 20,
    )
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            cores: (0..WORKERS).map(core).collect(),
            wires: FxHashMap::default(),
            from_scheduler: vec![VecDeque::new(); WORKERS],
            to_scheduler: Vec::new(),
            running: Vec::new(),
            places: [(0, 1), (1, 1), (2, 1)],
            done: [false; 3],
            result: None,
            now: Instant::now(),
        };
        let peers = (0..WORKERS).map(|worker| v1::Peer {
            id: worker as u32 + 1,
            name: format!("w{worker}"),
            incarnation: "first".into(),
            ..Default::default()
        });
        let peers: Vec<v1::Peer> = peers.collect();
        for worker in 0..WORKERS {
            world.act(worker, |core, now, out| {
                core.scheduler_connected(1, now, out)
                    .expect("the first term");
            });
            let queue = &mut world.from_scheduler[worker];
            queue.push_back(
                v1::Peers {
                    term: 1,
                    peers: peers.clone(),
                }
                .into(),
            );
            let flow = Some(flows::chain(true));
            queue.push_back(
                v1::FlowDefinition {
                    term: 1,
                    id: 1,
                    flow,
                }
                .into(),
            );
        }
        world.bind(&[0, 1, 2]);
        world.input();
        world
    }

    fn act<T>(
        &mut self,
        worker: usize,
        step: impl FnOnce(&mut Core, Instant, &mut Outputs) -> T,
    ) -> T {
        let mut out = Outputs::default();
        let result = step(&mut self.cores[worker], self.now, &mut out);
        for peer in out.dial {
            self.wires
                .entry((worker, other(&self.cores[worker], peer)))
                .or_default()
                .peer = Some(peer);
        }
        for (target, message) in out.sends {
            match target {
                Target::Scheduler => self.to_scheduler.push(message),
                Target::Peer(peer) => {
                    let to = other(&self.cores[worker], peer);
                    self.wires
                        .entry((worker, to))
                        .or_default()
                        .queue
                        .push_back(message);
                }
            }
        }
        result
    }

    fn bind(&mut self, nodes: &[usize]) {
        let bind = |&node: &usize| v1::Bind {
            node: node as u32,
            worker: self.places[node].0 as u32 + 1,
            epoch: self.places[node].1,
            key: Vec::new(),
        };
        let message = v1::BindJob {
            term: 1,
            job: JOB,
            flow: 1,
            binds: nodes.iter().map(bind).collect(),
            ..Default::default()
        };
        for queue in &mut self.from_scheduler {
            queue.push_back(message.clone().into());
        }
    }

    fn input(&mut self) {
        let header = v1::FrameHeader {
            job: JOB,
            term: 1,
            ..Default::default()
        };
        let frame = Frame {
            header,
            payload: "go".into(),
        };
        self.from_scheduler[self.places[0].0].push_back(frame.into());
    }

    /// What the scheduler does when a node's attempt is lost: elsewhere, or here again, under a new epoch.
    fn move_node(&mut self, node: usize, worker: usize) {
        // Every bind of a job reaches all its workers, so the first one must have.
        if self.done[node] || self.places[node].1 > 4 {
            return;
        }
        self.places[node] = (worker, self.places[node].1 + 1);
        self.bind(&[0, 1, 2]);
        if node == 0 {
            self.input();
        }
    }

    fn step(&mut self, action: u8, choice: usize) {
        let worker = choice % WORKERS;
        match action {
            0..=2 => self.deliver_from_scheduler(worker),
            3..=5 => self.deliver_from_peer(choice),
            6 => self.connect(choice),
            7 => self.cut(choice),
            8 => self.take(worker),
            9..=11 => self.run(choice),
            _ => self.move_node(choice / WORKERS % 3, worker),
        }
        self.listen();
    }

    fn deliver_from_scheduler(&mut self, worker: usize) {
        if let Some(message) = self.from_scheduler[worker].pop_front() {
            self.act(worker, |core, now, out| {
                core.from_scheduler(message, now, out).expect("expected");
            });
        }
    }

    fn wire(&self, choice: usize) -> Option<(usize, usize)> {
        let mut wires: Vec<_> = self.wires.keys().copied().collect();
        wires.sort_unstable();
        (!wires.is_empty()).then(|| wires[choice % wires.len()])
    }

    fn deliver_from_peer(&mut self, choice: usize) {
        let Some(at) = self.wire(choice) else { return };
        let message = self
            .wires
            .get_mut(&at)
            .and_then(|wire| wire.queue.pop_front());
        if let Some(message) = message {
            self.act(at.1, |core, now, out| {
                core.from_peer(message, now, out).expect("expected");
            });
        }
    }

    fn connect(&mut self, choice: usize) {
        let Some(at) = self.wire(choice) else { return };
        let Some(wire) = self.wires.get_mut(&at).filter(|wire| !wire.up) else {
            return;
        };
        if let Some(peer) = wire.peer {
            wire.up = true;
            self.act(at.0, |core, now, out| core.peer_connected(peer, now, out));
        }
    }

    fn cut(&mut self, choice: usize) {
        let Some(at) = self.wire(choice) else { return };
        let Some(wire) = self.wires.get_mut(&at).filter(|wire| wire.up) else {
            return;
        };
        wire.queue.clear();
        wire.up = false;
        if let Some(peer) = wire.peer
            && !self.cores[at.0].peer_lost(peer)
        {
            // Nobody dials until the core asks for it again.
            wire.peer = None;
        }
    }

    fn take(&mut self, worker: usize) {
        for role in ["a", "b", "c"] {
            let queue = self.cores[worker].queue(role).expect("served");
            let taken = queue.take(9, Duration::ZERO).expect("open");
            self.act(worker, |core, now, out| core.started(&taken, now, out));
            self.running
                .extend(taken.into_iter().map(|activation| Running {
                    worker,
                    activation,
                    read: Vec::new(),
                    emitted: 0,
                }));
        }
    }

    /// One activation goes on by one frame: `a` makes some, `b` passes them on, `c` joins them.
    fn run(&mut self, choice: usize) {
        self.running
            .retain(|running| !running.activation.cancelled());
        if self.running.is_empty() {
            return;
        }
        let mut running = self.running.swap_remove(choice % self.running.len());
        let activation = Arc::clone(&running.activation);
        let (mut outputs, mut over) = (Vec::new(), false);
        if activation.role() == "a" {
            over = running.emitted == FRAMES;
            outputs.extend((!over).then(|| Bytes::from(running.emitted.to_string())));
        } else {
            let mut grants = Vec::new();
            let read = activation.read_now("text", &mut grants);
            match read.expect("running") {
                Some(frames) => running.read.extend(frames),
                None => over = true,
            }
            self.act(running.worker, |core, now, out| {
                core.grant(&activation, grants, now, out);
            });
            let joined = activation.role() == "c" && over;
            if joined {
                outputs.push(running.read.concat().into());
            } else if activation.role() == "b" {
                outputs.extend(running.read[running.emitted..].iter().cloned());
            }
        }
        let emitted = &mut running.emitted;
        self.act(running.worker, |core, now, out| {
            if !outputs.is_empty() {
                let count = outputs.len();
                let taken = core.emit(&activation, "text", outputs, now, out);
                let taken = taken.expect("running");
                *emitted += taken;
                // What its reader has no room for yet goes later.
                over &= taken == count;
            }
            if over {
                core.finish(&activation, Vec::new(), Vec::new(), now, out)
                    .expect("running");
            }
        });
        if !over {
            self.running.push(running);
        }
    }

    /// What the scheduler hears.
    fn listen(&mut self) {
        for worker in 0..WORKERS {
            let reports = self.cores[worker].take_reports(self.now);
            let events = reports.into_iter().flat_map(|report| match report {
                LinkMessage::Events(events) => events.events,
                other => panic!("unexpected: {other:?}"),
            });
            for event in events {
                assert!(event.error.is_none(), "{event:?}");
                let node = event.node as usize;
                let current = (worker, event.epoch) == self.places[node];
                if current && event.state == i32::from(v1::node_progress::State::Done) {
                    self.done[node] = true;
                }
            }
        }
        for message in self.to_scheduler.drain(..) {
            match message {
                LinkMessage::Frame(frame) => self.result = Some(frame.payload),
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    /// No more accidents: everything that can happen does.
    fn settle(&mut self) {
        for round in 0..400 {
            for choice in 0..9 {
                for action in [0, 3, 6, 8, 9] {
                    self.step(action, choice + round);
                }
            }
        }
    }

    fn release(&mut self) {
        for worker in 0..WORKERS {
            let release = v1::ReleaseJobs {
                term: 1,
                jobs: vec![JOB],
                reason: None,
            };
            self.from_scheduler[worker].push_back(release.into());
        }
        self.settle();
    }
}

fn other(core: &Core, peer: PeerIx) -> usize {
    let (name, _, _) = core.peer(peer);
    name[1..].parse().expect("named so")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_job_ends_in_the_right_result_whatever_breaks_and_moves(
        actions in proptest::collection::vec((0u8..13, 0usize..9), 0..400),
    ) {
        let mut world = World::new();
        for (action, choice) in actions {
            world.step(action, choice);
        }
        world.settle();
        let all: String = (0..FRAMES).map(|frame| frame.to_string()).collect();
        prop_assert_eq!(world.result.as_deref(), Some(all.as_bytes()));
        world.release();
        for core in &world.cores {
            let stats = core.stats();
            for gauge in ["jobs", "activations_queued", "activations_running", "retained_bytes", "parked_bytes"] {
                let value = stats.iter().find(|(name, _)| *name == gauge).map(|(_, value)| *value);
                prop_assert_eq!(value, Some(0), "{}", gauge);
            }
        }
    }
}

impl World {
    /// Everything that can happen while only this role works does.
    fn settle_while_works(&mut self, role: &str) {
        for round in 0..60 {
            for choice in 0..9 {
                for action in [0, 3, 6, 8] {
                    self.step(action, choice + round);
                }
                self.running
                    .retain(|running| !running.activation.cancelled());
                let mut running = self.running.iter();
                if let Some(at) = running.position(|running| running.activation.role() == role) {
                    self.run(at);
                }
            }
        }
    }

    /// How many frames have come to where the second node runs now.
    fn came_to_the_second(&self) -> usize {
        let (worker, _) = self.places[1];
        let job = &self.cores[worker].jobs[&JobId(JOB)];
        let came = job.received.of(EdgeId(1), &Key::ROOT);
        let of_newest = came.iter().map(|kept| kept.epoch).max();
        came.iter()
            .filter(|kept| Some(kept.epoch) == of_newest)
            .count()
    }
}

#[test]
fn rule_10_a_stream_comes_only_as_far_as_it_is_read_also_when_an_end_of_it_runs_again() {
    for (node, elsewhere) in [(0, 2), (0, 0), (1, 2), (1, 1)] {
        let mut world = World::new();
        world.settle_while_works("a");
        assert_eq!(world.came_to_the_second(), WINDOW.frames as usize);
        world.move_node(node, elsewhere);
        world.settle_while_works("a");
        assert_eq!(world.came_to_the_second(), WINDOW.frames as usize);
        world.settle();
        assert!(world.result.is_some(), "the rest comes as it is read");
    }
}
