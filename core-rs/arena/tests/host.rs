//! Memory that two sides map: what one writes the other reads, and what is not as told is not mapped.
#![allow(clippy::unwrap_used)] // A test file: clippy exempts only the test functions themselves.

mod common;

use std::fs::File;
use std::os::fd::OwnedFd;

use common::{again, arena, layout, layout_of_model, mappings};
use omniflow_arena::{
    Access, ArenaError, Content, DeviceName, Fingerprint, HostArena, HostOptions, HugePages, Layout,
};
use omniflow_pages::{PageError, PageId};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

#[test]
fn what_one_side_writes_the_other_reads_in_place() {
    let ours = arena("in-place", &layout(Content::Pages, 4096, 5));
    let theirs = again(&ours, Access::Read);
    ours.page(PageId(3))
        .unwrap()
        .write(b"keys and values")
        .unwrap();
    let mut seen = [0; 15];
    theirs.page(PageId(3)).unwrap().read(&mut seen).unwrap();
    assert_eq!(&seen, b"keys and values");
    assert_eq!(theirs.id(), ours.id());
    // Page 3 and the whole are one memory, not copies.
    let whole = ours.pages().unwrap();
    assert_eq!(
        whole.as_ptr().wrapping_add(3 * 4096),
        ours.page(PageId(3)).unwrap().as_ptr()
    );
    assert_eq!(whole.as_ptr().align_offset(2 << 20), 0);
}

#[test]
fn both_sides_see_a_page_freed_by_the_one_that_owns_it() {
    let ours = arena("generations", &layout(Content::Pages, 64, 9));
    let theirs = again(&ours, Access::Read);
    let allocator = ours.allocator(1).unwrap();
    allocator.adopt((1..9).map(PageId)).unwrap();
    let run = allocator.allocate(2).unwrap();
    let noted = run.stamped();
    assert_eq!(theirs.verify(noted[0]), Ok(()));
    drop(run);
    let stale = theirs.verify(noted[0]);
    assert!(matches!(
        stale,
        Err(ArenaError::Page(PageError::StalePage { .. }))
    ));
    allocator.retire(1..9).unwrap();
    allocator.check().unwrap();
}

#[test]
fn a_page_outside_of_the_arena_is_refused() {
    let arena = arena("outside", &layout(Content::Pages, 64, 9));
    assert!(arena.page(PageId(9)).is_err());
    assert!(arena.generation(PageId(9)).is_err());
    for (offset, bytes) in [(9 * 64, 1), (0, 9 * 64 + 1), (u64::MAX, 2), (1, u64::MAX)] {
        assert!(
            matches!(
                arena.view(offset, bytes),
                Err(ArenaError::OutOfBounds { .. })
            ),
            "{offset} {bytes}"
        );
    }
    assert!(arena.view(9 * 64, 0).unwrap().is_empty());
    let view = arena.view(0, 4).unwrap();
    assert!(view.write(b"12345").is_err());
    assert!(view.read(&mut [0; 5]).is_err());
}

#[test]
fn a_mapping_for_reading_hands_out_and_writes_nothing() {
    let ours = arena("reading", &layout(Content::Pages, 64, 9));
    let theirs = again(&ours, Access::Read);
    assert_eq!(theirs.allocator(0).err(), Some(ArenaError::ReadOnly));
    let refused = theirs.page(PageId(1)).unwrap().write(b"x");
    assert_eq!(refused, Err(ArenaError::ReadOnly));
    assert!(!theirs.info().writable);
}

#[test]
fn memory_stays_mapped_while_a_view_lives_and_no_longer() {
    let ours = arena("view-lives", &layout(Content::Pages, 4096, 4));
    let view = ours.page(PageId(2)).unwrap();
    drop(ours);
    view.write(b"still here").unwrap();
    assert_eq!(mappings("view-lives"), 1);
    drop(view);
    assert_eq!(mappings("view-lives"), 0);
}

#[test]
fn memory_outlives_the_side_that_made_it() {
    let ours = arena("outlives", &layout(Content::Pages, 4096, 4));
    let theirs = again(&ours, Access::Write);
    ours.page(PageId(0)).unwrap().write(b"left").unwrap();
    drop(ours);
    let mut seen = [0; 4];
    theirs.page(PageId(0)).unwrap().read(&mut seen).unwrap();
    assert_eq!(&seen, b"left");
}

#[test]
fn memory_that_is_found_in_advance_is_reported() {
    let options = HostOptions {
        name: "prefault".into(),
        prefault: true,
        huge_pages: false,
    };
    let arena = HostArena::create(&layout(Content::Pages, 4096, 64), &options).unwrap();
    let info = arena.info();
    assert_eq!(info.huge_pages, HugePages::None);
    let backed = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let ours = backed.split_once("prefault").unwrap().1;
    let resident = ours.lines().find(|line| line.starts_with("Rss:")).unwrap();
    let kilobytes: u64 = resident.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(
        !info.prefaulted || kilobytes * 1024 >= info.mapped_bytes,
        "{resident}"
    );
}

#[test]
fn the_size_of_an_arena_cannot_be_changed_under_a_reader() {
    let arena = arena("sealed", &layout(Content::Pages, 4096, 4));
    assert!(ftruncate(arena.descriptor(), 0).is_err());
    assert!(ftruncate(arena.descriptor(), 1 << 30).is_err());
    assert!(fcntl_add_seals(arena.descriptor(), SealFlags::FUTURE_WRITE).is_err());
}

