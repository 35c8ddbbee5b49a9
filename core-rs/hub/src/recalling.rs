//! Binds that are called back from a worker, and what it gives back (rule 15).

use omniflow_control::{Bind, Event, JobId, Micros};
use omniflow_flow::Key;
use omniflow_placement::WorkerId;
use omniflow_wire::v1;

use crate::execute::wire_bind;
use crate::flows::link_frame;
use crate::frames::CONTROL;
use crate::state::State;

impl State {
    pub(crate) fn recall(&mut self, job: JobId, worker: WorkerId, binds: &[Bind]) {
        let message = v1::Recall {
            term: self.config.term,
            job: job.0,
            binds: binds.iter().map(wire_bind).collect(),
        };
        self.workers
            .send(worker, link_frame(&message.into(), CONTROL));
    }

    pub(crate) fn moved(&mut self, worker: WorkerId, message: v1::Moved, now: Micros) {
        let job = JobId(message.job);
        let binds = message.binds.into_iter();
        let binds = binds.map(|bind| (bind.node, Key::new(&bind.key), bind.epoch));
        let binds = binds.collect();
        self.step(Event::Moved { job, worker, binds }, now);
    }
}
