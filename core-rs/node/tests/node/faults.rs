//! Links that break, nodes that move, schedulers that change, peers that misbehave.

use crate::support::{Bridge, PATIENCE, Scheduler, Worker, chain, read, worker};
use bytes::Bytes;
use omniflow_link::{Endpoint, LinkConfig, Message};
use omniflow_node::NodeError;
use omniflow_wire::v1::node_progress::State;
use omniflow_wire::{LinkMessage, v1};

const PLENTY: usize = 256 << 20;

struct Trio {
    workers: [Worker; 3],
    schedulers: [Scheduler; 3],
}

impl Trio {
    async fn start(stream: bool) -> Self {
        let workers = [1, 2, 3].map(|id| worker(id, PLENTY));
        let peers: Vec<&v1::Peer> = workers.iter().map(|worker| &worker.peer).collect();
        let [one, two, three] = &workers;
        let schedulers = [
            Scheduler::lead(one, &peers, chain(stream)).await,
            Scheduler::lead(two, &peers, chain(stream)).await,
            Scheduler::lead(three, &peers, chain(stream)).await,
        ];
        Self {
            workers,
            schedulers,
        }
    }

    fn bind(&self, binds: &[(u32, u32, u32)]) {
        for scheduler in &self.schedulers {
            scheduler.bind(5, binds);
        }
    }
}

fn numbers(range: std::ops::Range<u32>) -> Vec<Bytes> {
    range.map(|number| number.to_string().into()).collect()
}

#[tokio::test]
async fn rule_13_a_broken_link_between_workers_costs_a_pause_and_nothing_is_sent_again() {
    let (one, mut two) = (worker(1, PLENTY), worker(2, PLENTY));
    let bridge = Bridge::to(&two).await;
    two.peer.addresses.insert(0, bridge.address.clone());
    two.peer.addresses.truncate(1);
    let peers = [&one.peer, &two.peer];
    let first = Scheduler::lead(&one, &peers, chain(true)).await;
    two.peer.addresses = two.node.addresses().to_vec();
    let second = Scheduler::lead(&two, &[&one.peer, &two.peer], chain(true)).await;
    for scheduler in [&first, &second] {
        scheduler.bind(5, &[(0, 1, 1), (1, 2, 1), (2, 2, 1)]);
    }
    first.input(5, "go");
    let a = one.take("a").await;
    let mut got = Vec::new();
    a.emit("text", numbers(0..10)).expect("taken");
    let b = two.take("b").await;
    while got.len() < 10 {
        got.extend(read(&b, 99).await.expect("running").expect("not ended"));
    }
    bridge.cut();
    a.emit("text", numbers(10..200)).expect("taken");
    a.finish([].into()).expect("finished");
    while let Some(frames) = read(&b, 99).await.expect("running") {
        assert!(!frames.is_empty(), "frames come within the time");
        got.extend(frames);
    }
    assert_eq!(got, numbers(0..200));
    // Frames and END, each once: the link went on, and retention was not needed.
    let came = two
        .node
        .stats()
        .into_iter()
        .find(|(name, _)| *name == "frames_in");
    assert_eq!(came, Some(("frames_in", 201)));
}

#[tokio::test]
async fn a_consumer_that_moves_gets_everything_again_at_its_new_place() {
    let mut trio = Trio::start(true).await;
    trio.bind(&[(0, 1, 1), (1, 2, 1), (2, 1, 1)]);
    trio.schedulers[0].input(5, "go");
    let a = trio.workers[0].take("a").await;
    a.emit("text", numbers(0..3)).expect("taken");
    let old = trio.workers[1].take("b").await;
    assert_eq!(read(&old, 9).await.expect("running"), Some(numbers(0..3)));
    trio.bind(&[(1, 3, 2)]);
    let new = trio.workers[2].take("b").await;
    assert_eq!(new.activation().epoch(), 2);
    a.emit("text", numbers(3..5)).expect("taken");
    a.finish([].into()).expect("finished");
    let mut got = Vec::new();
    while let Some(frames) = read(&new, 9).await.expect("running") {
        got.extend(frames);
    }
    assert_eq!(got, numbers(0..5));
    let late = read(&old, 9).await;
    assert!(matches!(late, Err(NodeError::Cancelled { .. })), "{late:?}");
    new.emit("text", vec!["done".into()]).expect("taken");
    new.finish([].into()).expect("finished");
    trio.workers[0].take("c").await;
    trio.schedulers[2].state(1, State::Done).await;
}

