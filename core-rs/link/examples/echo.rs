//! What a message costs: `cargo run --release -p omniflow-link --example echo`.
//!
//! 1 KiB messages there and back over a Unix socket, 16 in flight, each end on a thread of its own, as in two workers.
//! One JSON row: CPU microseconds of the whole process per message, and messages a second.

#![allow(clippy::expect_used)] // A failed step of a measurement is its end.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use bytes::Bytes;
use omniflow_link::{Address, Endpoint, LinkConfig, LinkReader, LinkSender, Message, Received};
use tokio::runtime::Builder;

const ROUNDS: usize = 300_000;
const IN_FLIGHT: usize = 16;
const PATIENCE: Duration = Duration::from_secs(10);

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

fn message(body: Bytes) -> Message {
    Message {
        kind: 1,
        stream: 1,
        head: Bytes::new(),
        body,
    }
}

async fn echo(link: LinkSender, mut reader: LinkReader) {
    let mut got: Vec<Received> = Vec::new();
    while reader.read(&mut got).await.unwrap_or(false) {
        let back = got.drain(..).map(|received| message(received.body));
        link.send_all(back).expect("sent");
    }
}

async fn ask(link: LinkSender, mut reader: LinkReader) {
    let body = Bytes::from(vec![7; 1024]);
    link.send_all((0..IN_FLIGHT).map(|_| message(body.clone())))
        .expect("sent");
    let (mut got, mut left) = (Vec::new(), ROUNDS);
    while left > 0 {
        reader.read(&mut got).await.expect("it goes on");
        left = left.saturating_sub(got.len());
        let next = got.drain(..).map(|_| message(body.clone()));
        link.send_all(next).expect("sent");
    }
    link.close();
    link.ended().await;
}

fn main() {
    let folder = tempfile::tempdir().expect("folder");
    let address = Address::Unix(folder.path().join("echo.sock"));
    let (ready, is_ready) = channel();
    let at = address.clone();
    let far = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let endpoint = Endpoint::new(LinkConfig::default());
            let listener = endpoint.bind(&at).await.expect("binds");
            ready.send(()).expect("somebody waits");
            let (link, reader) = listener.accept().await.expect("accepts");
            echo(link, reader).await;
        });
    });
    is_ready.recv().expect("it listens");
    let runtime = Builder::new_current_thread().enable_all().build();
    let (cpu, clock) = (cpu_seconds(), Instant::now());
    runtime.expect("a runtime").block_on(async {
        let endpoint = Endpoint::new(LinkConfig::default());
        let (link, reader) = endpoint
            .dial(&[address], PATIENCE)
            .await
            .expect("reachable");
        ask(link, reader).await;
    });
    far.join().expect("no panic");
    let messages = 2.0 * ROUNDS as f64;
    let (cpu, wall) = (cpu_seconds() - cpu, clock.elapsed().as_secs_f64());
    println!(
        "{{\"name\": \"link_echo_1kib_16\", \"cpu_us_per_message\": {:.2}, \"messages_per_s\": {:.0}}}",
        cpu * 1e6 / messages,
        messages / wall
    );
}
