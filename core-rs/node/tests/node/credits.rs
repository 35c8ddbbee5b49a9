//! Rule 10 between real workers: who is held up, and who is not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Scheduler, Worker, blocking, chain, read, worker};
use bytes::Bytes;
use omniflow_node::{ActivationHandle, NodeError};

const PLENTY: usize = 256 << 20;
const ENOUGH: usize = 20_000;
const PORTION: usize = 500;
/// Three windows.
const BEHIND: usize = 3_072;
const LONG: Duration = Duration::from_secs(60);

/// A producer on one worker and its consumer on another, or on the same.
async fn pair(apart: bool) -> (Worker, Worker, [Scheduler; 2], Arc<ActivationHandle>) {
    let (one, two) = (worker(1, PLENTY), worker(2, PLENTY));
    let peers = [&one.peer, &two.peer];
    let first = Scheduler::lead(&one, &peers, chain(true)).await;
    let second = Scheduler::lead(&two, &peers, chain(true)).await;
    let consumer = if apart { 2 } else { 1 };
    for scheduler in [&first, &second] {
        scheduler.bind(5, &[(0, 1, 1), (1, consumer, 1), (2, 2, 1)]);
    }
    first.input(5, "go");
    let producer = one.take("a").await;
    (one, two, [first, second], producer)
}

fn frames(count: usize) -> Vec<Bytes> {
    vec![Bytes::from_static(b"0123456789abcdef"); count]
}

/// Puts the consumer behind by more than a window, then sends as fast as it reads until the producer is refused room.
/// Returns what was sent and read. Nothing is sent that has to be worked off first, however slow the machine is.
async fn until_held_up(
    producer: &ActivationHandle,
    consumer: &Arc<ActivationHandle>,
) -> (usize, usize) {
    let mut sent = producer.emit("text", frames(BEHIND)).expect("running");
    assert_eq!(sent, BEHIND, "nobody reads yet");
    let (mut got, started) = (0, Instant::now());
    while started.elapsed() < LONG {
        let read = read(consumer, 1).await.expect("running");
        got += read.map_or(0, |frames| frames.len());
        match producer.emit("text", frames(1)).expect("running") {
            0 => return (sent, got),
            taken => sent += taken,
        }
    }
    panic!("it was never held up: {sent} sent, {got} read");
}

#[tokio::test]
async fn rule_10_a_consumer_that_reads_and_falls_behind_slows_its_producer() {
    for apart in [true, false] {
        let (one, two, _schedulers, producer) = pair(apart).await;
        let consumer = if apart { &two } else { &one };
        producer.emit("text", frames(1)).expect("running");
        let consumer = consumer.take("b").await;
        let (sent, mut got) = until_held_up(&producer, &consumer).await;
        // An engine that waits for work hears of room as soon as there is some.
        let ready = one.node.ready("a").expect("served");
        let wait = blocking(move || ready.take(1, Duration::from_secs(60)).expect("open").len());
        while got < sent + 1 {
            got += read(&consumer, 99)
                .await
                .expect("running")
                .map_or(0, |frames| frames.len());
        }
        assert_eq!(wait.await, 0, "nothing to run, but room again");
        let taken = producer.emit("text", frames(PORTION)).expect("running");
        assert!(taken > 0, "there is room again");
    }
}

#[tokio::test]
async fn rule_10_a_consumer_that_has_not_started_slows_nobody() {
    let (one, two, _schedulers, producer) = pair(true).await;
    let taken = producer.emit("text", frames(ENOUGH)).expect("running");
    assert_eq!(taken, ENOUGH);
    producer.finish([].into()).expect("finished");
    let consumer = two.take("b").await;
    let mut got = 0;
    while let Some(frames) = read(&consumer, 999).await.expect("running") {
        got += frames.len();
    }
    assert_eq!(got, ENOUGH);
    drop(one);
}

#[tokio::test]
async fn rule_10_a_consumer_that_ends_releases_its_producer_at_once() {
    let (_one, two, _schedulers, producer) = pair(true).await;
    producer.emit("text", frames(1)).expect("running");
    let consumer = two.take("b").await;
    until_held_up(&producer, &consumer).await;
    consumer.finish([].into()).expect("finished");
    let started = Instant::now();
    loop {
        match producer.emit("text", frames(1)) {
            // Nobody wants its frames, so that it may also be told to stop.
            Ok(1) | Err(NodeError::Cancelled { .. }) => break,
            other => assert_eq!(other.expect("running"), 0),
        }
        assert!(started.elapsed() < LONG, "it is held up for ever");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn rule_10_a_big_frame_that_is_refused_is_not_written_and_its_draft_stays_one() {
    let (one, two, _schedulers, producer) = pair(true).await;
    producer.emit("text", frames(1)).expect("running");
    let consumer = two.take("b").await;
    let (sent, mut got) = until_held_up(&producer, &consumer).await;
    let draft = producer.draft(1 << 20).expect("room");
    // SAFETY: the draft has room for as much, and nobody else writes there.
    let data = unsafe { std::slice::from_raw_parts_mut(draft.as_ptr(), draft.len()) };
    data.fill(7);
    let big = [vec![&b"head"[..], data]];
    let writes = one.stat("arena_writes");
    for _ in 0..3 {
        let taken = producer.emit_parts(false, "text", &big);
        assert_eq!(taken.expect("running"), 0);
    }
    assert_eq!(one.stat("arena_writes"), writes);
    while got < sent + 1 {
        let read = read(&consumer, 99).await.expect("running");
        got += read.map_or(0, |frames| frames.len());
    }
    let waits = Arc::clone(&producer);
    let has_room = blocking(move || waits.wait_for_room(LONG)).await;
    assert!(has_room.expect("running"));
    let taken = producer.emit_parts(false, "text", &big);
    assert_eq!(taken.expect("running"), 1);
    let read = read(&consumer, 1).await.expect("running");
    assert_eq!(read.expect("open")[0][4..], *data);
    assert_eq!(
        one.stat("arena_writes"),
        writes,
        "it left as it was drafted"
    );
}
