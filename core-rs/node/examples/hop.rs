//! What a hop costs: `cargo run --release -p omniflow-node --example hop`.
//!
//! Jobs of three nodes over two workers, 1 KiB payloads, 16 in flight, over Unix sockets. One JSON row: CPU microseconds
//! of the whole process (both workers, their engines and the stand-in for the scheduler) per hop, a hop being a frame's
//! way from one place to the next, with its activation and events.

#![allow(clippy::expect_used)] // A failed step of a measurement is its end.

#[path = "../tests/node/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use omniflow_node::{NodeError, Ready};
use support::{Scheduler, chain, worker};

const JOBS: u64 = 20_000;
const IN_FLIGHT: u64 = 16;
/// Scheduler to a, a to b, b to c, c to scheduler.
const HOPS: u64 = 4;

fn engine(ready: Ready) -> Result<(), NodeError> {
    loop {
        for activation in ready.take(16, Duration::from_secs(60))? {
            let value = activation.activation().value("text")?.unwrap_or_default();
            activation.emit("text", vec![value])?;
            // The job is released with its last frame, which may be before this.
            match activation.finish([].into()) {
                Ok(()) | Err(NodeError::Cancelled { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// User and system time of this process.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .expect("a name in brackets")
        .split_whitespace()
        .collect();
    let ticks: u64 = [fields[11], fields[12]]
        .iter()
        .map(|field| field.parse::<u64>().expect("a number"))
        .sum();
    ticks as f64 / 100.0
}

fn submit(one: &Scheduler, two: &Scheduler, job: u64) {
    let binds = [(0, 1, 1), (1, 2, 1), (2, 1, 1)];
    one.bind(job, &binds);
    two.bind(job, &binds);
    one.input(job, vec![7; 1024]);
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (first, second) = (worker(1, 1 << 30), worker(2, 1 << 30));
    let peers = [&first.peer, &second.peer];
    let mut one = Scheduler::lead(&first, &peers, chain(false)).await;
    let two = Scheduler::lead(&second, &peers, chain(false)).await;
    let engines = [first.ready("a"), second.ready("b"), first.ready("c")]
        .map(|ready| std::thread::spawn(move || engine(ready)));
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let mut submitted = IN_FLIGHT;
    (0..IN_FLIGHT).for_each(|job| submit(&one, &two, job));
    for _ in 0..JOBS {
        let job = one.frame().await.header.job;
        one.heard
            .retain(|message| matches!(message, omniflow_wire::LinkMessage::Frame(_)));
        one.release(job);
        two.release(job);
        if submitted < JOBS {
            submit(&one, &two, submitted);
            submitted += 1;
        }
    }
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let per_hop = cpu * 1e6 / (JOBS * HOPS) as f64;
    println!(
        r#"{{"name": "node_hop_cpu", "ours": {per_hop:.1}, "unit": "cpu us per hop", "jobs_per_s": {:.0}, "cpu_us_per_job": {:.0}}}"#,
        JOBS as f64 / wall,
        per_hop * HOPS as f64
    );
    first.node.close();
    second.node.close();
    for engine in engines {
        let ended = engine.join().expect("no panic");
        assert!(matches!(ended, Err(NodeError::Closed)));
    }
}
