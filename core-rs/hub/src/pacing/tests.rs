//! A worker that makes a result, the scheduler, and a client that reads when it likes, leaves and comes back, over a link that
//! delivers grants late.

use std::collections::VecDeque;

use bytes::Bytes;
use omniflow_flow::{Amount, Grant, Item};
use proptest::prelude::*;

use super::{Reader, WINDOW};
use crate::result_log::ResultLog;

const FRAME: &[u8] = b"0123456";
const QUOTA: u64 = 10 * FRAME.len() as u64;

#[derive(Clone, Copy, Debug)]
enum Step {
    Make,
    Deliver,
    Read,
    Leave,
    Return,
    LeaveOff,
    ReadOn,
    StartOver,
}

struct World {
    made: u64,
    passed: u64,
    grant: Grant,
    /// On their way to the worker.
    coming: VecDeque<Grant>,
    log: ResultLog,
    cursor: u64,
    there: bool,
    /// The client, if it is there.
    reads: bool,
    /// Whether more than a window may be at the scheduler.
    loose: bool,
}

fn amount(frames: u64) -> Amount {
    Amount {
        frames,
        bytes: frames * FRAME.len() as u64,
    }
}

impl World {
    fn new() -> Self {
        Self {
            made: 0,
            passed: 0,
            grant: untold(),
            coming: VecDeque::new(),
            log: ResultLog::default(),
            cursor: 0,
            there: true,
            reads: true,
            loose: false,
        }
    }

    fn reader(&self) -> Reader {
        match (self.there, self.reads) {
            (true, true) => Reader::There,
            (true, false) => Reader::Elsewhere,
            (false, _) => Reader::Away(QUOTA),
        }
    }

    fn make(&mut self) -> bool {
        let room = self.grant.has_room(amount(self.made));
        self.made += u64::from(room);
        self.pass();
        room
    }

    fn pass(&mut self) {
        while self.passed < self.made && self.grant.passes.has_room(amount(self.passed)) {
            let item = Item::Frame {
                seq: self.passed,
                payload: Bytes::from_static(FRAME),
            };
            assert_eq!(self.log.push(item), None);
            self.passed += 1;
            self.tell();
        }
    }

    fn tell(&mut self) {
        let grant = self.log.pace.due(self.reader());
        self.coming.extend(grant);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Make => _ = self.make(),
            Step::Deliver => self.deliver(),
            Step::Read => self.read(),
            Step::Leave | Step::Return => {
                self.there = matches!(step, Step::Return);
                self.loose |= !self.there;
                self.tell();
            }
            Step::LeaveOff | Step::ReadOn => {
                self.reads = matches!(step, Step::ReadOn);
                self.tell();
            }
            Step::StartOver => {
                self.log.start_over();
                (self.made, self.passed) = (0, 0);
                self.grant = untold();
                self.coming.clear();
                let told = self.log.pace.told_anew(self.reader());
                self.coming.extend(told);
            }
        }
    }

    fn deliver(&mut self) {
        if let Some(grant) = self.coming.pop_front() {
            self.grant = grant;
            self.pass();
        }
    }

    fn deliver_all(&mut self) {
        while !self.coming.is_empty() {
            self.deliver();
        }
    }

    /// One frame, if there is one.
    fn read(&mut self) {
        if self.there
            && let Some((_, next)) = self.log.read(0, self.cursor)
        {
            self.cursor = next;
            self.log.reach(next);
            self.tell();
        }
    }
}

fn untold() -> Grant {
    Grant {
        passes: WINDOW,
        holds: false,
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Make),
        6 => Just(Step::Deliver),
        6 => Just(Step::Read),
        1 => Just(Step::Leave),
        1 => Just(Step::Return),
        1 => Just(Step::LeaveOff),
        1 => Just(Step::ReadOn),
        1 => Just(Step::StartOver),
    ]
}

proptest! {
    #[test]
    fn rule_10_a_result_comes_as_far_as_it_is_read_and_never_stands_still(
        steps in proptest::collection::vec(step(), 0..300),
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            let ahead = world.passed.saturating_sub(world.log.pace.reached());
            prop_assert!(world.loose || ahead <= WINDOW.frames, "{ahead} frames unread");
        }
        // A client that reads gets everything, whatever was before.
        world.step(Step::Return);
        world.step(Step::ReadOn);
        let all = world.made.max(world.cursor) + 50;
        for _ in 0..20 * all {
            while world.made < all && world.make() {}
            world.deliver();
            world.read();
        }
        prop_assert_eq!((world.made, world.cursor), (all, all));
    }

    #[test]
    fn rule_10_a_client_that_does_not_read_holds_nobody_up_and_a_window_comes(read in 0u64..20) {
        let mut world = World::new();
        for _ in 0..read {
            while !world.make() {
                world.deliver();
            }
            world.deliver_all();
            world.read();
        }
        world.step(Step::LeaveOff);
        world.deliver_all();
        for _ in 0..100 {
            prop_assert!(world.make());
        }
        prop_assert_eq!(world.passed, read + WINDOW.frames);
    }

    #[test]
    fn rule_10_without_a_client_a_quota_comes_and_nobody_is_held_up(read in 0u64..20) {
        let mut world = World::new();
        for _ in 0..read {
            while !world.make() {
                world.deliver();
            }
            world.deliver_all();
            world.read();
        }
        world.step(Step::Leave);
        world.deliver_all();
        for _ in 0..100 {
            prop_assert!(world.make());
        }
        prop_assert_eq!(world.passed, read + 10);
    }
}
