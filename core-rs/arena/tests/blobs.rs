//! Tensors in blocks: random orders of allocating, leasing and freeing against a plain model.
#![allow(clippy::unwrap_used)] // A test file: clippy exempts only the test functions themselves.

mod common;

use common::{again, arena, layout};
use omniflow_arena::{Access, ArenaError, Blob, BlobArena, Content, Place};
use omniflow_pages::{LeaseId, Moment, OwnerId, PageError};
use proptest::collection::vec;
use proptest::prelude::*;

const BLOCK: u64 = 4096;
const BLOCKS: u32 = 24;

fn blobs(name: &str) -> BlobArena {
    BlobArena::whole(arena(name, &layout(Content::Blobs, BLOCK, BLOCKS))).unwrap()
}

#[test]
fn a_blob_is_one_piece_and_aligned_whatever_its_size() {
    let blobs = blobs("sizes");
    for bytes in [0, 1, 63, 64, BLOCK, BLOCK + 1, u64::from(BLOCKS) * BLOCK] {
        let blob = blobs.allocate(bytes).unwrap();
        assert_eq!(blob.view().len() as u64, bytes);
        assert_eq!(blob.view().as_ptr().align_offset(64), 0);
        assert_eq!(blob.run().spans().len(), 1);
        assert_eq!(
            blob.run().len() as u64,
            bytes.max(1).div_ceil(BLOCK),
            "{bytes}"
        );
    }
    assert!(blobs.allocator().counters().is_idle());
}

#[test]
fn a_blob_for_which_no_run_is_free_is_refused_and_costs_nothing() {
    let blobs = blobs("full");
    let mut held: Vec<Blob> = (0..BLOCKS)
        .map(|_| blobs.allocate(BLOCK).unwrap())
        .collect();
    let full = blobs.allocate(1).unwrap_err();
    assert_eq!(full, ArenaError::Full { wanted: 1, free: 0 });
    // Every second block is free: room enough, and nowhere two in a row.
    let mut index = 0;
    held.retain(|_| {
        index += 1;
        index % 2 == 0
    });
    let scattered = blobs.allocate(2 * BLOCK).unwrap_err();
    let free = u64::from(BLOCKS / 2) * BLOCK;
    assert_eq!(
        scattered,
        ArenaError::Full {
            wanted: 2 * BLOCK,
            free
        }
    );
    assert!(blobs.allocate(BLOCK).is_ok());
    drop(held);
    assert!(blobs.allocator().counters().is_idle());
}

#[test]
fn a_tenant_over_its_quota_gets_no_blob() {
    let blobs = blobs("quota");
    blobs.allocator().set_quota("small", Some(2));
    let held = blobs.allocate_for("small", 2 * BLOCK).unwrap();
    let refused = blobs.allocate_for("small", 1).unwrap_err();
    assert!(matches!(
        refused,
        ArenaError::Page(PageError::QuotaExceeded { .. })
    ));
    drop(held);
    assert!(blobs.allocate_for("small", 1).is_ok());
}

#[test]
fn a_reader_finds_a_blob_by_its_place_until_it_is_freed() {
    let blobs = blobs("places");
    let reader = again(blobs.arena(), Access::Read);
    let blob = blobs.allocate(BLOCK + 5).unwrap();
    blob.view().write(b"tensor").unwrap();
    let place = blob.place();
    let view = reader.blob(place).unwrap();
    let mut seen = [0; 6];
    view.read(&mut seen).unwrap();
    assert_eq!(&seen, b"tensor");
    assert_eq!(reader.verify(place.first), Ok(()));
    drop(blob);
    assert!(reader.verify(place.first).is_err());
    assert!(reader.blob(place).is_err());
    let moved = Place {
        offset: place.offset + 64,
        ..place
    };
    assert!(matches!(
        reader.blob(moved),
        Err(ArenaError::OutOfBounds { .. })
    ));
}

#[derive(Clone, Debug)]
enum Step {
    Allocate { bytes: u64 },
    Free { which: prop::sample::Index },
    Lease { which: prop::sample::Index },
    EndLease { which: prop::sample::Index },
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => (0..6 * BLOCK).prop_map(|bytes| Step::Allocate { bytes }),
        3 => index().prop_map(|which| Step::Free { which }),
        1 => index().prop_map(|which| Step::Lease { which }),
        1 => index().prop_map(|which| Step::EndLease { which }),
    ]
}

