//! Rule 17 on two machines, without any: random crashes, cuts, pauses and answers of etcd that get lost.

mod copying;
mod parts;
mod world;

use proptest::prelude::*;

use super::agreement::{Agreement, Marked, Standing};
use parts::Op;
use world::World;

fn op() -> impl Strategy<Value = Op> {
    let node = || 0..2_usize;
    prop_oneof![
        6 => node().prop_map(Op::Submit),
        6 => node().prop_map(Op::Take),
        6 => node().prop_map(Op::Persist),
        8 => Just(Op::ToFollower),
        8 => Just(Op::ToLeader),
        4 => Just(Op::Connect),
        2 => Just(Op::Cut),
        1 => Just(Op::Leave),
        3 => (1..60_u64).prop_map(Op::Pass),
        5 => node().prop_map(Op::Mark),
        2 => node().prop_map(Op::MarkAnswerLost),
        2 => node().prop_map(Op::MarkDelayed),
        1 => Just(Op::DelayedArrives),
        1 => Just(Op::Etcd(false)),
        2 => Just(Op::Etcd(true)),
        2 => Just(Op::LeaderExpires),
        4 => node().prop_map(Op::Elect),
        1 => node().prop_map(Op::Crash),
        3 => node().prop_map(Op::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rule_17_what_was_told_is_in_the_journal_of_whoever_leads_next(
        ops in prop::collection::vec(op(), 0..400),
    ) {
        let mut world = World::new();
        for op in ops {
            world.step(&op);
            if let Err(lost) = world.check() {
                prop_assert!(false, "after {op:?}: {lost}\n{world:?}");
            }
        }
    }

    #[test]
    fn rule_17_when_everything_is_back_the_standby_is_in_sync_and_everything_is_told(
        ops in prop::collection::vec(op(), 0..150),
    ) {
        let mut world = World::new();
        for op in ops {
            world.step(&op);
        }
        world.heal();
        world.check().unwrap();
        let (agreement, last) = world.leading();
        prop_assert_eq!(agreement.standing(), Standing::In, "{:?}", world);
        prop_assert_eq!(agreement.told(), last);
        prop_assert!(!agreement.refuses());
    }
}

#[test]
fn rule_17_with_neither_standby_nor_etcd_new_jobs_are_refused_until_one_of_them_is_back() {
    for standby_returns in [true, false] {
        let mut world = World::in_sync();
        world.step(&Op::Etcd(false));
        world.step(&Op::Crash(1));
        for _ in 0..2 {
            world.step(&Op::Pass(60));
        }
        assert!(!world.leading().0.refuses(), "nobody has asked etcd yet");
        world.step(&Op::Mark(0));
        assert!(world.leading().0.refuses());
        world.step(&Op::Submit(0));
        world.step(&Op::Take(0));
        world.step(&Op::Persist(0));
        let told = world.leading().0.told();
        assert!(told < world.leading().1, "nobody was told");
        if standby_returns {
            world.step(&Op::Restart(1));
            world.step(&Op::Connect);
            world.deliver();
        } else {
            world.step(&Op::Etcd(true));
            world.step(&Op::Mark(0));
        }
        let (agreement, last) = world.leading();
        assert!(!agreement.refuses());
        assert_eq!(agreement.told(), last);
        world.check().unwrap();
    }
}

#[test]
fn rule_17_a_standby_that_leaves_is_marked_at_once_and_one_that_is_silent_after_the_limit() {
    let mut world = World::in_sync();
    world.step(&Op::Leave);
    assert_eq!(world.leading().0.standing(), Standing::Removing);
    let mut world = World::in_sync();
    for op in [Op::Submit(0), Op::Take(0), Op::Persist(0)] {
        world.step(&op);
    }
    world.step(&Op::Pass(world::LIMIT));
    assert_eq!(world.leading().0.standing(), Standing::In);
    world.step(&Op::Pass(1));
    assert_eq!(world.leading().0.standing(), Standing::Removing);
    world.step(&Op::Mark(0));
    assert_eq!(world.leading().0.standing(), Standing::Out);
    assert_eq!(world.leading().0.told(), world.leading().1);
}

#[test]
fn rule_17_a_standby_that_has_to_begin_anew_is_out_of_the_set_before_it_drops_anything() {
    let mut agreement = Agreement::new(world::LIMIT);
    agreement.wrote(5, 1);
    assert!(agreement.follows(1, "b", 5, 1));
    agreement.live(1, 5, 1);
    let admit = agreement.take_mark().unwrap();
    agreement.marked(admit.ticket, Marked::Done, 2);
    assert_eq!(agreement.standing(), Standing::In);
    agreement.gone(1, false, 3);
    // What it lacks is in a snapshot by now.
    assert!(agreement.follows(2, "b", 0, 4));
    assert!(!agreement.is_alone());
    let remove = agreement.take_mark().unwrap();
    assert_eq!(remove.standby, None);
    agreement.marked(remove.ticket, Marked::Unknown, 5);
    assert!(!agreement.is_alone());
    let remove = agreement.take_mark().unwrap();
    agreement.marked(remove.ticket, Marked::Done, 6);
    assert!(agreement.is_alone());
}

#[test]
fn rule_14_a_leader_that_was_stopped_tells_nobody_of_what_its_successor_does_not_have() {
    let mut world = World::in_sync();
    for op in [Op::Submit(0), Op::Take(0), Op::Persist(0)] {
        world.step(&op);
    }
    let told = world.agreement(0).map(|agreement| agreement.told());
    // Its key is gone, and so is what it had sent; the standby takes over.
    for op in [
        Op::Cut,
        Op::LeaderExpires,
        Op::Elect(1),
        Op::Pass(100),
        Op::Mark(0),
    ] {
        world.step(&op);
        world.check().unwrap();
    }
    let agreement = world.agreement(0).expect("it has not ended");
    assert!(agreement.refuses());
    assert_eq!(Some(agreement.told()), told);
}
