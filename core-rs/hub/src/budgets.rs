//! Bytes that the scheduler holds for its clients: inputs of jobs that run, results that are kept. A job more is taken only
//! while there is room, so that overload is refused instead of eaten.

use std::collections::VecDeque;

use omniflow_control::{Code, Event, Fault, JobId, Micros, key};

use crate::job_data::JobData;
use crate::state::State;

/// What a refused client is told to wait: inputs go as jobs end, results as they are read.
const RETRY_AFTER_MS: u64 = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    /// Of inputs, and of what the scheduler's resolvers made of them.
    pub(crate) held_inputs: usize,
    /// Of results, and of what gathers to become one.
    pub(crate) kept_results: usize,
    /// Ended jobs that some client knows all about, oldest first: their results are kept only while there is room.
    pub(crate) delivered: VecDeque<JobId>,
}

impl State {
    /// Why a job with so many bytes of inputs cannot be taken now.
    pub(crate) fn over_budget(&mut self, input_bytes: usize, now: Micros) -> Option<Fault> {
        let limit = self.config.max_held_input_bytes;
        let held = self.budgets.held_inputs;
        if held + input_bytes > limit {
            let message = format!(
                "the inputs of all jobs have {held} bytes, and the scheduler holds {limit} at most"
            );
            let advice = "send them more slowly, add workers,";
            return Some(exhausted(message, advice, "max_held_input_bytes"));
        }
        let waiting = self.workers.backlog(limit);
        if waiting > limit {
            let message =
                format!("{waiting} bytes of inputs wait for workers to take them, and {limit} may");
            let advice = "send them more slowly, see which worker is slow,";
            return Some(exhausted(message, advice, "max_held_input_bytes"));
        }
        self.make_room(now);
        let (limit, kept) = (self.config.max_kept_result_bytes, self.budgets.kept_results);
        (kept > limit).then(|| {
            let message =
                format!("{kept} bytes of results wait for clients to read them, and {limit} may");
            let advice = "read results as they come and acknowledge them,";
            exhausted(message, advice, "max_kept_result_bytes")
        })
    }

    /// Results that were delivered are kept for clients that come back, as long as there is room.
    fn make_room(&mut self, now: Micros) {
        while self.budgets.kept_results > self.config.max_kept_result_bytes
            && let Some(job) = self.budgets.delivered.pop_front()
        {
            if self
                .jobs
                .get(&job)
                .is_some_and(|data| data.subscribers.is_empty())
            {
                self.step(Event::Forget { job }, now);
            }
        }
    }

    /// The job's record is gone.
    pub(crate) fn forget_bytes(&mut self, data: &JobData) {
        self.budgets.held_inputs -= data.held_bytes();
        self.budgets.kept_results -= data.result_bytes() + data.gathered_bytes();
        // Records go in about the order in which they were delivered.
        while let Some(job) = self.budgets.delivered.front()
            && !self.jobs.contains_key(job)
        {
            self.budgets.delivered.pop_front();
        }
    }
}

fn exhausted(message: String, advice: &str, limit: &str) -> Fault {
    let cure = format!(
        "try again after retry_after_ms, {advice} or raise {}",
        key(limit)
    );
    let mut fault = Fault::new(Code::ResourceExhausted, message, cure);
    fault.retry_after_ms = RETRY_AFTER_MS;
    fault
}
