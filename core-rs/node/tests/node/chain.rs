//! Jobs over two workers: frames go from worker to worker, results and events to the scheduler.

use crate::support::{PATIENCE, Scheduler, Worker, blocking, chain, read, worker};
use omniflow_node::NodeError;
use omniflow_wire::v1::node_progress::State;
use omniflow_wire::{LinkMessage, v1};

const PLENTY: usize = 256 << 20;

struct Pair {
    one: Worker,
    two: Worker,
    first: Scheduler,
    second: Scheduler,
}

async fn pair(stream: bool) -> Pair {
    let (one, two) = (worker(1, PLENTY), worker(2, PLENTY));
    let peers = [&one.peer, &two.peer];
    let first = Scheduler::lead(&one, &peers, chain(stream)).await;
    let second = Scheduler::lead(&two, &peers, chain(stream)).await;
    Pair {
        one,
        two,
        first,
        second,
    }
}

#[tokio::test]
async fn a_chain_over_two_workers_runs() {
    let mut pair = pair(false).await;
    for scheduler in [&pair.first, &pair.second] {
        scheduler.bind(5, &[(0, 1, 1), (1, 2, 1), (2, 1, 1)]);
    }
    pair.first.input(5, "hello");
    let activation = pair.one.take("a").await;
    let facts = activation.activation();
    assert_eq!(facts.job().to_string(), "0000000000000005");
    assert_eq!((facts.node(), facts.method()), ("a.run", "run"));
    assert_eq!((facts.seed(), facts.tenant()), (7, "anna"));
    assert!(facts.remaining().expect("it has a deadline") <= std::time::Duration::from_secs(60));
    activation
        .emit("text", vec!["hello a".into()])
        .expect("taken");
    activation
        .finish([("tokens".to_owned(), 3.0)].into())
        .expect("finished");
    pair.two.echo("b").await;
    pair.one.echo("c").await;
    let result = pair.first.frame().await;
    assert_eq!((result.header.job, result.header.edge), (5, 3));
    assert_eq!(&result.payload[..], b"hello a");
    for state in [
        State::Queued,
        State::Started,
        State::FirstFrame,
        State::Done,
    ] {
        pair.first.state(0, state).await;
        pair.second.state(1, state).await;
        pair.first.state(2, state).await;
    }
    let tokens = pair.first.heard.iter().any(|message| match message {
        LinkMessage::Events(events) => events
            .events
            .iter()
            .flat_map(|event| &event.features)
            .any(|feature| feature.name == "tokens" && feature.value == 3.0),
        _ => false,
    });
    assert!(tokens, "work features travel with DONE");
    let counted = pair.first.heard.iter().any(|message| match message {
        LinkMessage::Events(events) => events.events.iter().any(|event| {
            let count = |ports: &[v1::PortCount]| match ports {
                [port] => Some((port.port, port.frames, port.bytes)),
                _ => None,
            };
            // "hello" went in, "hello a" came out.
            (event.node, count(&event.inputs), count(&event.outputs))
                == (0, Some((0, 1, 5)), Some((0, 1, 7)))
        }),
        _ => false,
    });
    assert!(counted, "what went over the ports travels with DONE");
    for (worker, scheduler) in [(&pair.one, &mut pair.first), (&pair.two, &mut pair.second)] {
        scheduler.release(5);
        scheduler.send(v1::Ping { nonce: 9 });
        scheduler
            .hear(|message| matches!(message, LinkMessage::Pong(_)).then_some(()))
            .await;
        for gauge in [
            "jobs",
            "retained_bytes",
            "parked_bytes",
            "activations_running",
        ] {
            assert_eq!(worker.stat(gauge), 0, "{gauge}");
        }
    }
}

#[tokio::test]
async fn a_stream_arrives_in_order_while_it_is_made() {
    let pair = pair(true).await;
    for scheduler in [&pair.first, &pair.second] {
        scheduler.bind(5, &[(0, 1, 1), (1, 2, 1), (2, 2, 1)]);
    }
    pair.first.input(5, "go");
    let a = pair.one.take("a").await;
    a.emit("text", vec!["0".into()]).expect("taken");
    let b = pair.two.take("b").await;
    assert_eq!(read(&b, 9).await.expect("running"), Some(vec!["0".into()]));
    a.emit("text", vec!["1".into(), "2".into()]).expect("taken");
    a.end("text").expect("ended");
    assert!(matches!(
        a.emit("text", vec!["3".into()]),
        Err(NodeError::BadOutput { .. })
    ));
    let mut rest = Vec::new();
    while let Some(frames) = read(&b, 1).await.expect("running") {
        rest.extend(frames);
    }
    assert_eq!(rest, ["1", "2"]);
}

