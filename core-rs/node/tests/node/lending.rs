//! Big payloads between workers of one host stay where their producer wrote them (rule 19).

use bytes::Bytes;
use omniflow_node::ActivationHandle;
use omniflow_wire::v1;

use crate::support::{Bridge, Scheduler, Worker, chain, read, worker, worker_with};

pub const MEMORY: usize = 64 << 20;
const BIG: usize = 4 << 20;
const GAUGES: [&str; 4] = ["arena_blobs", "arena_bytes", "lent", "borrowed"];

/// What a role sends: a head, and data that it computed.
fn big(byte: u8) -> [Vec<u8>; 2] {
    [vec![1; 64], vec![byte; BIG]]
}

pub fn written(activation: &ActivationHandle, byte: u8) -> Bytes {
    let parts = big(byte);
    activation.payload(&[&parts[0], &parts[1]])
}

fn is_big(payload: &Bytes, byte: u8) -> bool {
    payload[..] == big(byte).concat()
}

/// Of big payloads, on their way.
fn copies(worker: &Worker) -> u64 {
    worker.stat("sent_inline") + worker.stat("received_inline")
}

pub async fn settled(worker: &Worker, gauge: &str, value: u64) {
    while worker.stat(gauge) != value {
        tokio::task::yield_now().await;
    }
}

pub async fn at_base_line(worker: &Worker) {
    for gauge in GAUGES {
        settled(worker, gauge, 0).await;
    }
}

/// `a` runs on the first worker, `b` and `c` on the others; its value is on its way.
async fn sent(workers: &[&Worker], binds: &[(u32, u32, u32)]) -> Vec<Scheduler> {
    let peers: Vec<&v1::Peer> = workers.iter().map(|worker| &worker.peer).collect();
    let mut schedulers = Vec::new();
    for worker in workers {
        let scheduler = Scheduler::lead(worker, &peers, chain(false)).await;
        scheduler.bind(5, binds);
        schedulers.push(scheduler);
    }
    schedulers[0].input(5, "go");
    let producer = workers[0].take("a").await;
    let value = written(&producer, 7);
    producer.emit("text", vec![value]).expect("taken");
    producer.finish([].into()).expect("finished");
    schedulers
}

#[tokio::test]
async fn rule_19_a_big_value_is_read_where_its_producer_wrote_it_until_its_job_is_over() {
    let (one, two) = (worker(1, MEMORY), worker(2, MEMORY));
    let schedulers = sent(&[&one, &two], &[(0, 1, 1), (1, 2, 1), (2, 2, 1)]).await;
    let consumer = two.take("b").await;
    let value = consumer.activation().value("text").expect("plain");
    let value = value.expect("required");
    assert!(is_big(&value, 7));
    assert!(value.as_ptr().cast::<[u8; 64]>().align_offset(64) == 0);
    assert_eq!((one.stat("lent"), two.stat("borrowed")), (1, 1));
    assert_eq!((one.stat("arena_blobs"), one.stat("arena_writes")), (1, 1));
    drop(value);
    consumer.emit("text", vec!["seen".into()]).expect("taken");
    consumer.finish([].into()).expect("finished");
    drop(consumer);
    for scheduler in &schedulers {
        scheduler.release(5);
    }
    for worker in [&one, &two] {
        at_base_line(worker).await;
        assert_eq!(copies(worker), 0);
    }
}

#[tokio::test]
async fn rule_19_who_keeps_a_value_after_its_job_keeps_its_memory_and_nothing_else() {
    let (one, two) = (worker(1, MEMORY), worker(2, MEMORY));
    let schedulers = sent(&[&one, &two], &[(0, 1, 1), (1, 2, 1), (2, 2, 1)]).await;
    let consumer = two.take("b").await;
    let kept = consumer.activation().value("text").expect("plain");
    schedulers.iter().for_each(|scheduler| scheduler.release(5));
    drop(consumer);
    for worker in [&one, &two] {
        settled(worker, "jobs", 0).await;
    }
    assert_eq!((one.stat("lent"), two.stat("borrowed")), (1, 1));
    assert!(is_big(kept.as_ref().expect("required"), 7));
    drop(kept);
    at_base_line(&one).await;
    at_base_line(&two).await;
}

#[tokio::test]
async fn what_is_read_on_two_workers_is_one_copy_and_what_is_passed_on_is_copied() {
    let (one, two, three) = (worker(1, MEMORY), worker(2, MEMORY), worker(3, MEMORY));
    let binds = [(0, 1, 1), (1, 2, 1), (2, 3, 1)];
    let schedulers = sent(&[&one, &two, &three], &binds).await;
    // What it has not written itself, it cannot lend.
    two.echo("b").await;
    let last = three.take("c").await;
    let value = last.activation().value("text").expect("plain");
    assert!(is_big(&value.expect("required"), 7));
    assert_eq!((one.stat("arena_writes"), two.stat("arena_writes")), (1, 0));
    assert_eq!((copies(&one), copies(&two), copies(&three)), (0, 1, 1));
    schedulers.iter().for_each(|scheduler| scheduler.release(5));
    drop(last);
    for worker in [&one, &two, &three] {
        at_base_line(worker).await;
    }
}

