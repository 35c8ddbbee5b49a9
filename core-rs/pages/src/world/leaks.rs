//! The world at random, and that it would show a leak.

use proptest::prelude::*;

use super::World;
use super::steps::{Step, What, step};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_happens_no_page_is_lost_or_handed_out_twice_or_changed_under_a_reader(
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut world = World::new();
        world.join();
        world.join();
        for step in steps {
            let told = format!("{step:?}");
            let taken = world.take(step);
            prop_assert!(taken.is_ok(), "{}: {:?}", told, taken);
        }
        prop_assert_eq!(world.end(), Ok(()));
    }
}

/// Some work of each kind, in which a release of a kind is lost when `lost` says so.
fn some_work(lost: impl Fn(&World, &Step) -> bool) -> Result<(), String> {
    let mut world = World::new();
    let owner = world.join();
    world.join();
    let steps = [
        Step::Grant(0),
        Step::Do(0, What::Allocate, 0, 5),
        Step::Do(0, What::Fork, 0, 3),
        Step::Do(0, What::Write, 1, 1),
        Step::Do(0, What::Pin, 0, 0),
        Step::Lease(0, 1, 0, 10),
        Step::Do(0, What::Cache, 0, 2),
        Step::Tick(20),
        Step::Do(0, What::Unpin, 0, 0),
        Step::Do(0, What::DropRun, 1, 0),
    ];
    for step in steps {
        if lost(&world, &step) {
            let allocator = &world.processes[&owner].allocator;
            allocator.on_table(|table| table.lose_releases = 1);
        }
        world.take(step)?;
    }
    world.end()
}

#[test]
fn a_lost_release_of_any_kind_is_noticed() {
    assert_eq!(some_work(|_, _| false), Ok(()));
    let kinds: [fn(&Step) -> bool; 4] = [
        |step| matches!(step, Step::Do(_, What::DropRun, ..)),
        |step| matches!(step, Step::Do(_, What::Unpin, ..)),
        |step| matches!(step, Step::Tick(_)),
        |step| matches!(step, Step::Do(_, What::Write, ..)),
    ];
    for (index, kind) in kinds.into_iter().enumerate() {
        let ended = some_work(|_, step| kind(step));
        assert!(ended.is_err(), "the lost release {index} was not noticed");
    }
}
