//! Leases, quotas, copy-on-write and pins: one promise a test.

use omniflow_pages::{
    Counters, Generation, Moment, OwnerId, PageAllocator, PageError, PageId, Run, Span, Stamped,
};

const READER: OwnerId = OwnerId(7);

fn counters(allocator: &PageAllocator) -> (usize, usize, usize, usize) {
    let Counters {
        free,
        pinned,
        leased,
        leases,
        ..
    } = allocator.counters();
    (free, pinned, leased, leases)
}

#[test]
fn expiry_drops_that_hold_only() {
    let allocator = PageAllocator::new(8, 1).unwrap();
    let run = allocator.allocate(3).unwrap();
    let short = allocator.lease(&run.stamped(), READER, Moment(10)).unwrap();
    let long = allocator
        .lease(&run.stamped()[..1], OwnerId(8), Moment(30))
        .unwrap();
    drop(run);
    assert_eq!(counters(&allocator), (4, 0, 3, 2));
    assert_eq!(allocator.next_expiry(), Some(Moment(10)));
    assert_eq!(allocator.expire(Moment(9)), []);
    assert_eq!(allocator.expire(Moment(10)), [short]);
    assert_eq!(
        counters(&allocator),
        (6, 0, 1, 1),
        "another's lease keeps its page"
    );
    assert_eq!(allocator.expire(Moment(30)), [long]);
    assert!(allocator.counters().is_idle());
    allocator.check().unwrap();
}

#[test]
fn a_lease_that_has_ended_is_not_renewed() {
    let allocator = PageAllocator::new(8, 1).unwrap();
    let run = allocator.allocate(1).unwrap();
    let lease = allocator.lease(&run.stamped(), READER, Moment(10)).unwrap();
    allocator.renew(lease, Moment(9), Moment(20)).unwrap();
    assert_eq!(allocator.expire(Moment(19)), []);
    let ended = Err(PageError::UnknownLease { lease });
    assert_eq!(
        allocator.renew(lease, Moment(20), Moment(30)),
        ended,
        "its end has come"
    );
    allocator.end_lease(lease).unwrap();
    assert_eq!(allocator.end_lease(lease), ended);
    assert_eq!(allocator.renew(lease, Moment(0), Moment(30)), ended);
}

#[test]
fn a_dead_readers_leases_end_at_once_and_no_others() {
    let allocator = PageAllocator::new(8, 1).unwrap();
    let run = allocator.allocate(4).unwrap();
    for _ in 0..3 {
        allocator
            .lease(&run.stamped(), READER, Moment(u64::MAX))
            .unwrap();
    }
    let other = allocator
        .lease(&run.stamped()[..2], OwnerId(8), Moment(5))
        .unwrap();
    assert_eq!(allocator.drop_holder(READER), 3);
    drop(run);
    assert_eq!(counters(&allocator), (5, 0, 2, 1));
    allocator.end_lease(other).unwrap();
    assert!(allocator.counters().is_idle());
}

#[test]
fn only_pages_that_are_held_and_unchanged_are_leased() {
    let allocator = PageAllocator::new(8, 1).unwrap();
    let run = allocator.allocate(1).unwrap();
    let noted = run.stamped();
    let lease = |pages: &[Stamped]| allocator.lease(pages, READER, Moment(1)).map(|_| ());
    drop(run);
    let stale = lease(&noted);
    assert!(
        matches!(stale, Err(PageError::StalePage { .. })),
        "{stale:?}"
    );
    let now = Stamped {
        generation: Generation(1),
        ..noted[0]
    };
    assert_eq!(lease(&[now]), Err(PageError::NotHeld { page: now.page }));
    let unknown = Stamped {
        page: PageId(99),
        generation: Generation(0),
    };
    assert!(matches!(
        lease(&[unknown]),
        Err(PageError::UnknownPage { .. })
    ));
    assert!(allocator.counters().is_idle());
}

