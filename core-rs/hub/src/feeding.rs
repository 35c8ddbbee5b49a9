//! What the scheduler sends to the nodes of a job: its inputs, and what its own resolver made of them, to each place as it is
//! bound.

use bytes::Bytes;
use omniflow_control::{Bind, JobId, Micros};
use omniflow_flow::{Home, Item, Key, NodeId, Origin, Parked};
use omniflow_placement::WorkerId;
use omniflow_wire::LinkMessage;

use crate::flows::link_frame;
use crate::frames::{stream_of, wire_frame};
use crate::job_data::JobData;
use crate::outgoing::{Place, Placed};
use crate::state::State;

/// A node that has just been bound, and has not been sent what is there for it.
pub(crate) struct NewBind {
    job: JobId,
    node: NodeId,
    key: Key,
    worker: WorkerId,
    placed: Placed,
    /// What had come to the scheduler for it (rule 7).
    parked: Vec<Parked<Bytes>>,
}

impl State {
    /// Takes over what is new of the binds; what goes to those nodes is sent when everybody knows of them.
    pub(crate) fn note_binds(&mut self, id: JobId, binds: &[Bind]) {
        let Some(data) = self.jobs.get_mut(&id) else {
            return;
        };
        let Some(running) = &mut data.running else {
            return;
        };
        for bind in binds {
            let (node, key, worker) = (NodeId(bind.node), bind.key.clone(), bind.worker);
            let epoch = bind.epoch;
            let placed = running.outgoing.bind(node, &key, Place { worker, epoch });
            if placed == Placed::Known {
                continue;
            }
            if epoch > 1 {
                running.resolver.producer_restarted(node, &key, epoch);
            }
            if placed == Placed::Again {
                running.outgoing.begin_again(&data.graph, node, &key);
            }
            // One that is closed by now closes itself where it is bound.
            let parked = match data.feeds.dynamic {
                true => running.resolver.hand_over(node, &key),
                false => None,
            };
            self.bound.push(NewBind {
                job: id,
                node,
                key,
                worker,
                placed,
                parked: parked.unwrap_or_default(),
            });
        }
    }

    /// The end of a step: what goes to nodes that it has bound, and the beginning of jobs that it has accepted.
    pub(crate) fn feed(&mut self, now: Micros) {
        let mut bound = std::mem::take(&mut self.bound);
        for new in bound.iter().filter(|new| new.placed == Placed::Again) {
            self.feed_again(new);
        }
        for new in bound.drain(..) {
            let (job, node) = (new.job, new.node);
            self.feed_bound(new);
            self.pace_again(job, node);
        }
        self.bound = bound;
        for id in std::mem::take(&mut self.starting) {
            self.start(id, now);
        }
    }

    /// What its worker was sent for all keys of the node may be gone there.
    fn feed_again(&mut self, new: &NewBind) {
        let Some(data) = self.jobs.get_mut(&new.job) else {
            return;
        };
        let Some(running) = &mut data.running else {
            return;
        };
        let outgoing = &mut running.outgoing;
        for feed in data
            .feeds
            .of_node(new.node)
            .iter()
            .filter(|feed| feed.every)
        {
            outgoing.must_have_again(feed.edge, &Key::ROOT, new.worker);
        }
        let every = outgoing
            .kept(new.node, &new.key)
            .filter(|(_, every)| *every);
        let every: Vec<_> = every
            .map(|(sent, _)| (sent.edge, sent.key.clone()))
            .collect();
        for (edge, key) in every {
            outgoing.must_have_again(edge, &key, new.worker);
        }
    }

    fn feed_bound(&mut self, new: NewBind) {
        let (id, worker, term) = (new.job, new.worker, self.config.term);
        let workers = &mut self.workers;
        let Some(data) = self.jobs.get_mut(&id) else {
            return;
        };
        let Some(running) = &mut data.running else {
            return;
        };
        let mut send = |edge, key: &Key, epoch, item: Item<Bytes>| {
            let frame = wire_frame(id, edge, key, epoch, item, term);
            let frame = link_frame(&LinkMessage::Frame(frame), stream_of(id, edge));
            workers.send(worker, frame);
        };
        for feed in data.feeds.of_node(new.node) {
            let outgoing = &mut running.outgoing;
            if feed.every && !outgoing.must_have(feed.edge, &Key::ROOT, worker) {
                continue;
            }
            let input = running.inputs.get(feed.port.index());
            for item in input.into_iter().flat_map(|input| input.items()) {
                send(feed.edge, &Key::ROOT, 0, item);
            }
        }
        let kept: Vec<_> = running
            .outgoing
            .kept(new.node, &new.key)
            .map(|(sent, every)| (sent.clone(), every))
            .collect();
        for (sent, every) in kept {
            if !every || running.outgoing.must_have(sent.edge, &sent.key, worker) {
                send(sent.edge, &sent.key, sent.epoch, sent.item);
            }
        }
        for parked in new.parked {
            // What the scheduler had sent itself was kept, and is sent by now.
            let from = data.graph.edge(parked.edge).map(|edge| edge.from);
            let own = match from {
                Some(Origin::Node { node, .. }) => data.graph.home(node) == Home::Scheduler,
                Some(Origin::Input { .. }) | None => true,
            };
            if !own {
                send(parked.edge, &parked.key, parked.epoch, parked.item);
            }
        }
    }

    /// The job begins: the scheduler's own resolver takes in what it reads of the inputs.
    fn start(&mut self, id: JobId, now: Micros) {
        let Some(JobData {
            graph,
            feeds,
            running: Some(running),
            ..
        }) = self.jobs.get_mut(&id)
        else {
            return;
        };
        let mut effects = Vec::new();
        let mut broken = None;
        for (feed, whole) in feeds.at_the_start() {
            let input = running.inputs.get(feed.port.index());
            let items = input.into_iter().flat_map(|input| input.items());
            for item in items.filter(|item| whole || graph.is_mark(feed.edge, item)) {
                let taken = running
                    .resolver
                    .accept(feed.edge, &Key::ROOT, 0, item, &mut effects);
                if let Err(error) = taken {
                    broken = Some((feed.edge, error));
                }
            }
        }
        self.carry_out(id, effects, now);
        if let Some((edge, error)) = broken {
            self.broken(id, edge, &error, now);
        }
    }
}
