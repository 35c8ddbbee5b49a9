//! What a tensor costs on its way to another process: room for it, and the hand-over, which must not depend on its size.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use omniflow_arena::{
    Access, BlobArena, Channel, Content, DeviceName, Fingerprint, HostArena, HostOptions, Layout,
    Offer, offer, take_offers,
};
use omniflow_pages::{Moment, OwnerId};

const BLOCK: u64 = 64 << 10;
const SIZES: [(&str, u64); 2] = [("64 KiB", 64 << 10), ("32 MiB", 32 << 20)];

#[allow(clippy::expect_used)]
fn blobs() -> BlobArena {
    let fingerprint = Fingerprint::default();
    let layout = Layout::new(Content::Blobs, BLOCK, 4096, fingerprint, DeviceName::host());
    let arena = HostArena::create(&layout.expect("a layout"), &HostOptions::default());
    BlobArena::whole(arena.expect("memory")).expect("all of it")
}

fn allocation(criterion: &mut Criterion) {
    let blobs = blobs();
    for (name, bytes) in SIZES {
        criterion.bench_function(&format!("arena/allocate+free a blob of {name}"), |bench| {
            bench.iter(|| drop(black_box(blobs.allocate(black_box(bytes)))));
        });
    }
}

/// What both sides do between the producer's last write and the consumer's first read: a lease, its place, the view, the
/// check afterwards, the end of the lease.
#[allow(clippy::expect_used)]
fn hand_over(criterion: &mut Criterion) {
    let blobs = blobs();
    let descriptor = blobs.arena().descriptor().try_clone_to_owned();
    let reader = HostArena::open(
        descriptor.expect("a descriptor"),
        blobs.arena().layout(),
        Access::Read,
    )
    .expect("a mapping");
    for (name, bytes) in SIZES {
        let blob = blobs.allocate(bytes).expect("room");
        criterion.bench_function(&format!("arena/hand over a blob of {name}"), |bench| {
            bench.iter(|| {
                let pages = blob.run().stamped();
                let lease = blobs.allocator().lease(&pages, OwnerId(1), Moment(1));
                let place = black_box(blob.place());
                let view = reader.blob(place);
                black_box(
                    view.is_ok_and(|view| reader.verify(place.first).is_ok() && !view.is_empty()),
                );
                lease.map(|lease| blobs.allocator().end_lease(lease))
            });
        });
    }
}

/// Once for each pair of processes.
#[allow(clippy::expect_used)]
fn passing(criterion: &mut Criterion) {
    let blobs = blobs();
    let (ours, theirs) = Channel::pair().expect("sockets");
    let patience = Some(Duration::from_secs(10));
    criterion.bench_function("arena/pass a descriptor of 256 MiB and map it", |bench| {
        bench.iter(|| {
            let offers = [Offer {
                name: "blobs",
                arena: blobs.arena(),
                elsewhere: None,
            }];
            offer(&ours, &offers, patience).expect("sent");
            let offered = take_offers(&theirs, patience).expect("received").pop();
            offered.map(|offered| offered.open(Access::Read).expect("mapped"))
        });
    });
}

criterion_group!(all, allocation, hand_over, passing);
criterion_main!(all);
