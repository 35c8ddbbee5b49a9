//! Resumable nodes over real workers (rule 12): what a reader's place tells of one, and how the next attempt goes on from it.

use crate::support::{Scheduler, Worker, chain, read, worker};
use bytes::Bytes;
use omniflow_wire::v1::node_progress::State;
use omniflow_wire::{LinkMessage, v1};
use prost::Message;

const JOB: u64 = 5;
const PLENTY: usize = 256 << 20;

/// `input -> a -> b -> c`, where `a` is resumable.
fn flow() -> v1::Flow {
    let mut flow = chain(true);
    flow.nodes[0].options = Some(v1::NodeOptions {
        resumable: true,
        ..Default::default()
    });
    flow
}

fn text(word: &str) -> Vec<u8> {
    let kind = Some(v1::value::Kind::Text(word.into()));
    v1::Value { kind }.encode_to_vec()
}

/// A frame with its state.
fn said(word: &str, state: &str) -> Bytes {
    let state = v1::FrameState {
        state: state.to_owned().into(),
    };
    [text(word), state.encode_to_vec()].concat().into()
}

struct World {
    workers: [Worker; 3],
    schedulers: [Scheduler; 3],
}

/// `a` runs at the first worker, the others at the second; the third has nothing to do.
async fn world() -> World {
    let workers = [1, 2, 3].map(|id| worker(id, PLENTY));
    let peers: Vec<&v1::Peer> = workers.iter().map(|worker| &worker.peer).collect();
    let mut schedulers = Vec::new();
    for worker in &workers {
        schedulers.push(Scheduler::lead(worker, &peers, flow()).await);
    }
    for scheduler in &schedulers[..2] {
        scheduler.bind(JOB, &[(0, 1, 1), (1, 2, 1), (2, 2, 1)]);
    }
    schedulers[0].input(JOB, "go");
    let schedulers = schedulers.try_into().ok().expect("three");
    World {
        workers,
        schedulers,
    }
}

impl World {
    /// What the reader's worker holds of `a`.
    async fn ask(&mut self, epoch: u32) -> v1::Delivered {
        let reader = &mut self.schedulers[1];
        reader.send(v1::DeliveredWanted {
            term: 1,
            job: JOB,
            epoch,
            ..Default::default()
        });
        let answer = |message: &LinkMessage| match message {
            LinkMessage::DeliveredReport(report) if report.epoch == epoch => Some(report.clone()),
            _ => None,
        };
        let report = reader.hear(answer).await;
        assert_eq!(report.job, JOB);
        report.delivered.expect("it says what")
    }

    /// `a` goes to the third worker, as its second attempt.
    fn move_on(&self, delivered: v1::Delivered) {
        let bind = |node, worker, epoch| v1::Bind {
            node,
            worker,
            epoch,
            ..Default::default()
        };
        let bind = v1::BindJob {
            term: 1,
            job: JOB,
            flow: 1,
            binds: vec![bind(0, 3, 2), bind(1, 2, 1), bind(2, 2, 1)],
            ..Default::default()
        };
        self.schedulers[1].send(bind.clone());
        self.schedulers[2].send(v1::BindJob {
            delivered: vec![delivered],
            ..bind
        });
        self.schedulers[2].input(JOB, "go");
    }
}

#[tokio::test]
async fn rule_12_an_attempt_goes_on_from_what_its_reader_holds() {
    let mut world = world().await;
    let lost = world.workers[0].take("a").await;
    assert!(lost.activation().resumed().is_empty());
    let frames = vec![said("one", "1"), said("two", "2"), said("three", "3")];
    assert_eq!(lost.emit("text", frames.clone()).expect("running"), 3);
    let reader = world.workers[1].take("b").await;
    let mut heard = Vec::new();
    while heard.len() < 3 {
        heard.extend(read(&reader, 1).await.expect("running").expect("open"));
    }
    let words: Vec<Bytes> = ["one", "two", "three"].map(|word| text(word).into()).into();
    assert_eq!(heard, words, "nobody sees the states");
    let delivered = world.ask(2).await;
    assert_eq!((&delivered.frames, delivered.ended), (&frames, false));
    // What the lost one still says comes too late.
    lost.emit("text", vec![said("lost", "4")]).expect("running");
    world.move_on(delivered);
    let next = world.workers[2].take("a").await;
    assert_eq!(next.activation().epoch(), 2);
    assert_eq!(next.activation().resumed(), frames);
    next.emit("text", vec![said("four", "4")]).expect("running");
    next.finish([("resumed".to_owned(), 3.0)].into())
        .expect("finished");
    let more = read(&reader, 1).await.expect("running").expect("open");
    assert_eq!(more, [Bytes::from(text("four"))]);
    assert_eq!(read(&reader, 1).await.expect("running"), None, "it ended");
    let all = world.ask(3).await;
    assert_eq!((all.frames.len(), all.ended), (4, true));
}

#[tokio::test]
async fn rule_12_what_a_reader_has_to_the_end_is_not_made_again() {
    let mut world = world().await;
    let lost = world.workers[0].take("a").await;
    let frames = vec![said("one", "1"), said("two", "2")];
    lost.emit("text", frames.clone()).expect("running");
    lost.finish([].into()).expect("finished");
    let reader = world.workers[1].take("b").await;
    let mut heard = Vec::new();
    while let Some(frames) = read(&reader, 8).await.expect("running") {
        heard.extend(frames);
    }
    let delivered = world.ask(2).await;
    assert!(delivered.ended);
    world.move_on(delivered);
    world.schedulers[2].state(0, State::Done).await;
    assert_eq!(world.workers[2].ready("a").len(), 0, "no engine has it");
    // Whoever reads it again has it from there.
    let bind = v1::Bind {
        node: 1,
        worker: 3,
        epoch: 2,
        ..Default::default()
    };
    world.schedulers[2].send(v1::BindJob {
        term: 1,
        job: JOB,
        flow: 1,
        binds: vec![bind],
        ..Default::default()
    });
    let again = world.workers[2].take("b").await;
    let mut heard_again = Vec::new();
    while let Some(frames) = read(&again, 8).await.expect("running") {
        heard_again.extend(frames);
    }
    assert_eq!(heard_again, heard);
}

#[tokio::test]
async fn rule_12_a_worker_that_knows_nothing_of_the_job_holds_nothing_of_it() {
    let mut world = world().await;
    let idle = &mut world.schedulers[2];
    idle.send(v1::DeliveredWanted {
        term: 1,
        job: JOB,
        epoch: 2,
        ..Default::default()
    });
    let answer = |message: &LinkMessage| match message {
        LinkMessage::DeliveredReport(report) => report.delivered.clone(),
        _ => None,
    };
    let delivered = idle.hear(answer).await;
    assert_eq!((delivered.frames.len(), delivered.ended), (0, false));
}
