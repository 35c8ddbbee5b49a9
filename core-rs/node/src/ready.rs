//! The ready queue of one role: by the scheduler's order of the job, then by arrival.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::activation::Activation;
use crate::error::NodeError;

/// Smaller runs sooner. The order's bits, turned so that they sort as the numbers do; then the arrival.
type Rank = (i64, u64);

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<Rank, Arc<Activation>>,
    arrivals: u64,
    /// Whether an activation that was refused room has got some.
    room: bool,
    closed: bool,
}

/// Activations that wait for an engine.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    state: Mutex<State>,
    filled: Condvar,
}

impl ReadyQueue {
    /// Adds one; `wake` follows once per batch.
    pub(crate) fn push(&self, activation: Arc<Activation>) {
        let mut state = self.state.lock();
        state.arrivals += 1;
        activation.arrival.store(state.arrivals, Ordering::Relaxed);
        state.waiting.insert(rank(&activation), activation);
    }

    /// An activation of this role can send again: whoever takes next comes back at once, for engines that wait here.
    pub(crate) fn tell_of_room(&self) {
        self.state.lock().room = true;
    }

    pub(crate) fn wake(&self) {
        self.filled.notify_all();
    }

    /// Takes a cancelled activation out again, so that it holds no place.
    pub(crate) fn remove(&self, activation: &Activation) {
        self.state.lock().waiting.remove(&rank(activation));
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().waiting.len()
    }

    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.wake();
    }

    /// Up to `max_n`, as soon as there is one; none after `timeout`, or when there is room again for what was refused.
    /// What must not run any more is left out.
    pub(crate) fn take(
        &self,
        max_n: usize,
        timeout: Duration,
    ) -> Result<Vec<Arc<Activation>>, NodeError> {
        let until = Instant::now().checked_add(timeout);
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return Err(NodeError::Closed);
            }
            let taken = state.pop(max_n.max(1));
            if std::mem::take(&mut state.room) || !taken.is_empty() {
                return Ok(taken);
            }
            match until {
                Some(until) if Instant::now() >= until => return Ok(Vec::new()),
                Some(until) => drop(self.filled.wait_until(&mut state, until)),
                None => self.filled.wait(&mut state),
            }
        }
    }
}

impl State {
    fn pop(&mut self, max_n: usize) -> Vec<Arc<Activation>> {
        let mut taken = Vec::new();
        while taken.len() < max_n {
            let Some((_, activation)) = self.waiting.pop_first() else {
                break;
            };
            if !activation.cancelled() {
                taken.push(activation);
            }
        }
        taken
    }
}

fn rank(activation: &Activation) -> Rank {
    let arrival = activation.arrival.load(Ordering::Relaxed);
    (sortable(activation.order), arrival)
}

/// The total order of floats, as `f64::total_cmp` has it.
fn sortable(order: f64) -> i64 {
    let bits = order.to_bits() as i64;
    bits ^ ((((bits >> 63) as u64) >> 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_sorts_as_numbers_do() {
        let numbers = [f64::NEG_INFINITY, -2.5, -0.0, 0.0, 1e-9, 3.0, f64::INFINITY];
        assert!(numbers.map(sortable).is_sorted());
    }

    #[test]
    fn an_empty_queue_answers_after_the_timeout_and_a_closed_one_at_once() {
        let queue = ReadyQueue::default();
        assert!(queue.take(1, Duration::ZERO).expect("open").is_empty());
        queue.close();
        let closed = queue.take(1, Duration::from_secs(60));
        assert!(matches!(closed, Err(NodeError::Closed)));
    }
}
