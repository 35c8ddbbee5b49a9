//! What an admission costs: a run of 512 pages allocated and given back, from an empty and from a scattered pool.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use omniflow_pages::{PageAllocator, Run};

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

fn benches(criterion: &mut Criterion) {
    let contiguous = allocator();
    criterion.bench_function("pages/allocate+free 512 contiguous", |bench| {
        bench.iter(|| drop(black_box(contiguous.allocate(black_box(512)))));
    });
    let (holes, _held) = scattered();
    criterion.bench_function("pages/allocate+free 512 scattered", |bench| {
        bench.iter(|| drop(black_box(holes.allocate(black_box(512)))));
    });
    criterion.bench_function("pages/allocate+free 1 contiguous", |bench| {
        bench.iter(|| drop(black_box(contiguous.allocate(black_box(1)))));
    });
}

criterion_group!(all, benches);
criterion_main!(all);
