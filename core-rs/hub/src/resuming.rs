//! Resumable nodes that have lost their workers (rule 12): what was delivered of them, here and at their readers' places, goes
//! along with their next binds.

use bytes::Bytes;
use omniflow_control::{Bind, Event, JobId, Micros};
use omniflow_flow::{Delivered, Key, NodeId};
use omniflow_placement::WorkerId;
use omniflow_wire::v1;
use rustc_hash::FxHashMap;

use crate::flows::link_frame;
use crate::frames::CONTROL;
use crate::state::State;

/// Of one job: by node and key of the bind, the epoch that was asked about, and the longest of the answers.
#[derive(Debug, Default)]
pub(crate) struct Resuming(FxHashMap<(NodeId, Key), (u32, Delivered<Bytes>)>);

impl Resuming {
    fn ask(&mut self, at: (NodeId, Key), epoch: u32, held_here: Delivered<Bytes>) {
        self.0.insert(at, (epoch, held_here));
    }

    fn forget(&mut self, at: &(NodeId, Key)) {
        self.0.remove(at);
    }

    /// An answer. One to an earlier question counts no longer.
    fn answer(&mut self, at: &(NodeId, Key), epoch: u32, delivered: Delivered<Bytes>) {
        if let Some((asked, known)) = self.0.get_mut(at)
            && *asked == epoch
        {
            *known = std::mem::take(known).longer(delivered);
        }
    }

    /// What goes to a worker with these binds.
    pub(crate) fn take(&mut self, worker: WorkerId, binds: &[Bind]) -> Vec<v1::Delivered> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut taken = Vec::new();
        for bind in binds.iter().filter(|bind| bind.worker == worker) {
            let at = (NodeId(bind.node), bind.key.clone());
            let asked = self
                .0
                .get(&at)
                .is_some_and(|(asked, _)| *asked <= bind.epoch);
            let delivered = asked.then(|| self.0.remove(&at)).flatten();
            if let Some((_, delivered)) = delivered.filter(|(_, known)| !known.is_empty()) {
                taken.push(v1::Delivered {
                    node: bind.node,
                    key: bind.key.path().to_vec(),
                    frames: delivered.frames,
                    ended: delivered.ended,
                });
            }
        }
        taken
    }
}

impl State {
    /// Asks the places that read from a resumable node, this one first, what they hold. Nothing of its earlier attempts is
    /// taken in any more.
    pub(crate) fn ask_delivered(
        &mut self,
        id: JobId,
        (node, key): (u32, Key),
        epoch: u32,
        workers: &[WorkerId],
    ) {
        let data = self.jobs.get_mut(&id);
        let Some(running) = data.and_then(|data| data.running.as_mut()) else {
            return;
        };
        let question = v1::DeliveredWanted {
            term: self.config.term,
            job: id.0,
            node,
            key: key.path().to_vec(),
            epoch,
        };
        let node = NodeId(node);
        running.resolver.producer_restarted(node, &key, epoch);
        let here = running.resolver.delivered(node, &key);
        running.resuming.ask((node, key), epoch, here);
        let question = link_frame(&question.into(), CONTROL);
        for worker in workers {
            self.workers.send(*worker, question.clone());
        }
    }

    /// A resumable node runs again from its beginning.
    pub(crate) fn begin_anew(&mut self, id: JobId, node: u32, key: Key) {
        let data = self.jobs.get_mut(&id);
        if let Some(running) = data.and_then(|data| data.running.as_mut()) {
            running.resuming.forget(&(NodeId(node), key));
        }
    }

    /// A place says what it holds.
    pub(crate) fn delivered(&mut self, worker: WorkerId, report: v1::DeliveredReport, now: Micros) {
        let (job, epoch) = (JobId(report.job), report.epoch);
        let v1::Delivered {
            node,
            key,
            frames,
            ended,
        } = report.delivered.unwrap_or_default();
        let (key, count) = (Key::new(&key), frames.len() as u64);
        let data = self.jobs.get_mut(&job);
        if let Some(running) = data.and_then(|data| data.running.as_mut()) {
            let at = (NodeId(node), key.clone());
            let delivered = Delivered { frames, ended };
            running.resuming.answer(&at, epoch, delivered);
        }
        let event = Event::Delivered {
            job,
            worker,
            node,
            key,
            epoch,
            frames: count,
        };
        self.step(event, now);
    }
}
