//! Why a job is taken, or refused.

use omniflow_placement::RoleId;

use crate::effect::Effect;
use crate::event::Submission;
use crate::fault::Fault;
use crate::ids::{JobId, Micros};
use crate::job::Job;
use crate::table::Control;

/// Priorities lie between minus this and this.
const PRIORITY_LIMIT: i32 = 4_096;
/// Arrivals that fit into one priority class: together they fill the 53 bits that a double holds exactly.
const CLASS: i64 = 1 << 40;

impl Control {
    pub(crate) fn submit(
        &mut self,
        submission: Submission,
        now: Micros,
        effects: &mut Vec<Effect>,
    ) {
        let ticket = submission.ticket;
        if let Some(job) = self.known(&submission) {
            self.own(job, submission.client);
            effects.push(Effect::Accepted {
                ticket,
                job,
                existed: true,
            });
            return;
        }
        if let Some(fault) = self.refusal(&submission) {
            effects.push(Effect::Refused {
                ticket,
                fault: Box::new(fault),
            });
            return;
        }
        let job = self.admit(submission, now);
        effects.push(Effect::Accepted {
            ticket,
            job,
            existed: false,
        });
        self.place(job, now, effects);
    }

    fn known(&self, submission: &Submission) -> Option<JobId> {
        self.job_of_key(&submission.tenant, &submission.idempotency_key)
    }

    /// Why the job cannot be taken; none when it can.
    fn refusal(&self, submission: &Submission) -> Option<Fault> {
        if self.closed {
            return Some(Fault::closing());
        }
        if submission.priority.unsigned_abs() > PRIORITY_LIMIT.unsigned_abs() {
            return Some(Fault::priority(submission.priority, PRIORITY_LIMIT));
        }
        if submission.deadline_ms > self.limits.max_deadline_ms {
            return Some(Fault::deadline(
                submission.deadline_ms,
                self.limits.max_deadline_ms,
            ));
        }
        let Some(plan) = self.plans.get(submission.flow.0 as usize) else {
            return Some(Fault::invalid(
                "flow",
                "the flow has no number here",
                "register it again",
            ));
        };
        let strange = |role: &RoleId| !self.fleet.was_seen(*role);
        let roles = plan.nodes.iter().map(|node| node.role.filter(strange));
        if let Some((node, role)) = (0..)
            .zip(roles)
            .find_map(|(node, role)| Some((node, role?)))
        {
            let role = self.fleet.role_name(role);
            return Some(Fault::unknown_role(
                role,
                plan.name(node),
                &self.fleet.seen_roles(),
            ));
        }
        if self.live >= self.limits.queue_limit {
            return Some(Fault::queue_full(
                self.live,
                self.limits.queue_limit,
                self.retry_after_ms(),
            ));
        }
        None
    }

    /// The time in which a tenth of the queue makes room at the present pace.
    fn retry_after_ms(&self) -> u64 {
        let slots = (self.limits.queue_limit / 10).clamp(1, 1_000) as f64;
        let ms = if self.pace_us > 0.0 {
            self.pace_us * slots / 1_000.0
        } else {
            1_000.0
        };
        ms.clamp(10.0, 30_000.0) as u64
    }

    fn admit(&mut self, submission: Submission, now: Micros) -> JobId {
        let id = JobId(self.next_job);
        self.next_job += 1;
        self.arrivals += 1;
        let allowed_ms = match submission.deadline_ms {
            0 => self.limits.max_deadline_ms,
            asked => asked,
        };
        let deadline = now.plus_ms(allowed_ms);
        let rank = rank(submission.priority, self.arrivals);
        if !submission.idempotency_key.is_empty() {
            let key = (
                submission.tenant.clone(),
                submission.idempotency_key.clone(),
            );
            self.by_key.insert(key, id);
        }
        self.owned.entry(submission.client).or_default().insert(id);
        let plan = &self.plans[submission.flow.0 as usize];
        let mut job = Job::new(id, submission, plan, rank as f64, now, deadline);
        job.arrival = self.arrivals;
        job.begin(plan, 0);
        self.jobs.insert(id, Box::new(job));
        self.timers.insert((deadline, id));
        self.live += 1;
        id
    }
}

/// Place in every queue: a higher class first, then by arrival.
fn rank(priority: i32, arrival: u64) -> i64 {
    (arrival as i64 % CLASS) - i64::from(priority) * CLASS
}
