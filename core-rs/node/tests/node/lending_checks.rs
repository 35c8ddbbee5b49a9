//! What an activation makes of a value that its lender has taken back does not leave (rule 19). The lender here ends leases
//! long before its reader has to renew them: nothing tells the reader but the generation.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use omniflow_node::{ActivationHandle, NodeError};

use crate::lending::{settled, written};
use crate::support::{Scheduler, Worker, chain, worker, worker_with};

const BINDS: [(u32, u32, u32); 3] = [(0, 1, 1), (1, 2, 1), (2, 2, 1)];

/// `a` runs on the lender, `b` on the reader.
struct Pair {
    lender: Worker,
    reader: Worker,
    schedulers: [Scheduler; 2],
}

impl Pair {
    async fn new() -> Self {
        let hasty = |_: &std::path::Path, config: &mut omniflow_node::NodeConfig| {
            config.lease = Duration::from_millis(500);
        };
        let (lender, reader) = (worker_with(1, hasty), worker(2, 64 << 20));
        let peers = [&lender.peer, &reader.peer];
        let schedulers = [
            Scheduler::lead(&lender, &peers, chain(false)).await,
            Scheduler::lead(&reader, &peers, chain(false)).await,
        ];
        Self {
            lender,
            reader,
            schedulers,
        }
    }

    /// Its value is on its way to `b`.
    async fn start(&self, job: u64) {
        for scheduler in &self.schedulers {
            scheduler.bind(job, &BINDS);
        }
        self.schedulers[0].input(job, "go");
        let producer = self.lender.take("a").await;
        let value = written(&producer, 7);
        producer.emit("text", vec![value]).expect("taken");
        producer.finish([].into()).expect("finished");
    }

    async fn started(&self, job: u64) -> Arc<ActivationHandle> {
        self.start(job).await;
        self.reader.take("b").await
    }

    /// Where it was made, its job is over and its lease ends.
    async fn take_back(&self, jobs: &[u64], left: u64) {
        jobs.iter().for_each(|job| self.schedulers[0].release(*job));
        settled(&self.lender, "arena_blobs", left).await;
    }
}

fn emit(activation: &ActivationHandle) -> Result<usize, NodeError> {
    activation.emit("text", vec!["seen".into()])
}

fn is_stale<T>(outcome: Result<T, NodeError>) -> bool {
    matches!(outcome, Err(NodeError::Stale { .. }))
}

#[tokio::test]
async fn rule_19_output_of_a_value_that_was_taken_back_does_not_leave_and_other_output_does() {
    let pair = Pair::new().await;
    let (fifth, sixth) = (pair.started(5).await, pair.started(6).await);
    pair.start(7).await;
    settled(&pair.reader, "borrowed", 3).await;
    pair.take_back(&[5, 7], 1).await;
    for _ in 0..2 {
        assert!(is_stale(emit(&fifth)));
        assert!(is_stale(fifth.finish([].into())));
    }
    assert_eq!(emit(&sixth).ok(), Some(1));
    let seventh = pair.reader.take("b").await;
    assert!(is_stale(emit(&seventh)), "it waited meanwhile");
    sixth.finish([].into()).expect("its value is as it was");
}

#[tokio::test]
async fn rule_19_a_kept_value_that_was_taken_back_ends_what_runs_then_and_nothing_after() {
    let pair = Pair::new().await;
    let consumer = pair.started(5).await;
    let kept: Option<Bytes> = consumer.activation().value("text").expect("plain");
    emit(&consumer).expect("as it was");
    consumer.finish([].into()).expect("as it was");
    drop(consumer);
    let running = pair.started(6).await;
    pair.take_back(&[5], 1).await;
    for _ in 0..2 {
        assert!(is_stale(emit(&running)), "its role may have used it");
    }
    let later = pair.started(7).await;
    assert_eq!(emit(&later).ok(), Some(1));
    drop(kept);
}
