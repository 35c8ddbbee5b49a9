//! What went over the ports of an attempt, for its report.

use crate::ids::Micros;

/// Both sides of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// By output port.
    pub outputs: Vec<PortTraffic>,
    /// By input port.
    pub inputs: Vec<PortTraffic>,
}

/// One port. Times are absolute in an update, and microseconds since the job's arrival in an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortTraffic {
    /// The port, by index.
    pub port: u32,
    /// How many.
    pub frames: u64,
    /// How much.
    pub bytes: u64,
    /// Of the first frame.
    pub first: Micros,
    /// Of the last one.
    pub last: Micros,
    /// Of some frames, evenly chosen by number.
    pub sampled: Vec<Micros>,
}

impl Traffic {
    /// The same on the clock of a job that arrived then. Told in another message than the attempt's steps, times may be
    /// off by what the messages took: none is put outside of the attempt, which was queued and ended at these.
    pub(crate) fn since(
        mut self: Box<Self>,
        arrived: Micros,
        queued: u64,
        ended: u64,
    ) -> Box<Self> {
        let within = |at: &mut Micros| *at = Micros(at.since(arrived).min(ended).max(queued));
        for port in self.outputs.iter_mut().chain(&mut self.inputs) {
            within(&mut port.first);
            within(&mut port.last);
            port.sampled.iter_mut().for_each(within);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_put_on_the_jobs_clock_and_never_outside_of_the_attempt() {
        let port = PortTraffic {
            port: 0,
            frames: 3,
            bytes: 30,
            first: Micros(90),
            last: Micros(190),
            sampled: vec![Micros(90), Micros(120), Micros(190)],
        };
        let traffic = Box::new(Traffic {
            outputs: vec![port.clone()],
            inputs: vec![port],
        });
        let traffic = traffic.since(Micros(100), 5, 50);
        assert_eq!(traffic.outputs, traffic.inputs);
        let port = &traffic.outputs[0];
        assert_eq!((port.first, port.last), (Micros(5), Micros(50)));
        assert_eq!(port.sampled, [Micros(5), Micros(20), Micros(50)]);
    }
}