#[tokio::test]
async fn what_is_computed_in_place_is_sent_without_a_copy_once() {
    let (one, two) = (worker(1, MEMORY), worker(2, MEMORY));
    let peers = [&one.peer, &two.peer];
    let first = Scheduler::lead(&one, &peers, chain(true)).await;
    let second = Scheduler::lead(&two, &peers, chain(true)).await;
    for scheduler in [&first, &second] {
        scheduler.bind(5, &[(0, 1, 1), (1, 2, 1), (2, 2, 1)]);
    }
    first.input(5, "go");
    let producer = one.take("a").await;
    assert!(producer.draft(64 << 10).is_none(), "little goes inline");
    assert!(producer.draft(1 << 40).is_none());
    let [head, data] = big(9);
    let draft = producer.draft(data.len()).expect("room");
    // SAFETY: the draft has room for as much, and nobody reads it yet.
    let room = unsafe { std::slice::from_raw_parts_mut(draft.as_ptr(), draft.len()) };
    room.copy_from_slice(&data);
    let sent = producer.payload(&[&head, room]);
    assert_eq!(sent[head.len()..].as_ptr(), draft.as_ptr());
    let again = producer.payload(&[&head, room]);
    assert_ne!(again[head.len()..].as_ptr(), draft.as_ptr());
    producer.emit("text", vec![sent, again]).expect("running");
    drop(draft);
    producer.finish([].into()).expect("finished");
    let consumer = two.take("b").await;
    let mut got = 0;
    while let Some(frames) = read(&consumer, 1).await.expect("running") {
        assert!(frames.iter().all(|frame| is_big(frame, 9)));
        got += frames.len();
    }
    assert_eq!((got, copies(&two)), (2, 0));
    drop(consumer);
    first.release(5);
    second.release(5);
    at_base_line(&one).await;
    at_base_line(&two).await;
}

#[tokio::test]
async fn what_the_arena_has_no_room_for_goes_inline() {
    let little = |_: &std::path::Path, config: &mut omniflow_node::NodeConfig| {
        config.arena_bytes = BIG as u64 / 2;
    };
    let (one, two) = (worker_with(1, little), worker(2, MEMORY));
    let schedulers = sent(&[&one, &two], &[(0, 1, 1), (1, 2, 1), (2, 2, 1)]).await;
    let consumer = two.take("b").await;
    let value = consumer.activation().value("text").expect("plain");
    assert!(is_big(&value.expect("required"), 7));
    assert_eq!((one.stat("arena_full"), one.stat("lent")), (1, 0));
    assert_eq!((copies(&one), copies(&two)), (1, 1));
    schedulers.iter().for_each(|scheduler| scheduler.release(5));
    drop(consumer);
    at_base_line(&one).await;
}

#[tokio::test]
async fn rule_13_a_broken_connection_lends_nothing_twice_and_loses_nothing() {
    let (one, mut two) = (worker(1, MEMORY), worker(2, MEMORY));
    let bridge = Bridge::to(&two).await;
    two.peer.addresses = vec![bridge.address.clone()];
    let peers = [&one.peer, &two.peer];
    let first = Scheduler::lead(&one, &peers, chain(true)).await;
    two.peer.addresses = two.node.addresses().to_vec();
    let second = Scheduler::lead(&two, &[&one.peer, &two.peer], chain(true)).await;
    for scheduler in [&first, &second] {
        scheduler.bind(5, &[(0, 1, 1), (1, 2, 1), (2, 2, 1)]);
    }
    first.input(5, "go");
    let producer = one.take("a").await;
    let mut consumer = None;
    for number in 0..8 {
        let value = written(&producer, number);
        producer.emit("text", vec![value]).expect("running");
        if number == 0 {
            consumer = Some(two.take("b").await);
        }
        bridge.cut();
    }
    producer.finish([].into()).expect("finished");
    let consumer = consumer.expect("it has begun");
    let mut got = 0;
    while let Some(frames) = read(&consumer, 1).await.expect("running") {
        assert!(frames.iter().all(|frame| is_big(frame, got)));
        got += 1;
    }
    assert_eq!(got, 8);
    assert!(one.stat("lent") <= 8, "{}", one.stat("lent"));
    assert_eq!(one.stat("lent"), two.stat("borrowed"));
    drop(consumer);
    first.release(5);
    second.release(5);
    at_base_line(&one).await;
    at_base_line(&two).await;
}

#[tokio::test]
async fn a_worker_without_an_arena_sends_its_frames_inline() {
    let bare = worker_with(2, |_, config| config.arena_bytes = 0);
    let one = worker(1, MEMORY);
    let schedulers = sent(&[&bare, &one], &[(0, 2, 1), (1, 1, 1), (2, 1, 1)]).await;
    let consumer = one.take("b").await;
    let value = consumer.activation().value("text").expect("plain");
    assert!(is_big(&value.expect("required"), 7));
    assert_eq!((bare.stat("lent"), one.stat("borrowed")), (0, 0));
    schedulers.iter().for_each(|scheduler| scheduler.release(5));
}
