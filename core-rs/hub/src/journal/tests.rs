//! Random histories, cut anywhere, damaged anywhere, compacted anywhere: what is read back is what was written.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use bytes::Bytes;
use omniflow_wire::v1;
use proptest::prelude::*;
use tempfile::tempdir;

use super::bodies::{Delivered, Ended, Forgotten, JobSpec, WorkerKnown};
use super::compaction::compact;
use super::extent::Extent;
use super::folder::{MAGIC, list};
use super::handle::{Journal, JournalConfig};
use super::record::{self, Kind};
use super::replay::Image;
use super::writer::{Written, thread_cpu};
use super::{JournalError, folder};

/// Something that happens to the scheduler.
#[derive(Clone, Debug)]
enum Step {
    Job(u64, Vec<u8>),
    Delivered(u64, u64),
    Ended(u64, Vec<u8>),
    Forgotten(u64),
    Worker(u8, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let body = || prop::collection::vec(any::<u8>(), 0..40);
    let job = || 1..12_u64;
    prop_oneof![
        (job(), body()).prop_map(|(job, body)| Step::Job(job, body)),
        (job(), 1..9_u64).prop_map(|(job, frames)| Step::Delivered(job, frames)),
        (job(), body()).prop_map(|(job, body)| Step::Ended(job, body)),
        job().prop_map(Step::Forgotten),
        (0..3_u8, any::<bool>()).prop_map(|(worker, up)| Step::Worker(worker, up)),
    ]
}

fn spec(job: u64, body: Vec<u8>) -> JobSpec {
    JobSpec {
        job,
        flow: "speak".to_owned(),
        flow_version: Bytes::from_static(b"1"),
        inputs: vec![v1::Input {
            name: "question".to_owned(),
            frames: vec![body.into()],
        }],
        ..Default::default()
    }
}

fn write(journal: &mut Journal, step: &Step) {
    match step.clone() {
        Step::Job(job, body) => journal.append(Kind::Job, &spec(job, body)),
        Step::Delivered(job, frames) => {
            let delivered = Delivered {
                job,
                port: 0,
                frames,
                digest: frames * 7,
            };
            journal.append(Kind::Delivered, &delivered)
        }
        Step::Ended(job, body) => {
            let kept = super::bodies::KeptResult {
                frames: vec![body.into()],
                ..Default::default()
            };
            let ended = Ended {
                job,
                results: vec![kept],
                ..Default::default()
            };
            journal.append(Kind::Ended, &ended)
        }
        Step::Forgotten(job) => journal.append(Kind::Forgotten, &Forgotten { job }),
        Step::Worker(worker, up) => {
            let known = WorkerKnown {
                name: format!("worker-{worker}"),
                incarnation: "1".to_owned(),
                up,
            };
            journal.append(Kind::Worker, &known)
        }
    };
}

/// Only what can happen: a number is used once, and nothing is said of a job before it exists or after its end.
fn plausible(steps: Vec<Step>) -> Vec<Step> {
    let (mut used, mut living, mut ended) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let fits = |step: &Step| match step {
        Step::Job(job, _) => used.insert(*job) && living.insert(*job),
        Step::Delivered(job, _) => living.contains(job),
        Step::Ended(job, _) => living.remove(job) && ended.insert(*job),
        Step::Forgotten(job) => ended.remove(job),
        Step::Worker(..) => true,
    };
    steps.into_iter().filter(fits).collect()
}

fn config(folder: &Path, segment_bytes: u64) -> JournalConfig {
    JournalConfig {
        segment_bytes,
        ..JournalConfig::new(folder)
    }
}

/// One life: each step is a turn.
fn live(folder: &Path, segment_bytes: u64, steps: &[Step]) {
    let (mut journal, _) = Journal::open(&config(folder, segment_bytes), 7).unwrap();
    journal.start(|_| {}).unwrap();
    for step in steps {
        write(&mut journal, step);
        journal.flush();
        assert!(journal.inbox().wait(Duration::from_secs(10)));
    }
}

/// What a folder says, but for the bytes that it takes and for who wrote them.
fn said(folder: &Path) -> Image {
    Image {
        bytes: 0,
        extent: Extent::default(),
        ..Image::read(folder).unwrap()
    }
}

/// What those steps say, by way of a folder with one file.
fn expected(steps: &[Step]) -> Image {
    let folder = tempdir().unwrap();
    live(folder.path(), u64::MAX, steps);
    said(folder.path())
}

fn only_segment(folder: &Path) -> PathBuf {
    list(folder).unwrap().segments.pop().unwrap().1
}

/// Offsets at which records begin, and the end.
fn bounds(bytes: &[u8]) -> Vec<usize> {
    let mut bounds = vec![MAGIC.len()];
    let mut at = MAGIC.len();
    while let Ok(found) = record::parse(&bytes[at..]) {
        at += found.len();
        bounds.push(at);
    }
    bounds
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn rule_17_files_of_any_length_say_what_was_written_through_any_compactions(
        steps in prop::collection::vec(step(), 0..60).prop_map(plausible),
        segment_bytes in 60..2_000_u64,
    ) {
        let folder = tempdir().unwrap();
        live(folder.path(), segment_bytes, &steps);
        prop_assert_eq!(said(folder.path()), expected(&steps));
    }

    #[test]
    fn rule_17_compacting_what_is_done_changes_nothing_that_it_says(
        steps in prop::collection::vec(step(), 0..60).prop_map(plausible),
    ) {
        let folder = tempdir().unwrap();
        live(folder.path(), u64::MAX, &steps);
        let before = said(folder.path());
        compact(folder.path(), before.last + 1).unwrap();
        prop_assert!(list(folder.path()).unwrap().segments.is_empty());
        prop_assert_eq!(said(folder.path()), before.clone());
        // A life more on top of the snapshot, and another compaction.
        live(folder.path(), u64::MAX, &[Step::Job(99, vec![1])]);
        let before = said(folder.path());
        compact(folder.path(), before.last + 1).unwrap();
        prop_assert_eq!(said(folder.path()), before);
    }

    #[test]
    fn rule_17_a_file_cut_at_any_byte_says_what_its_whole_records_say(
        steps in prop::collection::vec(step(), 1..6).prop_map(plausible),
    ) {
        let folder = tempdir().unwrap();
        live(folder.path(), u64::MAX, &steps);
        let path = only_segment(folder.path());
        let bytes = fs::read(&path).unwrap();
        let bounds = bounds(&bytes);
        for length in 0..=bytes.len() {
            let copy = tempdir().unwrap();
            let cut = copy.path().join(path.file_name().unwrap());
            fs::write(&cut, &bytes[..length]).unwrap();
            let whole = bounds.iter().filter(|bound| **bound <= length).count().saturating_sub(1);
            prop_assert_eq!(said(copy.path()).last, whole as u64);
            if length % 7 != 0 && !bounds.contains(&length) {
                continue;
            }
            // What was cut off is gone for good, and the next life goes on behind it.
            live(copy.path(), u64::MAX, &[Step::Job(99, vec![1])]);
            let after = said(copy.path());
            prop_assert_eq!(after.last, whole as u64 + 2);
            prop_assert!(after.jobs.contains_key(&99));
        }
    }

    #[test]
    fn rule_17_a_flipped_bit_is_found_and_named_unless_it_is_in_the_last_record(
        steps in prop::collection::vec(step(), 2..12).prop_map(plausible),
        place in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let folder = tempdir().unwrap();
        live(folder.path(), u64::MAX, &steps);
        let path = only_segment(folder.path());
        let mut bytes = fs::read(&path).unwrap();
        let at = place.index(bytes.len());
        let bounds = bounds(&bytes);
        bytes[at] ^= 1 << bit;
        fs::write(&path, &bytes).unwrap();
        let last = bounds[bounds.len() - 2];
        match Image::read(folder.path()) {
            Err(JournalError::Corrupt { file, offset, .. }) => {
                prop_assert!(at < last);
                prop_assert_eq!(file, path);
                let begin = bounds.iter().rev().find(|bound| **bound <= at).copied().unwrap_or(0);
                prop_assert_eq!(offset, begin as u64);
            }
            Ok(image) => {
                prop_assert!(at >= last);
                prop_assert_eq!(image.last, bounds.len() as u64 - 2);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

#[test]
fn a_folder_is_of_one_scheduler_alone() {
    let folder = tempdir().unwrap();
    let (_journal, _) = Journal::open(&JournalConfig::new(folder.path()), 7).unwrap();
    let second = Journal::open(&JournalConfig::new(folder.path()), 8);
    assert!(matches!(second, Err(JournalError::InUse { .. })));
}

#[test]
fn a_missing_file_is_a_gap_and_no_silence() {
    let folder = tempdir().unwrap();
    let steps: Vec<Step> = (1..9).map(|job| Step::Job(job, vec![0; 30])).collect();
    for life in steps.chunks(3) {
        live(folder.path(), u64::MAX, life);
    }
    let files = list(folder.path()).unwrap();
    let second = &files.segments[1];
    fs::remove_file(&second.1).unwrap();
    match Image::read(folder.path()) {
        Err(JournalError::Gap { expected, .. }) => assert_eq!(expected, second.0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_compaction_that_died_before_or_after_its_rename_leaves_what_was() {
    let folder = tempdir().unwrap();
    let steps: Vec<Step> = (1..6).map(|job| Step::Job(job, vec![0; 30])).collect();
    live(folder.path(), u64::MAX, &steps);
    let before = said(folder.path());
    fs::write(folder.path().join("snapshot.partial"), b"omniflow-jour").unwrap();
    assert_eq!(said(folder.path()), before);
    assert!(!folder.path().join("snapshot.partial").exists());
    // After the rename, the old files are still there.
    let (first, path) = list(folder.path()).unwrap().segments.pop().unwrap();
    let old = fs::read(&path).unwrap();
    compact(folder.path(), before.last + 1).unwrap();
    fs::write(folder::segment_path(folder.path(), first), old).unwrap();
    assert_eq!(said(folder.path()), before);
    assert!(!path.exists());
}

#[test]
fn what_cannot_be_written_is_told_and_written_once_it_can() {
    let folder = tempdir().unwrap();
    let (mut journal, _) = Journal::open(&JournalConfig::new(folder.path()), 7).unwrap();
    // The name of its first file is taken by something that is no file.
    let path = folder::segment_path(folder.path(), 1);
    fs::create_dir(&path).unwrap();
    let (told, news) = channel();
    journal.start(move |said| drop(told.send(said))).unwrap();
    write(&mut journal, &Step::Job(5, vec![1, 2, 3]));
    journal.flush();
    let patience = Duration::from_secs(10);
    assert!(matches!(
        news.recv_timeout(patience),
        Ok(Written::Failed(_))
    ));
    fs::remove_dir(&path).unwrap();
    while !matches!(news.recv_timeout(patience).unwrap(), Written::UpTo(2)) {}
    drop(journal);
    assert!(said(folder.path()).jobs.contains_key(&5));
}

/// Prints what a record costs; fails only where it is far off.
#[test]
fn a_record_costs_microseconds() {
    let folder = tempdir().unwrap();
    let (mut journal, _) = Journal::open(&JournalConfig::new(folder.path()), 7).unwrap();
    let (told, news) = channel();
    journal
        .start(move |said| drop(told.send((said, thread_cpu()))))
        .unwrap();
    let spec = spec(1, vec![0; 1_024]);
    let (turns, of_each) = (2_000, 16);
    let before = thread_cpu();
    for _ in 0..turns {
        for _ in 0..of_each {
            journal.append(Kind::Job, &spec);
        }
        journal.flush();
    }
    let appended = thread_cpu() - before;
    assert!(journal.inbox().wait(Duration::from_secs(20)));
    let written = news.try_iter().last().unwrap().1;
    let count = f64::from(turns * of_each);
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / count;
    let (append, write) = (micros(appended), micros(written));
    println!("journal of 1 KiB jobs: {append:.2} CPU-us appending, {write:.2} writing, a record");
    assert!(append + write < 50.0);
}