#[test]
fn pages_of_another_device_have_generations_here_and_no_bytes() {
    let device = DeviceName::new("cuda:0").unwrap();
    let fingerprint = Fingerprint([1; 32]);
    let layout = Layout::new(Content::Pages, 1 << 20, 4096, fingerprint, device.clone()).unwrap();
    let arena = arena("elsewhere", &layout);
    assert!(arena.info().mapped_bytes < 4 << 20);
    assert_eq!(
        arena.page(PageId(1)).err(),
        Some(ArenaError::Elsewhere { device })
    );
    let allocator = arena.allocator(1).unwrap();
    allocator.adopt((1..4096).map(PageId)).unwrap();
    let noted = allocator.allocate(1).unwrap().stamped()[0];
    assert!(arena.verify(noted).is_err());
}

#[test]
fn an_arena_of_no_memory_is_a_typed_error() {
    // More than any machine can map.
    let huge = layout(Content::Pages, 1 << 40, 64);
    let options = HostOptions {
        prefault: true,
        ..HostOptions::default()
    };
    let refused = HostArena::create(&huge, &options);
    assert!(
        matches!(refused, Err(ArenaError::OutOfMemory { .. })),
        "{refused:?}"
    );
}

/// A descriptor that pretends to be an arena of `told`.
fn lie(name: &str, bytes: u64, seals: SealFlags, header_of: &HostArena) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let descriptor = memfd_create(name, flags).unwrap();
    ftruncate(&descriptor, bytes).unwrap();
    let mut header = [0; 4096];
    rustix::io::pread(header_of.descriptor(), &mut header[..], 0).unwrap();
    rustix::io::pwrite(&descriptor, &header, 0).unwrap();
    fcntl_add_seals(&descriptor, seals).unwrap();
    descriptor
}

fn sealed() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

/// Opens and says what was found; nothing may be mapped then.
fn refused(name: &str, descriptor: OwnedFd, told: &Layout) -> ArenaError {
    let refused = HostArena::open(descriptor, told, Access::Write).unwrap_err();
    assert_eq!(mappings(name), 0, "{refused}");
    refused
}

#[test]
fn memory_that_is_smaller_or_larger_than_told_is_not_mapped() {
    let told = layout(Content::Pages, 4096, 2048);
    let honest = arena("honest-size", &told);
    for bytes in [0, 4096, honest.info().mapped_bytes - 1, 1 << 40] {
        let descriptor = lie("lied-size", bytes.max(4096), sealed(), &honest);
        let error = refused("lied-size", descriptor, &told);
        assert!(matches!(error, ArenaError::Damaged { .. }), "{error}");
    }
    // The other way round: it is honest, and was announced as larger.
    let descriptor = honest.descriptor().try_clone_to_owned().unwrap();
    let more = layout(Content::Pages, 4096, 4096);
    assert!(HostArena::open(descriptor, &more, Access::Read).is_err());
}

#[test]
fn memory_that_could_be_cut_off_is_not_mapped() {
    let told = layout(Content::Pages, 4096, 16);
    let honest = arena("honest-seals", &told);
    let bytes = honest.info().mapped_bytes;
    for seals in [SealFlags::empty(), SealFlags::GROW, SealFlags::SHRINK] {
        let error = refused(
            "lied-seals",
            lie("lied-seals", bytes, seals, &honest),
            &told,
        );
        assert!(error.to_string().contains("not sealed"), "{error}");
    }
}

#[test]
fn a_file_in_place_of_memory_is_not_mapped() {
    let told = layout(Content::Pages, 4096, 16);
    let file = tempfile::tempfile().unwrap();
    file.set_len(arena("honest-file", &told).info().mapped_bytes)
        .unwrap();
    let error = HostArena::open(file.into(), &told, Access::Read).unwrap_err();
    assert!(matches!(error, ArenaError::Damaged { .. }), "{error}");
    let null = File::open("/dev/null").unwrap();
    assert!(HostArena::open(null.into(), &told, Access::Read).is_err());
}

#[test]
fn an_arena_of_another_model_is_not_mapped() {
    let told = layout_of_model(1, Content::Pages, 4096, 16);
    let other = arena("other-model", &layout_of_model(2, Content::Pages, 4096, 16));
    let descriptor = other.descriptor().try_clone_to_owned().unwrap();
    let error = HostArena::open(descriptor, &told, Access::Read).unwrap_err();
    assert!(
        matches!(
            error,
            ArenaError::Mismatch {
                field: "fingerprint",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(mappings("other-model"), 1);
}

#[test]
fn a_header_with_a_flipped_bit_is_not_mapped() {
    let told = layout(Content::Pages, 4096, 16);
    let honest = arena("honest-bits", &told);
    for at in [0, 8, 12, 17, 24, 70, 128, 159] {
        let bytes = honest.info().mapped_bytes;
        let descriptor = lie("lied-bits", bytes, sealed(), &honest);
        let mut byte = [0];
        rustix::io::pread(&descriptor, &mut byte[..], at).unwrap();
        rustix::io::pwrite(&descriptor, &[byte[0] ^ 4], at).unwrap();
        refused("lied-bits", descriptor, &told);
    }
}