#[tokio::test]
async fn a_frame_of_5_mib_crosses_in_fragments() {
    let mut pair = pair(false).await;
    for scheduler in [&pair.first, &pair.second] {
        scheduler.bind(5, &[(0, 1, 1), (1, 2, 1), (2, 1, 1)]);
    }
    let big: Vec<u8> = (0..5 << 20).map(|i: u32| (i % 241) as u8).collect();
    pair.first.input(5, big.clone());
    pair.one.echo("a").await;
    pair.two.echo("b").await;
    pair.one.echo("c").await;
    assert!(pair.first.frame().await.payload == big, "unchanged");
}

#[tokio::test]
async fn frames_ahead_of_their_bind_are_parked() {
    let pair = pair(false).await;
    pair.first.input(5, "early");
    pair.first.bind(5, &[(0, 1, 1), (1, 2, 1), (2, 1, 1)]);
    // The consumer's worker hears of the job after its first frame has come.
    pair.one.echo("a").await;
    while pair.two.stat("parked_bytes") == 0 {
        tokio::task::yield_now().await;
    }
    pair.second.bind(5, &[(0, 1, 1), (1, 2, 1), (2, 1, 1)]);
    let b = pair.two.take("b").await;
    assert_eq!(
        b.activation().value("text").expect("plain"),
        Some("early".into())
    );
    assert_eq!(pair.two.stat("parked_bytes"), 0);
}

#[tokio::test]
async fn release_cancels_what_runs_and_blocked_reads() {
    let pair = pair(true).await;
    for scheduler in [&pair.first, &pair.second] {
        scheduler.bind(5, &[(0, 1, 1), (1, 2, 1), (2, 2, 1)]);
    }
    pair.first.input(5, "go");
    let a = pair.one.take("a").await;
    a.emit("text", vec!["0".into()]).expect("taken");
    let b = pair.two.take("b").await;
    read(&b, 1).await.expect("running");
    let blocked = tokio::spawn({
        let b = b.clone();
        async move { read(&b, 1).await }
    });
    pair.second.release(5);
    let outcome = blocked.await.expect("no panic");
    assert!(
        matches!(outcome, Err(NodeError::Cancelled { .. })),
        "{outcome:?}"
    );
    assert!(b.activation().cancelled());
    assert!(b.activation().job_over());
    assert!(!a.activation().job_over(), "the other worker has the job");
    let late = b.emit("text", vec!["x".into()]);
    assert!(matches!(late, Err(NodeError::Cancelled { .. })));
    assert_eq!(pair.two.stat("jobs"), 0);
}

#[tokio::test]
async fn wrong_outputs_are_typed_errors_that_name_the_ports() {
    let pair = pair(false).await;
    pair.first.bind(5, &[(0, 1, 1), (1, 2, 1), (2, 1, 1)]);
    pair.first.input(5, "go");
    let a = pair.one.take("a").await;
    let error = a.emit("sound", vec!["x".into()]).expect_err("no such port");
    assert!(error.to_string().contains("it has: text"), "{error}");
    let error = a.finish([].into()).expect_err("nothing was emitted");
    assert!(matches!(error, NodeError::BadOutput { ref port, .. } if port == "text"));
    a.emit("text", vec!["x".into()]).expect("taken");
    let error = a
        .emit("text", vec!["y".into()])
        .expect_err("a plain port takes one");
    assert!(matches!(error, NodeError::BadOutput { .. }));
    a.finish([].into()).expect("finished");
}

#[tokio::test]
async fn an_activation_that_is_dropped_unfinished_fails() {
    let mut pair = pair(false).await;
    pair.first.bind(5, &[(0, 1, 1), (1, 2, 1), (2, 1, 1)]);
    pair.first.input(5, "go");
    drop(pair.one.take("a").await);
    let error = pair.first.failure().await;
    assert_eq!(
        (error.node.as_str(), error.worker.as_str()),
        ("a.run", "w1")
    );
}

#[tokio::test]
async fn jobs_run_in_the_schedulers_order() {
    let pair = pair(false).await;
    for (job, order) in [(1, 3.0), (2, -1.0), (3, 2.0)] {
        pair.first.send(v1::BindJob {
            term: 1,
            job,
            flow: 1,
            order,
            binds: vec![v1::Bind {
                worker: 1,
                epoch: 1,
                ..Default::default()
            }],
            ..Default::default()
        });
        pair.first.input(job, "go");
    }
    while pair.one.stat("activations_queued") < 3 {
        tokio::task::yield_now().await;
    }
    let ready = pair.one.ready("a");
    let taken = blocking(move || ready.take(9, PATIENCE))
        .await
        .expect("open");
    let jobs: Vec<u64> = taken
        .iter()
        .map(|taken| taken.activation().job().0)
        .collect();
    assert_eq!(jobs, [2, 3, 1]);
}
