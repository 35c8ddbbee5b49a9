//! One pool, several processes: one promise a test.

use std::sync::Arc;

use omniflow_pages::{
    Claim, ExtentError, ExtentId, ExtentLayout, Extents, Moment, OwnerId, PageAllocator, PageId,
    PrivateGenerations, Reading, Returned,
};

const LAYOUT: ExtentLayout = ExtentLayout {
    pages: 50,
    reserved: 1,
    extent_pages: 16,
};
const A: OwnerId = OwnerId(1);
const B: OwnerId = OwnerId(2);
const C: OwnerId = OwnerId(3);

fn book(owners: &[OwnerId]) -> Extents {
    let mut book = Extents::new(LAYOUT).unwrap();
    owners.iter().for_each(|&owner| book.join(owner).unwrap());
    book
}

#[test]
fn owners_allocate_from_extents_of_their_own() {
    let generations = Arc::new(PrivateGenerations::new(LAYOUT.pages));
    let mut book = book(&[A, B]);
    let allocators = [A, B].map(|owner| {
        let allocator = PageAllocator::in_pool(generations.clone(), LAYOUT.reserved);
        allocator
            .adopt(book.grant(owner).unwrap().adoptable())
            .unwrap();
        allocator
    });
    let runs = allocators
        .each_ref()
        .map(|allocator| allocator.allocate(16).unwrap());
    assert_eq!(runs[0].pages()[0], PageId(1));
    assert_eq!(runs[1].pages()[0], PageId(17));
    assert!(allocators[0].allocate(1).is_err());
    let more = book.grant(A).unwrap();
    assert_eq!(more.extent, ExtentId(2), "the last whole extent");
    assert_eq!(
        book.grant(B),
        Err(ExtentError::OutOfExtents {
            extents: 3,
            orphaned: 0
        })
    );
    let noted = runs[1].stamped()[3];
    assert_eq!(
        allocators[0].verify(noted.page, noted.generation),
        Ok(()),
        "any process verifies any page"
    );
    drop(runs);
    assert!(allocators[0].verify(noted.page, noted.generation).is_err());
}

#[test]
fn an_owner_gets_the_extent_behind_its_own_if_that_is_free() {
    let mut book = book(&[A, B]);
    let first = book.grant(A).unwrap();
    assert_eq!(book.grant(A).unwrap().pages.start, first.pages.end);
}

#[test]
fn an_extent_goes_back_only_when_none_of_its_pages_is_held() {
    let generations = Arc::new(PrivateGenerations::new(LAYOUT.pages));
    let mut book = book(&[A]);
    let grant = book.grant(A).unwrap();
    let allocator = PageAllocator::in_pool(generations, LAYOUT.reserved);
    allocator.adopt(grant.adoptable()).unwrap();
    assert!(allocator.adopt(grant.adoptable()).is_err(), "adopted once");
    let run = allocator.allocate(1).unwrap();
    let refused = allocator.retire(grant.pages.clone()).unwrap_err();
    assert!(refused.to_string().contains("still held"), "{refused}");
    drop(run);
    allocator.retire(grant.pages).unwrap();
    book.give_back(A, grant.extent).unwrap();
    assert_eq!(allocator.counters().own, 0);
    assert_eq!(
        book.give_back(A, grant.extent),
        Err(ExtentError::NotOwner {
            extent: grant.extent,
            owner: A
        })
    );
    assert_eq!(book.counters().free, 3);
}

#[test]
fn a_dead_owners_extent_waits_for_all_who_might_read_it() {
    let mut book = book(&[A, B, C]);
    for _ in 0..3 {
        book.grant(A).unwrap();
    }
    assert_eq!(book.died(A).unwrap().ask, [B, C]);
    assert_eq!(
        book.grant(B),
        Err(ExtentError::OutOfExtents {
            extents: 3,
            orphaned: 3
        })
    );
    book.report(B, A, Vec::new()).unwrap();
    assert!(book.grant(B).is_err(), "one has not said yet");
    assert_eq!(
        book.report(B, A, Vec::new()),
        Err(ExtentError::NotAsked { reader: B, dead: A })
    );
    book.died(C).unwrap();
    assert_eq!(book.counters().free, 3, "the dead read nothing");
    book.check().unwrap();
}