/// What is known of the arena: who holds which block, and what was written.
struct World {
    blobs: BlobArena,
    reader: omniflow_arena::HostArena,
    held: Vec<(Blob, u8)>,
    leases: Vec<(LeaseId, Place, u8)>,
    written: u8,
}

impl World {
    fn new() -> Self {
        let blobs = blobs("model");
        Self {
            reader: again(blobs.arena(), Access::Read),
            blobs,
            held: Vec::new(),
            leases: Vec::new(),
            written: 0,
        }
    }

    /// Blocks in use, by the model.
    fn used(&self) -> Vec<bool> {
        let mut used = vec![false; BLOCKS as usize];
        let held = self.held.iter().map(|(blob, _)| blob.place());
        let leased = self.leases.iter().map(|(_, place, _)| *place);
        for place in held.chain(leased) {
            let first = (place.offset / BLOCK) as usize;
            let blocks = place.bytes.max(1).div_ceil(BLOCK) as usize;
            used[first..first + blocks].fill(true);
        }
        used
    }

    fn longest_free(&self) -> u64 {
        let used = self.used();
        let runs = used.split(|&used| used);
        runs.map(|run| run.len() as u64).max().unwrap_or(0)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Allocate { bytes } => self.allocate(bytes),
            Step::Free { which } if !self.held.is_empty() => {
                self.held.swap_remove(which.index(self.held.len()));
            }
            Step::Lease { which } if !self.held.is_empty() => {
                let (blob, mark) = &self.held[which.index(self.held.len())];
                let pages = blob.run().stamped();
                let lease = self.blobs.allocator().lease(&pages, OwnerId(1), Moment(1));
                self.leases.push((lease.unwrap(), blob.place(), *mark));
            }
            Step::EndLease { which } if !self.leases.is_empty() => {
                let (lease, ..) = self.leases.swap_remove(which.index(self.leases.len()));
                self.blobs.allocator().end_lease(lease).unwrap();
            }
            _ => {}
        }
    }

    fn allocate(&mut self, bytes: u64) {
        let fits = bytes.max(1).div_ceil(BLOCK) <= self.longest_free();
        match self.blobs.allocate(bytes) {
            Ok(blob) => {
                assert!(fits, "a blob of {bytes} bytes where none fits");
                let before = self.used();
                let first = (blob.place().offset / BLOCK) as usize;
                assert!(!before[first..first + blob.run().len()].contains(&true));
                self.written = self.written.wrapping_add(1);
                let content = vec![self.written; bytes as usize];
                blob.view().write(&content).unwrap();
                self.held.push((blob, self.written));
            }
            Err(refused) => assert!(!fits, "{refused}"),
        }
    }

    /// Every blob that somebody holds or leases has its own content, as the reader sees it.
    fn check(&self) {
        let held = self.held.iter().map(|(blob, mark)| (blob.place(), *mark));
        let leased = self.leases.iter().map(|&(_, place, mark)| (place, mark));
        for (place, mark) in held.chain(leased) {
            let view = self.reader.blob(place).unwrap();
            let mut seen = vec![0; view.len()];
            view.read(&mut seen).unwrap();
            self.reader.verify(place.first).unwrap();
            assert!(seen.iter().all(|&byte| byte == mark));
        }
        let used = self.used().iter().filter(|&&used| used).count();
        assert_eq!(self.blobs.allocator().counters().held, used);
        self.blobs.allocator().check().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_two_blobs_share_a_block_and_all_blocks_come_back(steps in vec(step(), 1..60)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            world.check();
        }
        world.held.clear();
        for (lease, ..) in std::mem::take(&mut world.leases) {
            world.blobs.allocator().end_lease(lease).unwrap();
        }
        prop_assert!(world.blobs.allocator().counters().is_idle());
        prop_assert!(world.blobs.allocate(u64::from(BLOCKS) * BLOCK).is_ok());
    }
}
