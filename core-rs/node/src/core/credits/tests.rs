//! Producers and consumers that run whenever they can, over links that deliver grants late, and what rule 10 promises.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::{Amount, Grant, Meter};

const FRAME_BYTES: u64 = 10;

/// One step of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Emit(usize),
    Read(usize),
}

/// A stream, seen from both ends.
#[derive(Debug)]
struct Lane {
    made: Amount,
    /// How much of that has gone to the reader.
    passed: Amount,
    unread: u64,
    meter: Meter,
    /// Grants on their way to the producer, which keep their order.
    coming: VecDeque<Grant>,
    grant: Grant,
}

impl Lane {
    fn new(window: Amount) -> Self {
        Self {
            made: Amount::default(),
            passed: Amount::default(),
            unread: 0,
            meter: Meter::default(),
            coming: VecDeque::new(),
            grant: Grant {
                passes: window,
                holds: false,
            },
        }
    }

    fn make(&mut self) -> bool {
        let room = self.grant.has_room(self.made);
        if room {
            self.made = self.made.plus(frames(1));
            self.pass();
        }
        room
    }

    fn take_grant(&mut self, grant: Grant) {
        self.grant = grant;
        self.pass();
    }

    /// What may come, comes.
    fn pass(&mut self) {
        while self.passed != self.made && self.grant.passes.has_room(self.passed) {
            self.passed = self.passed.plus(frames(1));
            self.unread += 1;
        }
    }

    fn read(&mut self, window: Amount) -> Option<Grant> {
        self.unread -= 1;
        self.meter.note(frames(1), frames(self.unread), window)
    }
}

fn frames(frames: u64) -> Amount {
    Amount {
        frames,
        bytes: frames * FRAME_BYTES,
    }
}

/// Roles with fixed programs over streams, each from an earlier role to a later one.
#[derive(Debug)]
struct World {
    lanes: Vec<Lane>,
    programs: Vec<VecDeque<Step>>,
    window: Amount,
}

impl World {
    /// One step of a role, if it can; what it waits for changes nothing but grants.
    fn run(&mut self, role: usize) -> bool {
        let Some(step) = self.programs[role].front().copied() else {
            return false;
        };
        match step {
            Step::Emit(lane) => {
                if !self.lanes[lane].make() {
                    return false;
                }
            }
            Step::Read(lane) if self.lanes[lane].unread == 0 => return self.wait_for(role, lane),
            Step::Read(lane) => {
                let grant = self.lanes[lane].read(self.window);
                self.lanes[lane].coming.extend(grant);
            }
        }
        self.programs[role].pop_front();
        if self.programs[role].is_empty() {
            self.lift(role, None);
        }
        true
    }

    /// True when something was told.
    fn wait_for(&mut self, role: usize, lane: usize) -> bool {
        self.lift(role, Some(lane))
    }

    fn lift(&mut self, role: usize, but: Option<usize>) -> bool {
        let mut told = false;
        for index in self.read_by(role) {
            if Some(index) != but {
                let lane = &mut self.lanes[index];
                let grant = lane.meter.lift();
                told |= grant.is_some();
                lane.coming.extend(grant);
            }
        }
        told
    }

    /// The streams of which the role still reads, or has read.
    fn read_by(&self, role: usize) -> Vec<usize> {
        self.readers()
            .filter(|(_, reader)| *reader == role)
            .map(|(lane, _)| lane)
            .collect()
    }

    fn readers(&self) -> impl Iterator<Item = (usize, usize)> {
        LANES
            .iter()
            .enumerate()
            .map(|(lane, (_, reader))| (lane, *reader))
    }

    fn deliver(&mut self, lane: usize) -> bool {
        let lane = &mut self.lanes[lane];
        match lane.coming.pop_front() {
            Some(grant) => {
                lane.take_grant(grant);
                true
            }
            None => false,
        }
    }
}

/// A diamond with a short cut, and a chain behind it: (producer, consumer) of each stream.
const LANES: [(usize, usize); 6] = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (3, 4)];
const ROLES: usize = 5;