#[test]
fn pages_of_a_dead_owner_stay_for_who_reads_them_and_then_return() {
    let mut book = book(&[A, B, C]);
    let grant = book.grant(A).unwrap();
    book.died(A).unwrap();
    let read = |pages: &[u32]| pages.iter().map(|&page| PageId(page)).collect();
    let leases = book
        .report(
            B,
            A,
            vec![(read(&[3, 4]), Moment(10)), (read(&[4, 5]), Moment(20))],
        )
        .unwrap();
    book.report(C, A, vec![(read(&[5]), Moment(99))]).unwrap();
    let again = (0..3)
        .map(|_| book.grant(C).unwrap())
        .find(|again| again.extent == grant.extent)
        .unwrap();
    assert_eq!(again.withheld, [3, 4, 5].map(PageId));
    assert_eq!(again.adoptable().count(), 13);
    assert_eq!(
        book.expire(Moment(10)),
        [Returned {
            owner: C,
            page: PageId(3)
        }]
    );
    assert_eq!(
        book.end(leases[1]).unwrap(),
        [Returned {
            owner: C,
            page: PageId(4)
        }]
    );
    assert_eq!(
        book.end(leases[0]),
        Err(ExtentError::UnknownLease { lease: leases[0] })
    );
    assert_eq!(book.counters().withheld, 1);
    assert_eq!(
        book.died(C).unwrap().returned,
        [],
        "its extent is nobody's now"
    );
    assert_eq!(book.counters().withheld, 0, "the reader is dead");
    book.check().unwrap();
}

#[test]
fn a_report_of_pages_that_the_dead_never_had_is_refused() {
    let mut book = book(&[A, B]);
    book.grant(A).unwrap();
    book.died(A).unwrap();
    let lies = |page: u32| vec![(Box::from([PageId(page)]), Moment(10))];
    for page in [0, 17, 49, 1000] {
        let refused = book.report(B, A, lies(page));
        assert_eq!(
            refused,
            Err(ExtentError::NotOfTheDead {
                page: PageId(page),
                dead: A
            })
        );
    }
    book.report(B, A, lies(16)).unwrap();
}

#[test]
fn the_last_one_to_die_leaves_nothing_behind() {
    let mut book = book(&[A, B]);
    book.grant(A).unwrap();
    book.grant(B).unwrap();
    book.died(A).unwrap();
    book.died(B).unwrap();
    let counters = book.counters();
    assert_eq!(
        (counters.free, counters.orphaned, counters.owners),
        (3, 0, 0)
    );
    assert_eq!(
        book.join(B),
        Err(ExtentError::KnownOwner { owner: B }),
        "a life ends once"
    );
    assert_eq!(book.grant(B), Err(ExtentError::UnknownOwner { owner: B }));
}

#[test]
fn a_new_book_is_made_of_what_all_who_live_claim() {
    let claim = |owner, extents: &[u32]| Claim {
        owner,
        extents: extents.iter().copied().map(ExtentId).collect(),
        withheld: Vec::new(),
        reads: Vec::new(),
    };
    let reading = |owner, page| Reading {
        owner,
        pages: Box::from([PageId(page)]),
        until: Moment(9),
    };
    let mut first = claim(B, &[1]);
    first.withheld = vec![PageId(18), PageId(19)];
    let mut second = claim(C, &[]);
    second.reads = vec![reading(A, 18), reading(B, 20), reading(A, 3)];
    let restored = Extents::restore(LAYOUT, &[first.clone(), second]).unwrap();
    let page = PageId(19);
    assert_eq!(restored.returned, [Returned { owner: B, page }]);
    let kept: Vec<bool> = restored.leases[1].iter().map(Option::is_some).collect();
    assert_eq!(
        kept,
        [true, false, true],
        "the living keep their leases themselves"
    );
    let mut book = restored.book;
    assert_eq!(book.counters().free, 2);
    assert_eq!(
        book.expire(Moment(9)),
        [Returned {
            owner: B,
            page: PageId(18)
        }]
    );
    assert_eq!(book.counters().withheld, 0);
    book.check().unwrap();
    let refused = Extents::restore(LAYOUT, &[first, claim(C, &[1])])
        .map(|_| ())
        .unwrap_err();
    assert_eq!(
        refused,
        ExtentError::NotClaimable {
            extent: ExtentId(1),
            owner: C
        }
    );
}

#[test]
fn a_pool_without_a_whole_extent_is_refused() {
    for extent_pages in [0, 50] {
        let refused = Extents::new(ExtentLayout {
            extent_pages,
            ..LAYOUT
        })
        .map(|_| ())
        .unwrap_err();
        assert_eq!(
            refused,
            ExtentError::NoExtent {
                pages: 50,
                reserved: 1,
                extent_pages
            }
        );
    }
}
