//! Pages on disk: they survive a restart, and no wrong byte is ever read.
#![allow(clippy::unwrap_used)] // A test file: clippy exempts only the test functions themselves.

mod common;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::{layout, layout_of_model};
use omniflow_arena::disk::{DiskArena, DiskError, Opened, Slots};
use omniflow_arena::{ArenaError, Content, Layout};
use omniflow_pages::PageId;
use proptest::collection::vec;
use proptest::prelude::*;

const BYTES: usize = 4096;
const PAGES: u32 = 6;

fn kv() -> Layout {
    layout(Content::Pages, BYTES as u64, PAGES)
}

fn key(of: u8) -> [u8; 32] {
    [of; 32]
}

fn content(of: u8) -> Vec<u8> {
    (0..BYTES)
        .map(|index| (index as u8).wrapping_mul(of))
        .collect()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("pages")
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.0.path()).unwrap().count()
    }
}

/// A file with pages 0, 1 and 2, closed again.
fn filled(path: &Path) {
    let arena = DiskArena::create(path, &kv()).unwrap();
    for of in 0..3 {
        arena
            .write(PageId(of.into()), &key(of), &content(of))
            .unwrap();
    }
}

fn opened(path: &Path) -> Opened {
    DiskArena::open(path, &kv()).unwrap()
}

/// Changes bytes of the file as a failing disk would.
fn damage(path: &Path, at: u64, change: impl Fn(u8) -> u8) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[change(byte[0])], at).unwrap();
}

/// Where page 0 begins in the file, and how long that is.
fn data_at(path: &Path) -> (u64, u64) {
    let size = path.metadata().unwrap().len();
    (size - u64::from(PAGES) * BYTES as u64, size)
}

#[test]
fn pages_survive_a_restart() {
    let folder = Folder::new();
    filled(&folder.file());
    let Opened {
        arena,
        found,
        dropped,
    } = opened(&folder.file());
    let pages: Vec<_> = found
        .iter()
        .map(|found| (found.page.0, found.key))
        .collect();
    assert_eq!(pages, [(0, key(0)), (1, key(1)), (2, key(2))]);
    assert_eq!(dropped, []);
    let mut bytes = vec![0; BYTES];
    for of in 0..3 {
        arena.read(PageId(of.into()), &key(of), &mut bytes).unwrap();
        assert_eq!(bytes, content(of));
    }
    assert_eq!(arena.info().filled, 3);
    assert_eq!(folder.files(), 1);
}

#[test]
fn after_a_restart_pages_are_held_and_the_other_slots_are_free() {
    let folder = Folder::new();
    filled(&folder.file());
    let arena = opened(&folder.file()).arena;
    let Slots {
        allocator,
        mut held,
    } = arena.allocator().unwrap();
    assert_eq!(allocator.free(), PAGES as usize - 3);
    let keys: Vec<_> = held
        .iter()
        .map(|held| (held.page.id().0, held.key))
        .collect();
    assert_eq!(keys, [(0, key(0)), (1, key(1)), (2, key(2))]);
    held.remove(1);
    let run = allocator.allocate(4).unwrap();
    assert!(run.pages().contains(&PageId(1)));
    allocator.check().unwrap();
    drop((run, held));
    assert!(allocator.counters().is_idle());
}

#[test]
fn a_slot_holds_what_was_written_last_under_its_key_alone() {
    let folder = Folder::new();
    let arena = DiskArena::create(&folder.file(), &kv()).unwrap();
    let page = PageId(4);
    arena.write(page, &key(1), &content(1)).unwrap();
    arena.write(page, &key(2), &content(2)).unwrap();
    let mut bytes = vec![0; BYTES];
    let replaced = arena.read(page, &key(1), &mut bytes);
    assert_eq!(replaced, Err(DiskError::NotThere { page }));
    arena.read(page, &key(2), &mut bytes).unwrap();
    assert_eq!(bytes, content(2));
    arena.forget(page).unwrap();
    assert!(arena.read(page, &key(2), &mut bytes).is_err());
    drop(arena);
    assert_eq!(opened(&folder.file()).found, []);
}

