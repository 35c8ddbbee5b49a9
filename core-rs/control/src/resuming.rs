//! Resumable binds that go on where they were (rule 12): before anything of the job is placed again, whoever reads from them
//! says what was delivered.

use std::collections::BTreeSet;

use omniflow_flow::Key;
use omniflow_placement::WorkerId;

use crate::effect::Effect;
use crate::event::NodeState;
use crate::ids::{JobId, Micros};
use crate::job::{Job, Outcome};
use crate::plan::{Plan, PlannedNode};
use crate::rerun::At;
use crate::slot::Slot;
use crate::table::Control;

/// A bind of which is asked what was delivered.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    at: At,
    epoch: u32,
    /// Who has not answered yet.
    workers: Vec<WorkerId>,
}

impl Control {
    /// These binds have lost their places. Those that can go on from what was delivered are asked about; those that read
    /// something `new` begin anew, even if they were asked about before.
    pub(crate) fn go_on_from(
        &mut self,
        id: JobId,
        again: &BTreeSet<At>,
        new: &BTreeSet<At>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let plan = &self.plans[job.flow.0 as usize];
        for (node, key) in new.iter().filter(|at| plan.nodes[at.0].resumes) {
            job.asked.retain(|asked| asked.at != (*node, key.clone()));
            effects.push(Effect::BeginAnew {
                job: id,
                node: *node as u32,
                key: key.clone(),
            });
        }
        let goes_on = |at: &&At| plan.nodes[at.0].resumes && !new.contains(at);
        for (node, key) in again.iter().filter(goes_on) {
            // It may have sent more than it could still report.
            let Some(slot) = job.slots.get(*node, key) else {
                continue;
            };
            // Every epoch to come is at least that.
            let epoch = slot.epoch.max(job.floor) + 1;
            let readers = job.readers(plan, *node, key, |worker| self.fleet.is_alive(worker));
            let workers: Vec<WorkerId> = readers.into_iter().collect();
            if !workers.is_empty() {
                job.asked.push(Asked {
                    at: (*node, key.clone()),
                    epoch,
                    workers: workers.clone(),
                });
            }
            effects.push(Effect::AskDelivered {
                job: id,
                node: *node as u32,
                key: key.clone(),
                epoch,
                workers,
            });
        }
    }

    pub(crate) fn delivered(
        &mut self,
        id: JobId,
        worker: WorkerId,
        (node, key, epoch): (u32, Key, u32),
        frames: u64,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        let at = (node as usize, key);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.alter(at.0, &at.1, |slot| slot.sent |= frames > 0);
        }
        self.answered(id, now, effects, |asked| {
            if asked.at == at && asked.epoch == epoch {
                asked.workers.retain(|other| *other != worker);
            }
        });
    }

    /// The worker is dead.
    pub(crate) fn answers_nothing(
        &mut self,
        id: JobId,
        worker: WorkerId,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        self.answered(id, now, effects, |asked| {
            asked.workers.retain(|other| *other != worker);
        });
    }

    /// Places the job once nothing is left to be answered.
    fn answered(
        &mut self,
        id: JobId,
        now: Micros,
        effects: &mut Vec<Effect>,
        answer: impl FnMut(&mut Asked),
    ) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.asked.is_empty()) else {
            return;
        };
        job.asked.iter_mut().for_each(answer);
        job.asked.retain(|asked| !asked.workers.is_empty());
        let goes_on = matches!(job.outcome, Outcome::Running | Outcome::Waiting(_));
        if job.asked.is_empty() && goes_on {
            self.place(id, now, effects);
        }
    }
}

impl Job {
    /// Whether some attempt may have sent something. Who feeds a result may have done so without a report having come; of a
    /// resumable one its readers know, who may die before they are asked.
    pub(crate) fn may_have_sent(&self, planned: &PlannedNode, slot: &Slot) -> bool {
        let shown = || planned.results.iter().any(|port| self.has_shown(*port));
        slot.sent || slot.state >= NodeState::Started && (planned.resumes || shown())
    }

    /// Whether frames of the result may be with the client. (Results that are not over are not told apart.)
    pub(crate) fn has_shown(&self, port: u32) -> bool {
        self.open_results.get(port as usize) == Some(&false) || self.first_frame.is_some()
    }

    /// Living workers with binds that read from this one.
    fn readers(
        &self,
        plan: &Plan,
        node: usize,
        key: &Key,
        is_alive: impl Fn(WorkerId) -> bool,
    ) -> BTreeSet<WorkerId> {
        let mut workers = BTreeSet::new();
        for link in &plan.nodes[node].readers {
            let prefix = key.prefix(link.common);
            let slots = self.slots.under(link.node as usize, &prefix);
            let placed = slots.filter(|(_, slot)| slot.is_placed());
            workers.extend(placed.map(|(_, slot)| slot.worker));
        }
        workers.retain(|worker| is_alive(*worker));
        workers
    }
}
