//! The ready queue of one role: jobs in turn, within a turn by the scheduler's order (`turns`).

mod turns;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::activation::Activation;
use crate::error::NodeError;
pub(crate) use turns::Rank;
use turns::Turns;

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<Rank, Arc<Activation>>,
    turns: Turns,
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
        let job = &activation.job;
        let rank = state.turns.join(job.id, job.priority, activation.order);
        // An activation waits in one queue, once.
        let rank = *activation.rank.get_or_init(|| rank);
        state.waiting.insert(rank, activation);
    }

    /// An activation of this role can send again: whoever takes next comes back at once, for engines that wait here.
    pub(crate) fn tell_of_room(&self) {
        self.state.lock().room = true;
    }

    pub(crate) fn wake(&self) {
        self.filled.notify_all();
    }

    /// Takes an activation out again, so that it holds no place. False: no longer, an engine has it.
    pub(crate) fn remove(&self, activation: &Activation) -> bool {
        let Some(rank) = activation.rank.get() else {
            return false;
        };
        let mut state = self.state.lock();
        let waited = state.waiting.remove(rank).is_some();
        if waited {
            state.turns.leave(activation.job.id);
        }
        waited
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
            let Some((rank, activation)) = self.waiting.pop_first() else {
                break;
            };
            self.turns.serve(activation.job.id, rank);
            if !activation.cancelled() {
                taken.push(activation);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_queue_answers_after_the_timeout_and_a_closed_one_at_once() {
        let queue = ReadyQueue::default();
        assert!(queue.take(1, Duration::ZERO).expect("open").is_empty());
        queue.close();
        let closed = queue.take(1, Duration::from_secs(60));
        assert!(matches!(closed, Err(NodeError::Closed)));
    }
}
