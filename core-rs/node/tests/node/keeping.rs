//! What is sent and not yet read stays with its producer: in memory, then on disk, up to the job's quota (rules 10, 11).

use std::fs;
use std::sync::Arc;

use crate::support::{Scheduler, Worker, chain, read, worker, worker_with};
use bytes::Bytes;
use omniflow_node::{ActivationHandle, NodeError};
use omniflow_wire::v1;

const MEMORY: usize = 1 << 20;
const QUOTA: usize = 32 << 20;
const FRAME: usize = 64 << 10;
const KEPT: &str = "kept";

/// A producer with little memory, and a consumer elsewhere.
async fn pair() -> (Worker, Worker, [Scheduler; 2], Arc<ActivationHandle>) {
    let one = worker_with(1, |folder, config| {
        config.retention_bytes = MEMORY;
        config.retention_disk_bytes = 256 << 20;
        config.retention_job_bytes = QUOTA;
        config.retention_folder = folder.join(KEPT);
    });
    let two = worker(2, MEMORY);
    let peers = [&one.peer, &two.peer];
    let first = Scheduler::lead(&one, &peers, chain(true)).await;
    let second = Scheduler::lead(&two, &peers, chain(true)).await;
    for scheduler in [&first, &second] {
        scheduler.bind(5, &[(0, 1, 1), (1, 2, 1), (2, 2, 1)]);
    }
    first.input(5, "go");
    let producer = one.take("a").await;
    (one, two, [first, second], producer)
}

fn frame(number: usize) -> Bytes {
    let mut frame = vec![0; FRAME];
    frame[..8].copy_from_slice(&number.to_le_bytes());
    frame.into()
}

fn number(frame: &Bytes) -> usize {
    usize::from_le_bytes(frame[..8].try_into().expect("a frame of the test"))
}

#[tokio::test]
async fn rule_10_what_nobody_reads_yet_goes_to_disk_and_comes_back_in_order() {
    let (one, two, [first, _second], producer) = pair().await;
    let count = QUOTA / FRAME / 2;
    for number in 0..count {
        let taken = producer.emit("text", vec![frame(number)]).expect("running");
        assert_eq!(taken, 1, "its consumer has not started");
    }
    assert!(one.stat("spilled_bytes") > 10 << 20);
    assert!(one.stat("retained_bytes") <= MEMORY as u64 + (64 * count) as u64);
    let folder = one.folder.path().join(KEPT);
    assert_eq!(fs::read_dir(folder).expect("made").count(), 0, "no names");
    producer.finish([].into()).expect("finished");
    let consumer = two.take("b").await;
    let mut got = Vec::new();
    while let Some(frames) = read(&consumer, 7).await.expect("running") {
        got.extend(frames.iter().map(number));
    }
    assert!(got.into_iter().eq(0..count));
    first.release(5);
    while one.stat("jobs") > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        (one.stat("spilled_bytes"), one.stat("retained_bytes")),
        (0, 0)
    );
}

#[tokio::test]
async fn rule_10_the_end_of_a_stream_that_is_on_disk_finds_room_however_full_memory_is() {
    let (_one, two, [_first, _second], producer) = pair().await;
    // What is remembered of those on disk takes more than there is left of memory.
    let frames = vec![Bytes::from(vec![7; 1_000]); 8_000];
    let taken = producer.emit("text", frames).expect("running");
    assert_eq!(taken, 8_000);
    producer.finish([].into()).expect("finished");
    let consumer = two.take("b").await;
    let mut got = 0;
    while let Some(frames) = read(&consumer, 100).await.expect("running") {
        got += frames.len();
    }
    assert_eq!(got, 8_000);
}

#[tokio::test]
async fn rule_10_a_job_that_is_past_its_quota_stalls_and_names_the_edge() {
    let (_one, _two, [mut first, _second], producer) = pair().await;
    let stalled = (0..=QUOTA / FRAME).find_map(|number| {
        let taken = producer.emit("text", vec![frame(number)]);
        taken.err().map(|error| (number, error))
    });
    let (number, error) = stalled.expect("there is a quota");
    assert!(matches!(error, NodeError::Cancelled { .. }), "{error}");
    assert!(number > QUOTA / FRAME * 9 / 10, "{number} frames");
    let error = first.failure().await;
    assert_eq!(error.code, i32::from(v1::ErrorCode::FlowStalled));
    assert!(
        error.message.contains("edge a.run.text"),
        "{}",
        error.message
    );
    assert!(error.message.contains("one job"), "{}", error.message);
    assert!(error.cure.contains("retention_job_bytes"), "{}", error.cure);
}

#[tokio::test]
async fn rule_11_what_was_read_makes_room_past_the_quota_and_its_reader_cannot_run_again() {
    let (_one, two, [mut first, second], producer) = pair().await;
    producer.emit("text", vec![frame(0)]).expect("running");
    let consumer = two.take("b").await;
    let (mut sent, mut got) = (1, 0);
    // Twice the quota goes through a reader that reads.
    while got < 2 * QUOTA / FRAME {
        sent += producer.emit("text", vec![frame(sent)]).expect("running");
        let frames = read(&consumer, 99).await.expect("running");
        for frame in frames.expect("it has not ended") {
            assert_eq!(number(&frame), got);
            got += 1;
        }
    }
    for scheduler in [&first, &second] {
        scheduler.bind(5, &[(0, 1, 1), (1, 2, 2), (2, 2, 1)]);
    }
    let error = first.failure().await;
    assert_eq!(error.code, i32::from(v1::ErrorCode::NotReplayable));
    assert!(
        error.message.contains("edge a.run.text"),
        "{}",
        error.message
    );
}
