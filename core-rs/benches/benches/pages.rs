//! What an admission costs: a run of 512 pages allocated and given back, from an empty and from a scattered pool; a fork,
//! a lease, a hit and an eviction of as many.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use omniflow_pages::{EntryId, Moment, OwnerId, PageAllocator, Run, Tier, TierPools, Tiers, Worth};

const PAGES: usize = 512;

#[allow(clippy::expect_used)]
fn allocator() -> PageAllocator {
    PageAllocator::new(65_536, 1).expect("a pool with free pages")
}

/// Every second page in use: no two free pages are neighbours.
#[allow(clippy::expect_used)]
fn scattered() -> (PageAllocator, Vec<Run>) {
    let allocator = allocator();
    let mut runs: Vec<Run> = (0..65_535)
        .map(|_| allocator.allocate(1).expect("a free page"))
        .collect();
    let mut index = 0;
    runs.retain(|_| {
        index += 1;
        index % 2 == 0
    });
    (allocator, runs)
}

/// A sequence of 512 entries on the device, with a host tier behind it.
#[allow(clippy::expect_used)]
fn cached() -> (Tiers, Vec<EntryId>) {
    let device = allocator();
    let mut tiers = Tiers::new(TierPools {
        device: device.clone(),
        host: Some(allocator()),
        disk: None,
    });
    let run = device.allocate(PAGES).expect("free pages");
    let worth = Worth::new(1_000, 1 << 20, 0.5).expect("a worth");
    let mut entries = Vec::new();
    for page in run.hold(0..PAGES) {
        let parent = entries.last().copied();
        entries.push(tiers.insert(page, parent, worth).expect("an entry"));
    }
    (tiers, entries)
}

fn allocation(criterion: &mut Criterion) {
    let contiguous = allocator();
    criterion.bench_function("pages/allocate+free 512 contiguous", |bench| {
        bench.iter(|| drop(black_box(contiguous.allocate(black_box(PAGES)))));
    });
    let (holes, _held) = scattered();
    criterion.bench_function("pages/allocate+free 512 scattered", |bench| {
        bench.iter(|| drop(black_box(holes.allocate(black_box(PAGES)))));
    });
    criterion.bench_function("pages/allocate+free 1 contiguous", |bench| {
        bench.iter(|| drop(black_box(contiguous.allocate(black_box(1)))));
    });
}

#[allow(clippy::expect_used)]
fn sharing(criterion: &mut Criterion) {
    let allocator = allocator();
    let run = allocator.allocate(PAGES).expect("free pages");
    criterion.bench_function("pages/fork+free 512", |bench| {
        bench.iter(|| drop(black_box(run.share(black_box(PAGES)))));
    });
    criterion.bench_function("pages/lease+end 512", |bench| {
        let stamped = run.stamped();
        bench.iter(|| {
            let lease = allocator.lease(black_box(&stamped), OwnerId(1), Moment(1));
            lease.and_then(|lease| allocator.end_lease(lease))
        });
    });
}

#[allow(clippy::expect_used)]
fn tiers(criterion: &mut Criterion) {
    let (mut tiers, entries) = cached();
    criterion.bench_function("tiers/hit 512 on the device", |bench| {
        bench.iter(|| drop(black_box(tiers.acquire("", black_box(&entries)))));
    });
    criterion.bench_function("tiers/begin to move 512 to the host", |bench| {
        bench.iter_batched_ref(
            cached,
            |(tiers, _)| black_box(tiers.make_room(Tier::Device, 65_535)),
            BatchSize::LargeInput,
        );
    });
}

criterion_group!(all, allocation, sharing, tiers);
criterion_main!(all);
