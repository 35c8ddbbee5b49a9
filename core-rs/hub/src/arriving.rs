//! What comes on edges: frames of results, of what control nodes at the scheduler read, and marks for nodes that are not
//! bound (rule 7).

use bytes::Bytes;
use omniflow_control::{Code, Event, Fault, JobId, Micros};
use omniflow_flow::{
    Arrival, Destination, EdgeId, Effect, Item, Key, Origin, Reader, ResolverError,
};
use omniflow_wire::Frame;

use crate::frames::item;
use crate::job_data::JobData;
use crate::state::State;

/// How much more may gather in a resolver before it is asked what it holds.
const UNMEASURED: usize = 1 << 20;

/// Bytes that the scheduler's resolver holds of a job: frames that wait for others, such as those of a `collect`.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// An upper bound, which is made exact each time it has doubled.
    pub(crate) bytes: usize,
    measured: usize,
}

impl State {
    /// Something that a worker sent on an edge.
    pub(crate) fn frame(&mut self, frame: &Frame, now: Micros) {
        let header = &frame.header;
        let (id, edge, key) = (
            JobId(header.job),
            EdgeId(header.edge),
            Key::new(&header.key),
        );
        let Some(JobData {
            graph,
            running: Some(running),
            ..
        }) = self.jobs.get(&id)
        else {
            return;
        };
        // Bound meanwhile: whoever sent it sends it again when the bind comes to it.
        if let Some(Reader::One(node, at)) = graph.reader(edge, &key)
            && running.outgoing.place(node, &at).is_some()
        {
            return;
        }
        let mut effects = Vec::new();
        let taken = self.accept(id, edge, &key, header.epoch, item(frame), &mut effects);
        self.carry_out(id, effects, now);
        if let Err(error) = taken {
            self.broken(id, edge, &error, now);
        }
    }

    /// Gives something to the job's resolver here. Nothing comes of it when the job has ended.
    pub(crate) fn accept(
        &mut self,
        id: JobId,
        edge: EdgeId,
        key: &Key,
        epoch: u32,
        item: Item<Bytes>,
        effects: &mut Vec<Effect<Bytes>>,
    ) -> Result<(), ResolverError> {
        let Some(JobData {
            graph,
            running: Some(running),
            ..
        }) = self.jobs.get_mut(&id)
        else {
            return Ok(());
        };
        let waits = matches!(
            graph.edge(edge).map(|edge| edge.to),
            Some(Destination::Node { .. })
        );
        let bytes = match &item {
            Item::Frame { payload, .. } if waits => payload.len(),
            _ => 0,
        };
        let arrival = running.resolver.accept(edge, key, epoch, item, effects)?;
        if bytes > 0 && matches!(arrival, Arrival::Taken | Arrival::Parked) {
            let gathered = &mut running.gathered;
            gathered.bytes += bytes;
            self.budgets.kept_results += bytes;
            if gathered.bytes > 2 * gathered.measured + UNMEASURED {
                gathered.measured = running.resolver.footprint().bytes;
                self.budgets.kept_results -= gathered.bytes;
                self.budgets.kept_results += gathered.measured;
                gathered.bytes = gathered.measured;
            }
        }
        Ok(())
    }

    /// Somebody sent what nobody may.
    pub(crate) fn broken(&mut self, id: JobId, edge: EdgeId, error: &ResolverError, now: Micros) {
        let Some(JobData {
            graph,
            running: Some(running),
            ..
        }) = self.jobs.get(&id)
        else {
            return;
        };
        let (mut name, mut worker) = ("", None);
        if let Some(Origin::Node { node, .. }) = graph.edge(edge).map(|edge| edge.from) {
            name = graph.node(node).map_or("", |node| &node.name);
            worker = running.outgoing.place(node, &Key::ROOT);
        }
        let worker = worker.and_then(|place| self.workers.line(place.worker));
        let message = format!("node {name:?} sent what its flow does not allow: {error}");
        let cure = "check that scheduler and workers run the same version of Omni-Flow";
        let worker = worker.map_or("", |line| &line.name);
        let fault = Box::new(Fault::new(Code::Internal, message, cure).at(name, worker));
        self.step(Event::Failed { job: id, fault }, now);
    }
}
