//! What became of activations, kept until the scheduler can hear it.

use std::collections::VecDeque;
use std::time::Instant;

use omniflow_wire::v1;

use crate::core::flow_counts::Traffic;

/// Enough for a scheduler that is away for a while; beyond it the oldest are dropped, and counted.
const MAX_EVENTS: usize = 65_536;

/// The events that wait.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    waiting: VecDeque<(Instant, v1::NodeEvent)>,
    dropped: u64,
}

impl EventLog {
    pub(crate) fn push(&mut self, at: Instant, event: v1::NodeEvent) {
        if self.waiting.len() == MAX_EVENTS {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        self.waiting.push_back((at, event));
    }

    /// The last one says that an activation is over: with what went over its ports.
    pub(crate) fn tell_traffic(&mut self, traffic: &Traffic, now: Instant) {
        if let Some((_, event)) = self.waiting.back_mut() {
            traffic.tell(event, now);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// All of them, with their ages.
    pub(crate) fn take(&mut self, now: Instant) -> Option<v1::Events> {
        if self.waiting.is_empty() {
            return None;
        }
        let aged = |(at, mut event): (Instant, v1::NodeEvent)| {
            event.age_us = now.saturating_duration_since(at).as_micros() as u64;
            event
        };
        let events = self.waiting.drain(..).map(aged).collect();
        Some(v1::Events { events })
    }
}
