//! Real journals: whatever two of them hold, and however what one sends is cut into pieces, the other becomes the same.

use std::fs;
use std::path::Path;

use omniflow_link::Received;
use proptest::prelude::*;
use tempfile::tempdir;

use crate::journal::bodies::Forgotten;
use crate::journal::catch_up;
use crate::journal::copy::JournalCopy;
use crate::journal::record::Kind;
use crate::journal::{Image, Journal, JournalConfig};
use crate::replication::copying::Copying;
use crate::replication::messages::{BEGIN, Begin, RECORDS, SNAPSHOT};

fn config(folder: &Path, segment_bytes: u64) -> JournalConfig {
    JournalConfig {
        segment_bytes,
        ..JournalConfig::new(folder)
    }
}

/// A life of a leader with so many records.
fn live(folder: &Path, segment_bytes: u64, term: u64, records: u64) {
    let (mut journal, _) = Journal::open(&config(folder, segment_bytes), term).unwrap();
    journal.start(|_| {}).unwrap();
    for job in 0..records {
        journal.append(Kind::Forgotten, &Forgotten { job });
        journal.flush();
        assert!(journal.inbox().wait(std::time::Duration::from_secs(20)));
    }
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

fn said(folder: &Path) -> Image {
    Image {
        bytes: 0,
        ..Image::read(folder).unwrap()
    }
}

/// What a leader sends to a standby with that journal.
fn sent(leader: &Path, standby: &JournalCopy) -> Vec<(u8, Vec<u8>)> {
    let mine = Image::read(leader).unwrap().extent;
    let keep = mine.common(standby.extent());
    let snapshot = catch_up::snapshot(leader, keep).unwrap();
    let mut begin = Begin {
        keep,
        ..Begin::default()
    };
    let (mut pieces, mut after) = (Vec::new(), keep);
    if let Some(snapshot) = snapshot {
        begin.keep = 0;
        (begin.snapshot, begin.snapshot_bytes) = (snapshot.last, snapshot.bytes);
        after = snapshot.last;
        snapshot
            .read(|piece| {
                pieces.push((SNAPSHOT, piece.to_vec()));
                true
            })
            .unwrap();
    }
    catch_up::read(leader, after, mine.last, |piece| {
        pieces.push((RECORDS, piece.to_vec()));
        true
    })
    .unwrap();
    let begin = (BEGIN, prost::Message::encode_to_vec(&begin));
    std::iter::once(begin).chain(pieces).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn rule_17_a_returning_standby_has_the_leaders_journal_whatever_it_had(
        shared in 0..12_u64,
        lives in prop::collection::vec(0..8_u64, 1..4),
        own in prop::option::of(0..6_u64),
        (leader_segment, standby_segment) in (prop_oneof![Just(u64::MAX), 60..400_u64], prop_oneof![Just(u64::MAX), 60..400_u64]),
        piece in 1..64_usize,
    ) {
        let (leader, standby) = (tempdir().unwrap(), tempdir().unwrap());
        if shared > 0 {
            live(leader.path(), leader_segment, 1, shared);
            copy_folder(leader.path(), standby.path());
        }
        for (term, records) in (10..).zip(&lives) {
            live(leader.path(), leader_segment, term, *records);
        }
        if let Some(records) = own {
            live(standby.path(), standby_segment, 5, records);
        }
        let mut copy = JournalCopy::open(&config(standby.path(), standby_segment)).unwrap();
        let messages = sent(leader.path(), &copy);
        let mut copying = Copying::new(&mut copy);
        let mut last = 0;
        for (kind, body) in messages {
            let whole = [&body[..]];
            let cut: Vec<&[u8]> = body.chunks(piece).collect();
            for part in if kind == BEGIN { &whole[..] } else { &cut } {
                let body = part.to_vec().into();
                let ack = copying.take(std::iter::once(Received { kind, stream: 1, body }));
                last = ack.unwrap().last;
            }
        }
        drop(copy);
        let (mut theirs, mut mine) = (said(leader.path()), said(standby.path()));
        prop_assert_eq!(last, theirs.last);
        // Each compacts when it likes.
        for image in [&mut theirs, &mut mine] {
            image.extent.base = 0;
            image.extent.runs.drain(..image.extent.runs.len() - 1);
        }
        prop_assert_eq!(mine, theirs);
    }
}

#[test]
fn what_is_no_journal_is_an_error_and_changes_nothing() {
    let folder = tempdir().unwrap();
    live(folder.path(), u64::MAX, 1, 3);
    let before = said(folder.path());
    let mut copy = JournalCopy::open(&JournalConfig::new(folder.path())).unwrap();
    let begin = Begin {
        keep: 4,
        ..Begin::default()
    };
    let of = |kind, body: Vec<u8>| {
        std::iter::once(Received {
            kind,
            stream: 1,
            body: body.into(),
        })
    };
    let begin = prost::Message::encode_to_vec(&begin);
    let mut copying = Copying::new(&mut copy);
    let early = copying.take(of(RECORDS, vec![0; 40])).unwrap_err();
    assert!(early.contains("out of turn"), "{early}");
    assert_eq!(copying.take(of(BEGIN, begin)).unwrap().last, 4);
    let broken = copying.take(of(RECORDS, vec![0; 40])).unwrap_err();
    assert!(broken.contains("checksum"), "{broken}");
    drop(copy);
    assert_eq!(said(folder.path()), before);
}