#[tokio::test]
async fn a_new_attempt_at_the_same_place_begins_with_what_had_come() {
    let trio = Trio::start(true).await;
    trio.bind(&[(0, 1, 1), (1, 2, 1), (2, 2, 1)]);
    trio.schedulers[0].input(5, "go");
    let a = trio.workers[0].take("a").await;
    a.emit("text", numbers(0..3)).expect("taken");
    let old = trio.workers[1].take("b").await;
    assert_eq!(read(&old, 9).await.expect("running"), Some(numbers(0..3)));
    // Only the consumer's worker hears of it: the producer has nothing to send again.
    trio.schedulers[1].bind(5, &[(1, 2, 2)]);
    let new = trio.workers[1].take("b").await;
    assert_eq!(read(&new, 9).await.expect("running"), Some(numbers(0..3)));
    assert!(old.activation().cancelled());
    let stale = old.emit("text", vec!["x".into()]);
    assert!(matches!(stale, Err(NodeError::Cancelled { .. })));
}

#[tokio::test]
async fn a_new_attempt_that_contradicts_delivered_frames_is_reported() {
    let mut trio = Trio::start(true).await;
    trio.bind(&[(0, 1, 1), (1, 2, 1), (2, 2, 1)]);
    trio.schedulers[0].input(5, "go");
    let a = trio.workers[0].take("a").await;
    a.emit("text", vec!["same".into(), "one".into()])
        .expect("taken");
    let b = trio.workers[1].take("b").await;
    let mut got = Vec::new();
    while got.len() < 2 {
        got.extend(read(&b, 9).await.expect("running").expect("not ended"));
    }
    trio.bind(&[(0, 3, 2)]);
    trio.schedulers[2].input(5, "go");
    let again = trio.workers[2].take("a").await;
    again
        .emit("text", vec!["same".into(), "other".into()])
        .expect("taken");
    let contradiction = trio.schedulers[1]
        .hear(|message| match message {
            LinkMessage::Contradiction(found) => Some(found.clone()),
            _ => None,
        })
        .await;
    assert_eq!(
        (contradiction.job, contradiction.edge, contradiction.seq),
        (5, 1, 1)
    );
}

#[tokio::test]
async fn a_peer_that_cannot_be_reached_is_reported() {
    let one = worker(1, PLENTY);
    let gone = v1::Peer {
        id: 2,
        name: "w2".into(),
        incarnation: "first".into(),
        addresses: vec!["unix:/nowhere/at/all.sock".into()],
        host: String::new(),
    };
    let mut scheduler = Scheduler::lead(&one, &[&one.peer, &gone], chain(false)).await;
    scheduler.bind(5, &[(0, 1, 1), (1, 2, 1), (2, 1, 1)]);
    scheduler.input(5, "go");
    one.echo("a").await;
    let report = scheduler
        .hear(|message| match message {
            LinkMessage::PeerUnreachable(report) => Some(report.clone()),
            _ => None,
        })
        .await;
    assert_eq!(report.worker, 2);
    assert!(
        report.cause.contains("/nowhere/at/all.sock"),
        "{}",
        report.cause
    );
}

#[tokio::test]
async fn jobs_go_on_without_a_scheduler_and_the_next_one_hears_of_them() {
    let one = worker(1, PLENTY);
    let peers = [&one.peer];
    let binds = [(0, 1, 1), (1, 1, 1), (2, 1, 1)];
    let mut scheduler = Scheduler::lead(&one, &peers, chain(false)).await;
    scheduler.bind(5, &binds);
    scheduler.input(5, "hello");
    scheduler.state(0, State::Queued).await;
    scheduler.link.abort();
    while one.stat("scheduler_connected") == 1 {
        tokio::task::yield_now().await;
    }
    for role in ["a", "b", "c"] {
        one.echo(role).await;
    }
    let mut next = Scheduler::dial(&one, 2).await;
    assert_eq!(next.welcome().await.term, 2);
    assert_eq!(&next.frame().await.payload[..], b"hello");
    next.state(2, State::Done).await;
}

#[tokio::test]
async fn the_highest_term_is_obeyed() {
    let one = worker(1, PLENTY);
    let mut new = Scheduler::dial(&one, 7).await;
    assert!(new.welcome().await.error.is_none());
    let mut old = Scheduler::dial(&one, 6).await;
    let refused = old.welcome().await;
    assert_eq!(refused.term, 7);
    assert_eq!(refused.error.expect("refused").field, "term");
    assert!(!old.listen().await, "and the link closes");
    // On the new link, a message of the old term has no effect.
    new.send(v1::Drain { term: 6 });
    new.send(v1::Ping { nonce: 1 });
    new.hear(|message| matches!(message, LinkMessage::Pong(_)).then_some(()))
        .await;
    assert!(!one.node.draining());
}

#[tokio::test]
async fn a_hello_for_another_cluster_is_refused() {
    let one = worker(1, PLENTY);
    let mut stranger = Scheduler::say_hello(&one, 1, "other").await;
    let error = stranger.welcome().await.error.expect("refused");
    assert_eq!(error.field, "cluster");
}

