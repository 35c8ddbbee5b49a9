//! Who joins and who leaves (rule 13): the registry discovers, the link decides.

use std::sync::Arc;

use omniflow_control::{Event, Micros};
use omniflow_link::LinkSender;
use omniflow_placement::WorkerId;
use omniflow_wire::v1;

use crate::error::HubError;
use crate::flows::link_frame;
use crate::state::State;
use crate::unreachable::FIRST_QUESTION;
use crate::workers::{Line, Seat};

/// Questions that are answered by a worker which has let go of what it held.
const LET_GO: u64 = FIRST_QUESTION | 1 << 62;

/// Which of them.
pub(crate) fn let_go_question(worker: WorkerId) -> u64 {
    LET_GO | u64::from(worker.0)
}

impl State {
    /// The registry shows this worker. True when it has to be dialled: a name or an incarnation that is new.
    pub(crate) fn worker_seen(&mut self, info: v1::WorkerInfo, now: Micros) -> bool {
        self.workers.learn_methods(&info);
        let roles = info.roles.iter().map(|role| role.name.clone()).collect();
        self.step(Event::RolesSeen(roles), now);
        if let Some(seat) = self.workers.seats.get_mut(&info.name)
            && seat.info.incarnation == info.incarnation
        {
            seat.info = info;
            seat.registered = true;
            return false;
        }
        self.incarnation_seen(&info.name, &info.incarnation, now);
        let name = info.name.clone();
        if let Some(old) = self.workers.seats.insert(name, Seat::new(info)) {
            self.supersede(old, now);
        }
        true
    }

    /// A name has a new incarnation, so the old one is dead.
    fn supersede(&mut self, old: Seat, now: Micros) {
        if let Some(task) = old.task {
            task.abort();
        }
        if let Some(worker) = old.worker {
            self.drop_line(worker, "it was started anew", now);
        }
    }

    /// The registration vanished. With a living link this changes nothing.
    pub(crate) fn worker_gone(&mut self, name: &str, incarnation: &str) {
        let Some(seat) = self.seat(name, incarnation) else {
            return;
        };
        seat.registered = false;
        // Its task ends by itself at the next failure to reach it.
        if seat.worker.is_none() {
            if let Some(task) = seat.task.take() {
                task.abort();
            }
            self.workers.seats.remove(name);
        }
    }

    pub(crate) fn seat(&mut self, name: &str, incarnation: &str) -> Option<&mut Seat> {
        self.workers
            .seats
            .get_mut(name)
            .filter(|seat| seat.info.incarnation == incarnation)
    }

    /// The worker has answered, and says which jobs it holds. None when another incarnation has taken its place meanwhile.
    pub(crate) fn link_up(
        &mut self,
        name: &str,
        incarnation: &str,
        sender: LinkSender,
        held: Vec<u64>,
        now: Micros,
    ) -> Option<WorkerId> {
        let worker = self.workers.number();
        let seat = self.seat(name, incarnation)?;
        seat.worker = Some(worker);
        seat.was_up = true;
        seat.connected = now;
        let (info, draining) = (seat.info.clone(), seat.draining);
        let peer = v1::Peer {
            id: worker.0,
            name: info.name,
            incarnation: info.incarnation,
            addresses: info.addresses,
            host: info.host.clone(),
        };
        let shared: Arc<str> = name.into();
        self.workers
            .add(worker, Line::new(shared.clone(), peer, sender));
        self.journal_worker(name, incarnation, true);
        let adoptable = self.adoptable(name, incarnation, &held);
        let others = held.into_iter().filter(|job| !adoptable.contains(job));
        let question = self.release_held(worker, others.collect());
        self.worker_reported(worker, question, !adoptable.is_empty(), now);
        if draining {
            self.send_drain(worker);
            return Some(worker);
        }
        let roles = info.roles.into_iter().map(|role| role.name).collect();
        self.step(
            Event::WorkerUp {
                worker,
                name: shared,
                host: info.host.into(),
                roles,
            },
            now,
        );
        Some(worker)
    }

