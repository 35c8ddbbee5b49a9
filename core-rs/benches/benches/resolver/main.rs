//! What the resolver costs a frame: whole jobs through one place, from the first input to `Done`.

#![allow(
    missing_docs,
    clippy::expect_used,
    reason = "a benchmark is no library"
)]

mod drive;
mod flows;

use bytes::Bytes;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use omniflow_flow::{Resolver, ValueKind, ValueType};

use drive::{run, run_scopes};
use flows::{cycle, fan_out, graph, wide_diamond};

/// Frames of the long stream.
const FRAMES: usize = 10_000;

fn bench_jobs(criterion: &mut Criterion) {
    let text = ValueType::plain(ValueKind::Text);
    let flows = [
        ("chain_of_3", graph(text.clone(), &[&[], &[0], &[1]])),
        ("diamond", graph(text, &[&[], &[0], &[0], &[1, 2]])),
    ];
    let payload = Bytes::from(vec![7; 1024]);
    let mut group = criterion.benchmark_group("job");
    for (name, graph) in flows {
        let items = run(Resolver::with_results(graph.clone()), 1, false, &payload);
        group.throughput(Throughput::Elements(items as u64));
        group.bench_function(BenchmarkId::new(name, "1 KiB"), |bencher| {
            bencher.iter_batched(
                || Resolver::with_results(graph.clone()),
                |resolver| run(resolver, 1, false, &payload),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn bench_stream(criterion: &mut Criterion) {
    let graph = graph(ValueType::stream(ValueKind::Text), &[&[]]);
    let mut group = criterion.benchmark_group("stream");
    for size in [16, 1024] {
        let payload = Bytes::from(vec![7; size]);
        let items = run(
            Resolver::with_results(graph.clone()),
            FRAMES,
            true,
            &payload,
        );
        group.throughput(Throughput::Elements(items as u64));
        group.bench_function(BenchmarkId::new("10000 frames", size), |bencher| {
            bencher.iter_batched(
                || Resolver::with_results(graph.clone()),
                |resolver| run(resolver, FRAMES, true, &payload),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn bench_scopes(criterion: &mut Criterion) {
    let payload = Bytes::from(vec![7; 64]);
    let mut group = criterion.benchmark_group("scopes");
    for size in [100, 1_000, 10_000] {
        let (fan, turns) = (fan_out(), cycle(size));
        let items = run_scopes(
            Resolver::with_results(fan.clone()),
            size as usize,
            true,
            0,
            &payload,
        );
        group.throughput(Throughput::Elements(items as u64));
        group.bench_function(BenchmarkId::new("fan-out and collect", size), |bencher| {
            bencher.iter_batched(
                || Resolver::with_results(fan.clone()),
                |resolver| run_scopes(resolver, size as usize, true, 0, &payload),
                BatchSize::LargeInput,
            );
        });
        let items = run_scopes(
            Resolver::with_results(turns.clone()),
            1,
            false,
            size,
            &payload,
        );
        group.throughput(Throughput::Elements(items as u64));
        group.bench_function(BenchmarkId::new("loop", size), |bencher| {
            bencher.iter_batched(
                || Resolver::with_results(turns.clone()),
                |resolver| run_scopes(resolver, 1, false, size, &payload),
                BatchSize::LargeInput,
            );
        });
    }
    let diamond = wide_diamond();
    let items = run(Resolver::with_results(diamond.clone()), 1, false, &payload);
    group.throughput(Throughput::Elements(items as u64));
    group.bench_function("diamond of 64", |bencher| {
        bencher.iter_batched(
            || Resolver::with_results(diamond.clone()),
            |resolver| run(resolver, 1, false, &payload),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, bench_jobs, bench_stream, bench_scopes);
criterion_main!(benches);