#[tokio::test]
async fn a_malformed_message_ends_its_own_link_only() {
    let one = worker(1, PLENTY);
    let mut scheduler = Scheduler::lead(&one, &[&one.peer], chain(false)).await;
    let addresses = [one.node.addresses()[0].parse().expect("an address")];
    for (kind, body) in [(200, &b"what"[..]), (LinkMessage::FRAME, b"\xff\xff\xff")] {
        let endpoint = Endpoint::new(LinkConfig::default());
        let dialled = endpoint.dial(&addresses, PATIENCE).await;
        let (link, mut reader) = dialled.expect("reachable");
        let hello = LinkMessage::from(v1::Hello {
            protocol: omniflow_wire::PROTOCOL,
            cluster: "test".into(),
            from: "w9".into(),
            to: "w1".into(),
            ..Default::default()
        });
        let bad = (kind, Bytes::copy_from_slice(body), Bytes::new());
        for (kind, head, body) in [hello.encode(), bad] {
            let message = Message {
                kind,
                stream: 0,
                head,
                body,
            };
            link.send(message).expect("sent");
        }
        let mut heard = Vec::new();
        while matches!(reader.read(&mut heard).await, Ok(true)) {}
        assert!(heard.len() <= 1, "a Welcome at most");
    }
    scheduler.send(v1::Ping { nonce: 1 });
    scheduler
        .hear(|message| matches!(message, LinkMessage::Pong(_)).then_some(()))
        .await;
}

#[tokio::test]
async fn more_than_may_be_kept_stalls_the_job_and_names_the_edge() {
    let one = worker(1, 10_000);
    let mut scheduler = Scheduler::lead(&one, &[&one.peer], chain(true)).await;
    scheduler.bind(5, &[(0, 1, 1), (1, 1, 1), (2, 1, 1)]);
    scheduler.input(5, "go");
    let a = one.take("a").await;
    a.emit("text", vec![vec![0; 9_000].into()]).expect("taken");
    let over = a.emit("text", vec![vec![0; 9_000].into()]);
    assert!(matches!(over, Err(NodeError::Cancelled { .. })), "{over:?}");
    let error = scheduler.failure().await;
    assert_eq!(error.code, i32::from(v1::ErrorCode::FlowStalled));
    assert!(
        error.message.contains("a.run.text -> b.run.text"),
        "{}",
        error.message
    );
    scheduler.release(5);
    scheduler.bind(6, &[(0, 1, 1), (1, 1, 1), (2, 1, 1)]);
    scheduler.input(6, "go");
    one.echo("a").await;
}

#[tokio::test]
async fn a_deadline_that_passes_cancels_locally() {
    let one = worker(1, PLENTY);
    let scheduler = Scheduler::lead(&one, &[&one.peer], chain(true)).await;
    scheduler.send(v1::BindJob {
        term: 1,
        job: 5,
        flow: 1,
        remaining_ms: 300,
        binds: [0, 1, 2]
            .map(|node| v1::Bind {
                node,
                worker: 1,
                epoch: 1,
                ..Default::default()
            })
            .to_vec(),
        ..Default::default()
    });
    scheduler.input(5, "go");
    let a = one.take("a").await;
    a.emit("text", numbers(0..1)).expect("taken");
    let b = one.take("b").await;
    assert_eq!(read(&b, 9).await.expect("running"), Some(numbers(0..1)));
    let outcome = read(&b, 9).await;
    assert!(
        matches!(outcome, Err(NodeError::Cancelled { .. })),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn drain_finishes_what_is_bound_and_then_says_so() {
    let one = worker(1, PLENTY);
    let mut scheduler = Scheduler::lead(&one, &[&one.peer], chain(false)).await;
    scheduler.bind(5, &[(0, 1, 1), (1, 1, 1), (2, 1, 1)]);
    scheduler.input(5, "go");
    let a = one.take("a").await;
    one.node.drain();
    scheduler
        .hear(|message| matches!(message, LinkMessage::Drain(_)).then_some(()))
        .await;
    assert!(!one.node.wait_drained(std::time::Duration::ZERO));
    a.emit("text", vec!["x".into()]).expect("taken");
    a.finish([].into()).expect("finished");
    one.echo("b").await;
    one.echo("c").await;
    scheduler.frame().await;
    scheduler.release(5);
    scheduler
        .hear(|message| matches!(message, LinkMessage::Drained(_)).then_some(()))
        .await;
    assert!(one.node.wait_drained(PATIENCE));
    let ready = one.ready("a");
    one.node.close();
    let closed = ready.take(1, PATIENCE);
    assert!(matches!(closed, Err(NodeError::Closed)));
}

#[tokio::test]
async fn a_flow_that_cannot_work_fails_its_binds_with_the_reason() {
    let one = worker(1, PLENTY);
    let mut flow = chain(false);
    flow.edges.pop();
    let mut scheduler = Scheduler::lead(&one, &[&one.peer], flow).await;
    scheduler.bind(5, &[(0, 1, 1)]);
    let error = scheduler.failure().await;
    assert_eq!(error.code, i32::from(v1::ErrorCode::BadFlow), "{error:?}");
}