#[test]
fn a_tenant_is_held_to_its_quota_until_its_pages_are_free() {
    let allocator = PageAllocator::new(20, 0).unwrap();
    allocator.set_quota("ours", Some(5));
    let mut run = allocator.allocate_for("ours", 4).unwrap();
    let held = run.hold(0..2);
    let refused = run.extend(2);
    let error = PageError::QuotaExceeded {
        tenant: "ours".into(),
        wanted: 2,
        used: 4,
        quota: 5,
    };
    assert_eq!(refused, Err(error));
    assert_eq!(run.len(), 4, "nothing was allocated");
    let others = allocator.allocate_for("theirs", 9).unwrap();
    drop(run);
    assert!(
        allocator.allocate_for("ours", 4).is_err(),
        "two pages are still held by the index"
    );
    drop(held);
    drop(allocator.allocate_for("ours", 5).unwrap());
    let told: Vec<_> = allocator
        .tenants()
        .into_iter()
        .map(|one| (one.name.to_string(), one.used, one.quota))
        .collect();
    assert_eq!(
        told,
        [("ours".into(), 0, Some(5)), ("theirs".into(), 9, None)]
    );
    drop(others);
    allocator.set_quota("ours", None);
    assert!(allocator.tenants().is_empty());
    allocator.check().unwrap();
}

#[test]
fn a_fork_copies_what_it_writes_and_nothing_else() {
    let allocator = PageAllocator::new(20, 0).unwrap();
    let run = allocator.allocate(4).unwrap();
    let mut fork = run.share(4);
    assert_eq!(allocator.free(), 16);
    let copies = fork.write(3..9).unwrap();
    assert_eq!(copies.sources(), &run.pages()[3..]);
    assert_eq!(copies.targets(), &fork.pages()[3..]);
    drop(run);
    assert_eq!(
        allocator.counters().held,
        5,
        "what is to be copied is held until it is"
    );
    drop(copies);
    assert_eq!(allocator.counters().held, 4);
    assert!(
        fork.write(0..4).unwrap().is_empty(),
        "its own pages need no copy"
    );
}

#[test]
fn a_write_without_room_for_the_copies_changes_nothing() {
    let allocator = PageAllocator::new(5, 0).unwrap();
    let run = allocator.allocate(4).unwrap();
    let mut fork = run.share(4);
    let refused = fork.write(0..2).map(|_| ());
    assert_eq!(refused, Err(PageError::OutOfPages { wanted: 2, free: 1 }));
    assert_eq!(fork.pages(), run.pages());
    allocator.check().unwrap();
}

#[test]
fn a_leased_page_is_copied_before_it_is_written() {
    let allocator = PageAllocator::new(5, 0).unwrap();
    let mut run = allocator.allocate(1).unwrap();
    let noted = run.stamped()[0];
    let lease = allocator.lease(&[noted], READER, Moment(9)).unwrap();
    drop(run.write(0..1).unwrap());
    assert_ne!(run.pages()[0], noted.page);
    assert_eq!(allocator.verify(noted.page, noted.generation), Ok(()));
    allocator.end_lease(lease).unwrap();
    assert!(allocator.verify(noted.page, noted.generation).is_err());
}

#[test]
fn a_pin_holds_and_is_counted() {
    let allocator = PageAllocator::new(5, 0).unwrap();
    let run = allocator.allocate(3).unwrap();
    let (pin, second) = (run.pin(), run.pin());
    drop(run);
    drop(second);
    assert_eq!(counters(&allocator), (2, 3, 0, 0));
    drop(pin);
    assert!(allocator.counters().is_idle());
}

#[test]
fn a_run_in_pieces_has_few_of_them() {
    let allocator = PageAllocator::new(200, 0).unwrap();
    let mut runs: Vec<Run> = [60, 1, 40, 1, 70, 1]
        .map(|pages| allocator.allocate(pages).unwrap())
        .into();
    let mut index = 0;
    runs.retain(|_| {
        index += 1;
        index % 2 == 0
    });
    let long = allocator.allocate(150).unwrap();
    let lengths: Vec<u32> = long.spans().iter().map(|span| span.pages).collect();
    assert_eq!(lengths.len(), 3, "{lengths:?}");
    assert_eq!(Span::of(&[]), []);
}
