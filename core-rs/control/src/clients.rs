//! To whom a job belongs, and what becomes of it when they go.
//!
//! Who submits a job owns it. An owner that says goodbye cancels it; one that is lost leaves it a grace period, so that a
//! client whose connection broke finds it again. Who watches a job without an owner becomes its owner.

use std::sync::Arc;

use crate::effect::Effect;
use crate::fault::Fault;
use crate::ids::{ClientId, JobId, Micros};
use crate::job::Job;
use crate::table::Control;

impl Control {
    /// One more client depends on the job.
    pub(crate) fn own(&mut self, id: JobId, client: ClientId) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.outcome.is_ended()) else {
            return;
        };
        self.owned.entry(client).or_default().insert(id);
        job.watchers.retain(|watcher| *watcher != client);
        match job.owner {
            None => job.owner = Some(client),
            Some(_) if job.is_owned_by(client) => {}
            Some(_) => job.more_owners.push(client),
        }
        if job.orphan_until.take().is_some() && job.results_are_open() {
            self.set_running_timer(id);
        }
    }

    pub(crate) fn watch(&mut self, id: JobId, client: ClientId) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.outcome.is_ended()) else {
            return;
        };
        if job.owner.is_none() && !job.detach {
            self.own(id, client);
        } else if !job.is_owned_by(client) && !job.watchers.contains(&client) {
            job.watchers.push(client);
            self.owned.entry(client).or_default().insert(id);
        }
    }

    pub(crate) fn client_gone(&mut self, client: ClientId, now: Micros, effects: &mut Vec<Effect>) {
        for id in self.disowned(client) {
            // The client may come back under its key: it shall get a new job then, not this one's end.
            self.free_key(id);
            self.fail(id, Arc::new(Fault::client_gone()), now, effects);
        }
    }

    pub(crate) fn client_lost(&mut self, client: ClientId, now: Micros) {
        let until = now.plus_ms(self.limits.client_grace_ms);
        for id in self.disowned(client) {
            let Some(job) = self.jobs.get_mut(&id) else {
                continue;
            };
            // It may have come back already, before its old connection was seen to be broken.
            if let Some(watcher) = job.watchers.pop() {
                job.owner = Some(watcher);
                continue;
            }
            job.orphan_until = Some(until);
            // Of a job that settles, the end is nearer than that.
            if job.results_are_open() {
                self.set_running_timer(id);
            }
        }
    }

    /// The client depends on nothing any more. Jobs that have lost their last owner by that, and are not detached.
    fn disowned(&mut self, client: ClientId) -> Vec<JobId> {
        let jobs = self.owned.remove(&client).unwrap_or_default();
        let mut jobs: Vec<JobId> = jobs.into_iter().collect();
        // In order of arrival, so that the same history gives the same effects.
        jobs.sort_unstable();
        jobs.retain(|id| {
            let job = self.jobs.get_mut(id);
            job.is_some_and(|job| job.disown(client) && job.owner.is_none() && !job.detach)
        });
        jobs
    }
}

impl Job {
    fn is_owned_by(&self, client: ClientId) -> bool {
        self.owner == Some(client) || self.more_owners.contains(&client)
    }

    pub(crate) fn results_are_open(&self) -> bool {
        self.open_results.contains(&true)
    }

    /// False when the client only watched.
    fn disown(&mut self, client: ClientId) -> bool {
        self.watchers.retain(|watcher| *watcher != client);
        let owned = self.is_owned_by(client);
        self.more_owners.retain(|owner| *owner != client);
        if self.owner == Some(client) {
            self.owner = self.more_owners.pop();
        }
        owned
    }

    /// Everybody who depended on it or watched it, once it has ended.
    pub(crate) fn take_clients(&mut self) -> Vec<ClientId> {
        self.orphan_until = None;
        let mut clients = std::mem::take(&mut self.more_owners);
        clients.append(&mut self.watchers);
        clients.extend(self.owner.take());
        clients
    }
}