#[test]
fn a_page_with_a_flipped_bit_is_dropped_and_the_others_stay() {
    let folder = Folder::new();
    filled(&folder.file());
    let (data, _) = data_at(&folder.file());
    damage(&folder.file(), data + BYTES as u64 + 77, |byte| byte ^ 16);
    let arena = opened(&folder.file()).arena;
    let mut bytes = vec![0; BYTES];
    let page = PageId(1);
    let damaged = arena.read(page, &key(1), &mut bytes);
    assert_eq!(damaged, Err(DiskError::PageDamaged { page }));
    let gone = arena.read(page, &key(1), &mut bytes);
    assert_eq!(gone, Err(DiskError::NotThere { page }));
    arena.read(PageId(2), &key(2), &mut bytes).unwrap();
    assert_eq!(bytes, content(2));
    arena.write(page, &key(9), &content(9)).unwrap();
    arena.read(page, &key(9), &mut bytes).unwrap();
    assert_eq!(bytes, content(9));
}

#[test]
fn a_page_in_the_slot_of_another_is_dropped() {
    let folder = Folder::new();
    filled(&folder.file());
    let (data, _) = data_at(&folder.file());
    // The bytes of page 2, record included, where page 1 was: as a file system does that mixes up blocks.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(folder.file())
        .unwrap();
    let copies = [(data, BYTES as u64), (4096, 96)];
    for (start, stride) in copies {
        let mut block = vec![0; stride as usize];
        file.read_exact_at(&mut block, start + 2 * stride).unwrap();
        file.write_all_at(&block, start + stride).unwrap();
    }
    let arena = opened(&folder.file()).arena;
    let page = PageId(1);
    let damaged = arena.read(page, &key(2), &mut vec![0; BYTES]);
    assert_eq!(damaged, Err(DiskError::PageDamaged { page }));
}

#[test]
fn a_record_that_was_not_written_whole_is_dropped() {
    let folder = Folder::new();
    filled(&folder.file());
    damage(&folder.file(), 4096 + 96 + 20, |byte| !byte);
    let Opened { found, dropped, .. } = opened(&folder.file());
    assert_eq!(dropped, [PageId(1)]);
    assert_eq!(found.len(), 2);
}

#[test]
fn a_file_that_is_cut_off_is_a_typed_error_wherever_it_is_cut() {
    let folder = Folder::new();
    let (_, size) = {
        filled(&folder.file());
        data_at(&folder.file())
    };
    for length in [size - 1, size - BYTES as u64, 5000, 4096, 100, 0, size + 1] {
        let file = OpenOptions::new().write(true).open(folder.file()).unwrap();
        file.set_len(length).unwrap();
        let error = DiskArena::open(&folder.file(), &kv()).unwrap_err();
        assert!(
            matches!(
                &error,
                DiskError::Unusable {
                    error: ArenaError::Damaged { .. },
                    ..
                }
            ),
            "{length}: {error}"
        );
        std::fs::remove_file(folder.file()).unwrap();
        filled(&folder.file());
    }
}

#[test]
fn a_damaged_header_is_a_typed_error() {
    let folder = Folder::new();
    filled(&folder.file());
    for at in [0, 9, 20, 60, 100, 140] {
        damage(&folder.file(), at, |byte| byte ^ 1);
        let error = DiskArena::open(&folder.file(), &kv()).unwrap_err();
        assert!(matches!(error, DiskError::Unusable { .. }), "{at}: {error}");
        damage(&folder.file(), at, |byte| byte ^ 1);
    }
    assert_eq!(opened(&folder.file()).found.len(), 3);
}