/// Each role's steps in some order, of which the readers' and senders' numbers fit.
fn programs(counts: [usize; 6]) -> impl Strategy<Value = Vec<VecDeque<Step>>> {
    let mut steps: Vec<Vec<Step>> = vec![Vec::new(); ROLES];
    for (lane, (from, to)) in LANES.iter().enumerate() {
        for _ in 0..counts[lane] {
            steps[*from].push(Step::Emit(lane));
            steps[*to].push(Step::Read(lane));
        }
    }
    let shuffled: Vec<_> = steps
        .into_iter()
        .map(|steps| Just(steps).prop_shuffle())
        .collect();
    shuffled.prop_map(|steps| steps.into_iter().map(VecDeque::from).collect())
}

fn world() -> impl Strategy<Value = World> {
    let count = || 0usize..40;
    let counts = [count(), count(), count(), count(), count(), count()];
    (counts.prop_flat_map(programs), 1u64..8, 1u64..200).prop_map(|(programs, frames, bytes)| {
        let window = Amount { frames, bytes };
        World {
            lanes: LANES.iter().map(|_| Lane::new(window)).collect(),
            programs,
            window,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn rule_10_no_graph_of_streams_deadlocks_however_slow_its_sides_are(
        mut world in world(),
        choices in proptest::collection::vec(any::<(bool, u8)>(), 0..400),
    ) {
        for (grant, choice) in choices {
            match grant {
                true => world.deliver(usize::from(choice) % LANES.len()),
                false => world.run(usize::from(choice) % ROLES),
            };
        }
        // From here on everybody who can goes on.
        loop {
            let told = (0..LANES.len()).filter(|lane| world.deliver(*lane)).count();
            let ran = (0..ROLES).filter(|role| world.run(*role)).count();
            if told + ran == 0 {
                break;
            }
        }
        prop_assert!(world.programs.iter().all(VecDeque::is_empty), "{world:?}");
    }

    #[test]
    fn rule_10_what_a_slow_reader_has_unread_is_bounded(window in 2u64..50, count in 1u64..2_000, pace in 1u64..10) {
        let window = frames(window);
        let mut lane = Lane::new(window);
        let mut kept = 0;
        // As much as the producer may, then one read, `pace` times as slow.
        for turn in 0..count {
            lane.make();
            if turn % pace == 0 && lane.unread > 0 {
                let grant = lane.read(window);
                grant.into_iter().for_each(|grant| lane.take_grant(grant));
            }
            prop_assert!(lane.unread <= window.frames);
            kept = kept.max(lane.made.frames - lane.passed.frames);
        }
        prop_assert!(kept <= window.frames * pace, "{kept} kept by its producer");
    }

    #[test]
    fn rule_10_what_nobody_reads_stays_with_its_producer(window in 1u64..50, count in 1u64..2_000) {
        let window = frames(window);
        let mut lane = Lane::new(window);
        for _ in 0..count {
            prop_assert!(lane.make(), "nobody holds it up");
        }
        prop_assert_eq!(lane.unread, window.frames.min(count));
        let mut read = 0;
        while lane.unread > 0 {
            let grant = lane.read(window);
            grant.into_iter().for_each(|grant| lane.take_grant(grant));
            read += 1;
        }
        prop_assert_eq!(read, count, "and comes as it is read");
    }
}

#[test]
fn rule_10_a_reader_that_keeps_up_speaks_once_in_half_a_window_and_holds_nobody_up() {
    let mut meter = Meter::default();
    let said = (0..1_000).filter_map(|_| meter.note(frames(1), frames(0), frames(10)));
    let said: Vec<Grant> = said.collect();
    assert_eq!(said.len(), 200);
    assert!(said.iter().all(|grant| !grant.holds));
    assert_eq!(meter.lift(), None);
}

#[test]
fn a_frame_larger_than_the_window_gets_through() {
    let window = Amount {
        frames: 10,
        bytes: 1,
    };
    let mut meter = Meter::default();
    let grant = meter
        .note(frames(1), frames(1), window)
        .expect("it is behind");
    assert!(!grant.has_room(frames(2)));
    let grant = meter
        .note(frames(1), frames(0), window)
        .expect("it has read on");
    assert!(grant.has_room(frames(2)) == grant.passes.has_room(frames(2)));
    let lifted = meter.lift().expect("it was behind");
    assert!(lifted.has_room(frames(1_000)));
}
