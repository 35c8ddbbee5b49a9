//! What a page costs, and that churn leaves nothing behind: counted at the allocator, not believed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::num::NonZeroU32;

use omniflow_prefix::{ClusterIndex, Holder, KeyChain, KeyRoot, PageKey, PrefixIndex};

/// Counts the bytes of each thread, as tests run in several.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends has no counter any more, and nobody who would read it.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn held() -> isize {
    HELD.get()
}

/// Keys of `pages` pages under a first page of its own, behind `shared` pages that all sequences begin with.
fn keys(sequence: u32, shared: u32, pages: u32) -> Vec<PageKey> {
    let mut chain = KeyChain::new(KeyRoot::new(b"model", "layout", NonZeroU32::MIN, b""));
    let tokens: Vec<u32> = (0..shared)
        .chain([1_000_000 + sequence])
        .chain(1..pages)
        .collect();
    chain.extend(&tokens);
    chain.keys().to_vec()
}

/// Bytes that `work` leaves allocated, beside what it returns.
fn grown<T>(work: impl FnOnce() -> T) -> (isize, T) {
    let before = held();
    let result = work();
    (held() - before, result)
}

fn filled(sequences: u32, pages: u32) -> PrefixIndex<u32> {
    let mut index = PrefixIndex::default();
    for sequence in 0..sequences {
        index
            .insert(&keys(sequence, 0, pages), |missing| {
                missing.map(|page| page as u32)
            })
            .unwrap();
    }
    index
}

#[test]
fn a_page_of_a_long_sequence_takes_at_most_seventy_bytes() {
    let (bytes, index) = grown(|| filled(100, 512));
    assert_eq!(index.len(), 51_200);
    assert!(bytes < 70 * 51_200, "{} bytes a page", bytes / 51_200);
}

#[test]
fn a_branch_takes_at_most_three_hundred_bytes_beside_its_pages() {
    let (bytes, index) = grown(|| {
        let mut index = PrefixIndex::default();
        for sequence in 0..10_000 {
            index
                .insert(&keys(sequence, 8, 1), |missing| missing)
                .unwrap();
        }
        index
    });
    assert_eq!(index.len(), 10_008);
    assert!(bytes < 370 * 10_008, "{} bytes a branch", bytes / 10_008);
}

#[test]
fn an_index_that_is_emptied_holds_no_memory() {
    let (bytes, index) = grown(|| {
        let mut index = filled(100, 64);
        let sought = keys(3, 0, 64);
        index.matched(&sought[..20]);
        index.matched(&sought[..9]);
        index.pin(&sought[4]).unwrap();
        index.unpin(&sought[4]).unwrap();
        assert_eq!(index.evict(usize::MAX, |_| true).len(), 6_400);
        index
    });
    assert_eq!((bytes, index.len()), (0, 0));
}

/// New sequences come, are found again in part, and as many pages leave.
fn churn(index: &mut PrefixIndex<u32>, rounds: std::ops::Range<u32>) {
    for round in rounds {
        for sequence in 0..40 {
            let chain = keys(round * 1_000 + sequence, sequence % 7, 100 + sequence);
            index.matched(&chain);
            index
                .insert(&chain, |missing| missing.map(|page| page as u32))
                .unwrap();
            index.matched(&chain[..50 + sequence as usize]);
        }
        let surplus = index.len() - 5_120;
        assert_eq!(index.evict(surplus, |_| true).len(), surplus);
    }
}

#[test]
fn churn_brings_memory_back_to_the_base_line() {
    let mut index = filled(40, 128);
    churn(&mut index, 1..6);
    let base = held();
    churn(&mut index, 6..40);
    index.check().unwrap();
    assert_eq!(index.len(), 5_120);
    let more = held() - base;
    assert!(
        more < base_tenth(5_120),
        "{more} bytes more for as many pages"
    );
}

#[test]
fn a_burst_leaves_no_more_memory_than_its_last_pages_need() {
    let mut index = filled(40, 128);
    let base = held();
    for sequence in 0..400 {
        let chain = keys(100_000 + sequence, 0, 128);
        index
            .insert(&chain, |missing| missing.map(|page| page as u32))
            .unwrap();
    }
    index.evict(51_200, |_| true);
    assert_eq!(index.len(), 5_120);
    let more = held() - base;
    // Its table may be a quarter full.
    assert!(
        more < 60 * 5_120,
        "{more} bytes are left of a burst of 51,200 pages"
    );
}

/// A tenth of what so many pages take.
fn base_tenth(pages: isize) -> isize {
    7 * pages
}

fn cluster(workers: u32, sequences: u32) -> ClusterIndex {
    let mut index = ClusterIndex::default();
    for worker in 0..workers {
        for sequence in 0..sequences {
            index
                .insert(
                    Holder(worker),
                    None,
                    &keys(worker * sequences + sequence, 16, 64),
                )
                .unwrap();
        }
    }
    index
}

#[test]
fn a_page_of_the_cluster_takes_at_most_eighty_bytes_and_one_more_holder_at_most_one() {
    let (bytes, mut index) = grown(|| cluster(50, 20));
    let pages = index.len() as isize;
    assert_eq!(pages, 50 * 20 * 64 + 16);
    assert!(bytes < 80 * pages, "{} bytes a page", bytes / pages);
    let (more, ()) = grown(|| {
        for sequence in 0..1_000 {
            index
                .insert(Holder(77), None, &keys(sequence, 16, 64))
                .unwrap();
        }
    });
    assert_eq!(index.held_by(Holder(77)), 64_016);
    assert!(more < 64_016, "{more} bytes for 64,016 pages more");
}

/// A worker comes, holds pages of its own and some of others, and goes.
fn live(index: &mut ClusterIndex, worker: u32) {
    for sequence in 0..50 {
        for keys in [keys(1_000 + sequence, 16, 32), keys(sequence, 16, 40)] {
            index.insert(Holder(worker), None, &keys).unwrap();
        }
    }
    assert_eq!(index.remove_holder(Holder(worker)), 16 + 50 * 72);
}

#[test]
fn what_a_worker_held_leaves_nothing_when_it_goes() {
    let mut index = cluster(10, 20);
    live(&mut index, 100);
    // The first life has split the segments that it shared in part.
    let base = held();
    for life in 101..120 {
        live(&mut index, life);
    }
    index.check().unwrap();
    assert!(held() - base < 1_000, "{} bytes more", held() - base);
    for worker in 0..10 {
        index.remove_holder(Holder(worker));
    }
    let (new, fresh) = grown(ClusterIndex::default);
    drop(fresh);
    assert!(index.is_empty());
    assert_eq!(
        grown(|| drop(index)).0,
        -new,
        "an emptied index is like a new one"
    );
}