#[test]
fn a_file_of_another_model_is_a_typed_error_and_stays() {
    let folder = Folder::new();
    filled(&folder.file());
    let other = layout_of_model(8, Content::Pages, BYTES as u64, PAGES);
    let error = DiskArena::open_or_create(&folder.file(), &other).unwrap_err();
    assert!(
        matches!(
            &error,
            DiskError::Unusable {
                error: ArenaError::Mismatch {
                    field: "fingerprint",
                    ..
                },
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(opened(&folder.file()).found.len(), 3);
}

#[test]
fn a_file_has_one_user_at_a_time() {
    let folder = Folder::new();
    let first = DiskArena::open_or_create(&folder.file(), &kv()).unwrap();
    let second = DiskArena::open(&folder.file(), &kv()).unwrap_err();
    assert!(matches!(second, DiskError::InUse { .. }), "{second}");
    let created = DiskArena::create(&folder.file(), &kv()).unwrap_err();
    assert!(matches!(created, DiskError::Exists { .. }), "{created}");
    drop(first);
    opened(&folder.file());
}

#[test]
fn a_file_for_which_the_disk_has_no_room_is_a_typed_error_and_leaves_nothing() {
    let folder = Folder::new();
    let huge = layout(Content::Pages, 1 << 40, 63);
    let error = DiskArena::create(&folder.file(), &huge).unwrap_err();
    assert!(matches!(error, DiskError::Full { .. }), "{error}");
    assert_eq!(folder.files(), 0);
}

#[test]
fn a_missing_file_or_folder_is_a_typed_error() {
    let folder = Folder::new();
    let missing = DiskArena::open(&folder.file(), &kv()).unwrap_err();
    assert!(matches!(missing, DiskError::Missing { .. }), "{missing}");
    let nowhere = folder.file().join("deeper");
    let error = DiskArena::create(&nowhere, &kv()).unwrap_err();
    assert!(matches!(error, DiskError::System { .. }), "{error}");
}

#[test]
fn pages_of_a_size_that_is_no_block_and_buffers_that_lie_anywhere_are_kept_exactly() {
    let folder = Folder::new();
    let odd = layout(Content::Pages, 4096 + 64, 3);
    let arena = DiskArena::create(&folder.file(), &odd).unwrap();
    let bytes: Vec<u8> = (0..4161_u32).map(|index| index as u8).collect();
    arena.write(PageId(2), &key(5), &bytes[1..]).unwrap();
    let mut seen = vec![0; 4161];
    arena.read(PageId(2), &key(5), &mut seen[1..]).unwrap();
    assert_eq!(seen[1..], bytes[1..]);
    let short = arena.write(PageId(2), &key(5), &bytes[..64]);
    assert!(matches!(short, Err(DiskError::WrongSize { .. })));
    let unknown = arena.read(PageId(3), &key(5), &mut seen[1..]);
    assert!(matches!(unknown, Err(DiskError::UnknownPage { .. })));
}

#[test]
fn pages_of_an_arena_in_memory_go_to_disk_and_back_without_a_buffer_between() {
    let folder = Folder::new();
    let arena = DiskArena::create(&folder.file(), &kv()).unwrap();
    let memory = common::arena("to-disk", &kv());
    let page = memory.page(PageId(3)).unwrap();
    page.write(&content(3)).unwrap();
    // SAFETY: nobody else has this memory.
    arena
        .write(PageId(0), &key(3), unsafe { page.as_slice() })
        .unwrap();
    let mut seen = vec![0; BYTES];
    arena.read(PageId(0), &key(3), &mut seen).unwrap();
    assert_eq!(seen, content(3));
    arena.sync().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is damaged, a read gives the bytes that were written, or an error.
    #[test]
    fn no_damage_lets_a_wrong_byte_through(
        places in vec((any::<prop::sample::Index>(), 1..=255_u8), 1..6),
    ) {
        let folder = Folder::new();
        filled(&folder.file());
        let (_, size) = data_at(&folder.file());
        for (place, bits) in places {
            damage(&folder.file(), place.index(size as usize) as u64, |byte| byte ^ bits);
        }
        let Ok(Opened { arena, found, .. }) = DiskArena::open(&folder.file(), &kv()) else {
            return Ok(());
        };
        for found in found {
            let mut bytes = vec![0; BYTES];
            if arena.read(found.page, &found.key, &mut bytes).is_ok() {
                prop_assert_eq!(found.page.0, u32::from(found.key[0]));
                prop_assert_eq!(bytes, content(found.key[0]));
            }
        }
    }
}
