//! What went over each port of an activation: frames, bytes, when the first and last came, and when some of those between.

use std::time::Instant;

use omniflow_wire::v1;
use parking_lot::Mutex;

use crate::core::credits::Amount;

/// Times kept of a port. When they are full, every second one goes and only every second frame from then on is noted.
const MAX_SAMPLES: usize = 16;

/// Of one port.
#[derive(Debug)]
struct PortCount {
    port: u32,
    frames: u64,
    bytes: u64,
    first: Instant,
    last: Instant,
    samples: Vec<Instant>,
    stride: u64,
}

/// Both sides of an activation, counted as its frames come and go.
#[derive(Debug, Default)]
pub(crate) struct Traffic(Mutex<Sides>);

#[derive(Debug, Default)]
struct Sides {
    inputs: FlowCounts,
    outputs: FlowCounts,
}

impl Traffic {
    /// A frame that it reads. A plain input counts when the activation is queued.
    pub(crate) fn came(&self, port: u32, bytes: usize, now: Instant) {
        self.0.lock().inputs.note(port, bytes, now);
    }

    /// A frame that it gave.
    pub(crate) fn gave(&self, port: u32, bytes: usize, now: Instant) {
        self.0.lock().outputs.note(port, bytes, now);
    }

    /// How much it gave on an output port.
    pub(crate) fn given(&self, port: u32) -> Amount {
        let sides = self.0.lock();
        let count = sides.outputs.0.iter().find(|count| count.port == port);
        count.map_or_else(Amount::default, |count| Amount {
            frames: count.frames,
            bytes: count.bytes,
        })
    }

    /// Into the event that says that it is over, `now`.
    pub(crate) fn tell(&self, event: &mut v1::NodeEvent, now: Instant) {
        let sides = self.0.lock();
        event.inputs = sides.inputs.to_wire(now);
        event.outputs = sides.outputs.to_wire(now);
    }
}

/// Of the ports on one side of an activation. Most have one.
#[derive(Debug, Default)]
struct FlowCounts(Vec<PortCount>);

impl FlowCounts {
    fn note(&mut self, port: u32, bytes: usize, now: Instant) {
        match self.0.iter_mut().find(|count| count.port == port) {
            Some(count) => count.note(bytes, now),
            None => self.0.push(PortCount::new(port, bytes, now)),
        }
    }

    fn to_wire(&self, now: Instant) -> Vec<v1::PortCount> {
        self.0.iter().map(|count| count.to_wire(now)).collect()
    }
}

impl PortCount {
    fn new(port: u32, bytes: usize, now: Instant) -> Self {
        Self {
            port,
            frames: 1,
            bytes: bytes as u64,
            first: now,
            last: now,
            // A single frame, the usual case, costs no allocation: its time is `first`.
            samples: Vec::new(),
            stride: 1,
        }
    }

    fn note(&mut self, bytes: usize, now: Instant) {
        if self.samples.is_empty() {
            self.samples.reserve_exact(MAX_SAMPLES);
            self.samples.push(self.first);
        }
        if self.frames.is_multiple_of(self.stride) {
            if self.samples.len() == MAX_SAMPLES {
                self.thin_out();
            }
            if self.frames.is_multiple_of(self.stride) {
                self.samples.push(now);
            }
        }
        self.frames += 1;
        self.bytes += bytes as u64;
        self.last = now;
    }

    fn thin_out(&mut self) {
        let mut index = 0;
        self.samples.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        self.stride *= 2;
    }

    fn to_wire(&self, now: Instant) -> v1::PortCount {
        let before = |at: Instant| now.saturating_duration_since(at).as_micros() as u64;
        v1::PortCount {
            port: self.port,
            frames: self.frames,
            bytes: self.bytes,
            first_before_us: before(self.first),
            last_before_us: before(self.last),
            sampled_before_us: self.samples.iter().copied().map(before).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_single_frame_has_its_time_and_no_samples() {
        let start = Instant::now();
        let mut counts = FlowCounts::default();
        counts.note(3, 100, start);
        let wire = counts.to_wire(start + Duration::from_micros(7));
        assert_eq!(wire.len(), 1);
        assert_eq!((wire[0].port, wire[0].frames, wire[0].bytes), (3, 1, 100));
        assert_eq!((wire[0].first_before_us, wire[0].last_before_us), (7, 7));
        assert!(wire[0].sampled_before_us.is_empty());
    }

    #[test]
    fn samples_are_bounded_and_evenly_chosen_by_number() {
        let start = Instant::now();
        for frames in [2_u64, 16, 17, 100, 1_000, 100_000] {
            let mut counts = FlowCounts::default();
            for frame in 0..frames {
                counts.note(0, 1, start + Duration::from_micros(frame));
            }
            let end = start + Duration::from_micros(frames);
            let wire = counts.to_wire(end).remove(0);
            assert_eq!((wire.frames, wire.bytes), (frames, frames));
            assert_eq!((wire.first_before_us, wire.last_before_us), (frames, 1));
            let numbers: Vec<u64> = wire
                .sampled_before_us
                .iter()
                .map(|before| frames - before)
                .collect();
            assert!(
                numbers.len() <= MAX_SAMPLES
                    && numbers.len() * 2 >= MAX_SAMPLES.min(frames as usize)
            );
            assert_eq!(numbers[0], 0);
            let stride = numbers[1];
            assert!(
                numbers.windows(2).all(|pair| pair[1] - pair[0] == stride),
                "{numbers:?}"
            );
        }
    }

    #[test]
    fn ports_are_counted_apart() {
        let now = Instant::now();
        let mut counts = FlowCounts::default();
        for (port, bytes) in [(0, 1), (1, 10), (0, 2)] {
            counts.note(port, bytes, now);
        }
        let wire = counts.to_wire(now);
        let counted: Vec<_> = wire
            .iter()
            .map(|count| (count.port, count.frames, count.bytes))
            .collect();
        assert_eq!(counted, [(0, 2, 3), (1, 1, 10)]);
    }
}
