//! What workers say.

use bytes::Bytes;
use omniflow_control::{Code, Event, Fault, JobId, Micros, NodeUpdate};
use omniflow_flow::{EdgeId, Effect as Resolved, Item, Key, Origin, ResolverError};
use omniflow_placement::WorkerId;
use omniflow_wire::{Frame, LinkMessage, v1};

use crate::convert;
use crate::job_data::keep;
use crate::restore::contradicted;
use crate::state::State;
use crate::stop_at::stop_at;

impl State {
    /// Everything that one read brought. Reports are taken in before frames: the last frame of a result often comes
    /// with the report of the activation that made it, and the job's own report shall hold it.
    pub(crate) fn receive(&mut self, worker: WorkerId, messages: Vec<LinkMessage>, now: Micros) {
        let is_report = |message: &LinkMessage| matches!(message, LinkMessage::Events(_));
        let (reports, others): (Vec<_>, Vec<_>) = messages.into_iter().partition(is_report);
        for message in reports.into_iter().chain(others) {
            self.message(worker, message, now);
        }
    }

    fn message(&mut self, worker: WorkerId, message: LinkMessage, now: Micros) {
        match message {
            LinkMessage::Events(events) => {
                for event in events.events {
                    self.node_event(worker, event, now);
                }
            }
            LinkMessage::Frame(frame) => self.result(frame, now),
            LinkMessage::Contradiction(found) => {
                let (job, edge, seq) = (JobId(found.job), found.edge, found.seq);
                self.step(Event::Contradiction { job, edge, seq }, now);
            }
            LinkMessage::Drain(_) | LinkMessage::Drained(_) => self.worker_drains(worker, now),
            LinkMessage::PeerUnreachable(report) => self.peer_unreachable(worker, report),
            LinkMessage::Pong(pong) if self.worker_confirmed(pong.nonce, now) => {}
            LinkMessage::Pong(pong) => self.suspect_answered(pong.nonce, now),
            // Pings are answered by the link's task; what else there is, only the scheduler says.
            _ => {}
        }
    }

    fn node_event(&mut self, worker: WorkerId, event: v1::NodeEvent, now: Micros) {
        let Some(state) = convert::node_state(event.state) else {
            return;
        };
        let update = NodeUpdate {
            worker,
            job: JobId(event.job),
            node: event.node,
            key: Key::new(&event.key),
            epoch: event.epoch,
            state,
            at: Micros(now.0.saturating_sub(event.age_us)),
            features: event
                .features
                .into_iter()
                .map(|feature| (feature.name, feature.value))
                .collect(),
            fault: event.error.map(convert::fault).map(Box::new),
        };
        self.step(Event::Node(update), now);
    }

    /// A frame of a result: the scheduler is its consumer.
    fn result(&mut self, frame: Frame, now: Micros) {
        let (header, id) = (&frame.header, JobId(frame.header.job));
        let Some(running) = self
            .jobs
            .get_mut(&id)
            .and_then(|data| data.running.as_mut())
        else {
            return;
        };
        let item = match header.mark() {
            v1::Mark::None => Item::Frame {
                seq: header.seq,
                payload: keep(frame.payload.clone()),
            },
            v1::Mark::End => Item::End {
                count: header.count,
            },
            v1::Mark::Closed => Item::Closed,
        };
        let mut resolved = Vec::new();
        let key = Key::new(&header.key);
        match running
            .resolver
            .accept(EdgeId(header.edge), &key, header.epoch, item, &mut resolved)
        {
            Ok(_) => {
                for effect in resolved {
                    self.resolved(id, effect, now);
                }
            }
            Err(error) => self.broken_result(id, header.edge, &error, now),
        }
    }

    fn resolved(&mut self, id: JobId, effect: Resolved<Bytes>, now: Micros) {
        match effect {
            Resolved::Result { port, item } => {
                let Some(data) = self.jobs.get_mut(&id) else {
                    return;
                };
                let stream = data
                    .graph
                    .results()
                    .get(port.index())
                    .is_some_and(|port| port.value_type.stream);
                let (is_frame, is_mark) = (
                    matches!(item, Item::Frame { .. }),
                    !matches!(item, Item::Frame { .. }),
                );
                if let Item::Frame { payload, .. } = &item {
                    self.budgets.kept_results += payload.len();
                }
                let contradicts = data
                    .results
                    .get_mut(port.index())
                    .and_then(|log| log.push(item));
                if let Some(frames) = contradicts {
                    let fault = Box::new(contradicted(frames));
                    self.step(Event::Failed { job: id, fault }, now);
                    return;
                }
                stop_at("result");
                self.has_fresh_results(id);
                if is_frame {
                    self.step(Event::ResultFrame { job: id }, now);
                }
                if is_mark || !stream {
                    self.step(
                        Event::ResultOver {
                            job: id,
                            port: port.0,
                        },
                        now,
                    );
                }
            }
            Resolved::Contradiction { edge, seq, .. } => {
                self.step(
                    Event::Contradiction {
                        job: id,
                        edge: edge.0,
                        seq,
                    },
                    now,
                );
            }
            // The job table knows when every result is over. Producers whose frames nobody wants are not told yet,
            // which costs no more than their work.
            _ => {}
        }
    }

    /// A worker sent what no worker sends.
    fn broken_result(&mut self, id: JobId, edge: u32, error: &ResolverError, now: Micros) {
        let Some(job) = self.control.job(id) else {
            return;
        };
        let edge = self
            .control
            .graph(job.flow)
            .and_then(|graph| graph.edge(EdgeId(edge)));
        let node = match edge.map(|edge| edge.from) {
            Some(Origin::Node { node, .. }) => node.index(),
            _ => 0,
        };
        let name = self
            .control
            .graph(job.flow)
            .and_then(|graph| graph.nodes().get(node))
            .map_or("", |node| &node.name);
        let worker = job.current(node).map_or("", |attempt| &attempt.worker_name);
        let message = format!("node {name:?} sent a result that its flow does not allow: {error}");
        let cure = "check that scheduler and workers run the same version of Omni-Flow";
        let fault = Fault::new(Code::Internal, message, cure).at(name, worker);
        self.step(
            Event::Failed {
                job: id,
                fault: Box::new(fault),
            },
            now,
        );
    }
}