    /// A worker whose link was lost, or who outlived its scheduler, forgets what cannot go on there: it has moved elsewhere
    /// since, has ended, or is not known here.
    /// Returns the number of the question that it answers once it has.
    pub(crate) fn release_held(&mut self, worker: WorkerId, jobs: Vec<u64>) -> Option<u64> {
        if jobs.is_empty() {
            return None;
        }
        let message = v1::ReleaseJobs {
            term: self.config.term,
            jobs: jobs.clone(),
            reason: None,
        };
        self.workers.send(worker, link_frame(&message.into(), 0));
        // What it still says of them, such as that a loop is over, is not true of the run that has taken its place.
        self.earlier_runs.let_go_asked(worker, jobs);
        let nonce = let_go_question(worker);
        self.workers
            .send(worker, link_frame(&v1::Ping { nonce }.into(), 0));
        Some(nonce)
    }

    /// The link is gone for good. False when the worker need not be dialled any more.
    pub(crate) fn link_lost(
        &mut self,
        name: &str,
        incarnation: &str,
        worker: WorkerId,
        cause: &str,
        now: Micros,
    ) -> bool {
        if self.leaving {
            return false;
        }
        self.drop_line(worker, cause, now);
        match self.seat(name, incarnation) {
            Some(seat) if seat.registered && !seat.draining => true,
            Some(_) => {
                self.workers.seats.remove(name);
                false
            }
            None => false,
        }
    }

    fn drop_line(&mut self, worker: WorkerId, cause: &str, now: Micros) {
        self.awaited_worker_died(worker, now);
        let Some(line) = self.workers.remove(worker) else {
            return;
        };
        line.abort();
        self.journal_worker(&line.name.clone(), &line.peer.incarnation.clone(), false);
        self.suspicions.forget(worker);
        self.forget_questions(worker);
        let completed = self.control.worker(worker).map_or(0, |view| view.completed);
        if let Some(seat) = self
            .workers
            .seats
            .get_mut(&*line.name)
            .filter(|seat| seat.worker == Some(worker))
        {
            seat.worker = None;
            seat.completed += completed;
        }
        self.step(
            Event::WorkerDown {
                worker,
                cause: cause.to_owned(),
            },
            now,
        );
    }

    /// Whether it makes sense to go on dialling.
    pub(crate) fn is_wanted(&mut self, name: &str, incarnation: &str) -> bool {
        self.seat(name, incarnation)
            .is_some_and(|seat| seat.registered)
    }

    /// The worker finishes what it has and leaves; what it has not finished within the time goes on elsewhere (0: it
    /// takes the time that it needs). Returns its outstanding activations.
    pub(crate) fn drain_worker(
        &mut self,
        name: &str,
        within_ms: u64,
        now: Micros,
    ) -> Result<u32, HubError> {
        let Some(seat) = self.workers.seats.get_mut(name) else {
            let known = self.workers.seats.keys().cloned().collect();
            return Err(HubError::UnknownWorker {
                name: name.to_owned(),
                known,
            });
        };
        seat.draining = true;
        let Some(worker) = seat.worker else {
            return Ok(0);
        };
        self.send_drain(worker);
        let event = match within_ms {
            0 => Event::WorkerDraining(worker),
            within_ms => Event::DrainWithin { worker, within_ms },
        };
        self.step(event, now);
        Ok(self.control.load(worker).outstanding)
    }

    fn send_drain(&mut self, worker: WorkerId) {
        let message = v1::Drain {
            term: self.config.term,
        };
        self.workers.send(worker, link_frame(&message.into(), 0));
    }

    /// The worker says that it drains, on somebody else's wish.
    pub(crate) fn worker_drains(&mut self, worker: WorkerId, now: Micros) {
        let name = self.workers.line(worker).map(|line| line.name.clone());
        if let Some(seat) = name.and_then(|name| self.workers.seats.get_mut(&*name)) {
            seat.draining = true;
        }
        self.step(Event::WorkerDraining(worker), now);
    }
}
