//! Whose turn it is in a ready queue. Pure.
//!
//! A higher class goes first. Within a class jobs are served in turn: each job's first activation that waits, then each
//! one's second, and so on, so that a job that fans out wide holds up no other by more than one activation. Within a turn the
//! scheduler's order of the jobs counts, then the arrival. A job that comes with every activation only when the one before is
//! done has no advantage by that: whatever comes is put behind the turn that is being served.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use crate::ids::JobId;

/// A place in the queue. Smaller runs sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    class: Reverse<i32>,
    turn: u64,
    /// The order's bits, turned so that they sort as the numbers do.
    order: i64,
    arrival: u64,
}

/// A job as far as it waits here.
#[derive(Debug)]
struct Waiting {
    count: usize,
    /// The last turn that it has.
    last: u64,
}

/// See the module. Every operation is a look-up or two.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    arrivals: u64,
    /// By class: the turn that is being served.
    served: FxHashMap<i32, u64>,
    jobs: FxHashMap<JobId, Waiting>,
}

impl Turns {
    /// The next activation of a job.
    pub(crate) fn join(&mut self, job: JobId, class: i32, order: f64) -> Rank {
        self.arrivals += 1;
        let served = self.served.get(&class).copied().unwrap_or_default();
        let waiting = self
            .jobs
            .entry(job)
            .or_insert(Waiting { count: 0, last: 0 });
        waiting.count += 1;
        waiting.last = served.max(waiting.last) + 1;
        Rank {
            class: Reverse(class),
            turn: waiting.last,
            order: sortable(order),
            arrival: self.arrivals,
        }
    }

    /// It is served.
    pub(crate) fn serve(&mut self, job: JobId, rank: Rank) {
        let served = self.served.entry(rank.class.0).or_default();
        *served = rank.turn.max(*served);
        self.leave(job);
    }

    /// It waits no longer.
    pub(crate) fn leave(&mut self, job: JobId) {
        if let Some(waiting) = self.jobs.get_mut(&job) {
            waiting.count -= 1;
            if waiting.count == 0 {
                self.jobs.remove(&job);
            }
        }
    }
}

/// The total order of floats, as `f64::total_cmp` has it.
fn sortable(order: f64) -> i64 {
    let bits = order.to_bits() as i64;
    bits ^ ((((bits >> 63) as u64) >> 1) as i64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Activations by number; the order of a job is its number.
    #[derive(Default)]
    struct Queue {
        turns: Turns,
        waiting: BTreeMap<Rank, (u64, u32)>,
    }

    impl Queue {
        fn push(&mut self, job: u64, class: i32, number: u32) {
            let rank = self.turns.join(JobId(job), class, job as f64);
            self.waiting.insert(rank, (job, number));
        }

        fn pop(&mut self) -> Option<(u64, u32)> {
            let (rank, (job, number)) = self.waiting.pop_first()?;
            self.turns.serve(JobId(job), rank);
            Some((job, number))
        }
    }

    #[test]
    fn order_sorts_as_numbers_do() {
        let numbers = [f64::NEG_INFINITY, -2.5, -0.0, 0.0, 1e-9, 3.0, f64::INFINITY];
        assert!(numbers.map(sortable).is_sorted());
    }

    #[test]
    fn a_wide_fan_out_holds_up_other_jobs_by_one_activation() {
        let mut queue = Queue::default();
        (0..1_000).for_each(|number| queue.push(1, 0, number));
        for number in 0..10 {
            assert_eq!(queue.pop(), Some((1, number)));
        }
        queue.push(2, 0, 0);
        queue.push(3, 0, 0);
        let next: Vec<u64> = (0..4)
            .filter_map(|_| queue.pop())
            .map(|(job, _)| job)
            .collect();
        assert_eq!(next, [1, 2, 3, 1]);
    }

    #[test]
    fn jobs_with_one_activation_each_go_in_the_schedulers_order() {
        let mut queue = Queue::default();
        for job in [5, 3, 9, 4] {
            queue.push(job, 0, 0);
        }
        let served: Vec<u64> = std::iter::from_fn(|| queue.pop())
            .map(|(job, _)| job)
            .collect();
        assert_eq!(served, [3, 4, 5, 9]);
        assert!(queue.turns.jobs.is_empty());
    }

    #[test]
    fn a_job_that_comes_again_at_once_passes_nobody_who_waits() {
        let mut queue = Queue::default();
        queue.push(1, 0, 0);
        queue.push(2, 0, 0);
        let mut served = Vec::new();
        for _ in 0..6 {
            let (job, _) = queue.pop().expect("one waits");
            served.push(job);
            queue.push(job, 0, 0);
        }
        assert_eq!(served, [1, 2, 1, 2, 1, 2]);
    }

    #[test]
    fn a_higher_class_goes_first_and_takes_no_turn_of_a_lower_one() {
        let mut queue = Queue::default();
        (0..3).for_each(|number| queue.push(1, 0, number));
        (0..100).for_each(|number| queue.push(7, 5, number));
        queue.push(2, 0, 0);
        let served: Vec<u64> = std::iter::from_fn(|| queue.pop())
            .map(|(job, _)| job)
            .collect();
        assert!(served[..100].iter().all(|job| *job == 7));
        assert_eq!(served[100..], [1, 2, 1, 1]);
    }

    proptest! {
        /// Between two activations of one job, no other job that waits all the while is passed over.
        #[test]
        fn no_job_that_waits_is_passed_over_twice(
            steps in prop::collection::vec((0..6u64, 1..20u32, 0..12usize), 1..60),
        ) {
            let mut queue = Queue::default();
            let mut waits: BTreeMap<u64, u32> = BTreeMap::new();
            // How often others were served since this job was, or began to wait.
            let mut passed: BTreeMap<u64, BTreeMap<u64, u32>> = BTreeMap::new();
            for (job, count, pops) in steps {
                for number in 0..count {
                    queue.push(job, 0, number);
                }
                *waits.entry(job).or_default() += count;
                for _ in 0..pops {
                    let Some((served, _)) = queue.pop() else { break };
                    *waits.entry(served).or_default() -= 1;
                    passed.remove(&served);
                    for (other, _) in waits.iter().filter(|(other, count)| **count > 0 && **other != served) {
                        let times = passed.entry(*other).or_default().entry(served).or_default();
                        *times += 1;
                        prop_assert!(*times <= 2, "job {other} was passed over by {served}");
                    }
                }
            }
        }
    }
}
