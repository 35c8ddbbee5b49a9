//! What the resolver costs a frame: whole jobs through one place, from the first input to `Done`.

#![allow(
    missing_docs,
    clippy::expect_used,
    reason = "a benchmark is no library"
)]

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use omniflow_flow::{
    Destination, EdgeSpec, Effect, Graph, GraphSpec, Key, NodeId, NodeKind, NodeSpec, Origin,
    PortIx, PortSpec, Resolver, ValueKind, ValueType,
};

/// Frames of the long stream.
const FRAMES: usize = 10_000;

fn port(name: String, value_type: &ValueType) -> PortSpec {
    PortSpec {
        parameter: name.clone(),
        name,
        value_type: value_type.clone(),
        gate: false,
    }
}

/// A flow of nodes with one output each; `inputs[i]` are the nodes that feed node i, none: the flow's one input.
fn graph(value_type: ValueType, inputs: &[&[u32]]) -> Arc<Graph> {
    let mut spec = GraphSpec {
        name: "bench".into(),
        ..GraphSpec::default()
    };
    spec.inputs.push(port("in".into(), &value_type));
    let mut connect = |from: Origin, to: Destination| {
        spec.edges.push(EdgeSpec {
            from,
            to,
            value_type: value_type.clone(),
        })
    };
    for (index, feeds) in inputs.iter().enumerate() {
        let node = NodeId(index as u32);
        let feeds: Vec<Origin> = match feeds {
            [] => vec![Origin::Input { port: PortIx(0) }],
            _ => feeds
                .iter()
                .map(|node| Origin::Node {
                    node: NodeId(*node),
                    port: PortIx(0),
                })
                .collect(),
        };
        for (port, from) in feeds.iter().enumerate() {
            connect(
                *from,
                Destination::Node {
                    node,
                    port: PortIx(port as u32),
                },
            );
        }
        spec.nodes.push(NodeSpec {
            name: format!("node{index}"),
            kind: NodeKind::Role {
                role: "role".into(),
                method: "run".into(),
            },
            inputs: (0..feeds.len())
                .map(|index| port(format!("in{index}"), &value_type))
                .collect(),
            outputs: vec![port("out".into(), &value_type)],
            trigger: vec![(0..feeds.len() as u32).map(PortIx).collect()],
            ..NodeSpec::default()
        });
    }
    let last = NodeId(inputs.len() as u32 - 1);
    connect(
        Origin::Node {
            node: last,
            port: PortIx(0),
        },
        Destination::Result { port: PortIx(0) },
    );
    spec.results.push(port("out".into(), &value_type));
    Arc::new(Graph::new(spec).expect("a valid flow"))
}

/// Runs a job whose nodes pass on what their first port reads. Returns the number of items that went over edges.
fn run(mut resolver: Resolver<Bytes>, frames: usize, stream: bool, payload: &Bytes) -> usize {
    let mut effects = Vec::new();
    let mut next = Vec::new();
    let mut items = 0;
    for node in 0..resolver.graph().nodes().len() {
        resolver
            .host(NodeId(node as u32), &Key::ROOT, 1, &mut effects)
            .expect("hosted once");
    }
    for fed in 0..frames + usize::from(stream) {
        if fed < frames {
            resolver
                .feed_input(PortIx(0), payload.clone(), &mut effects)
                .expect("room");
        } else {
            resolver
                .end_input(PortIx(0), &mut effects)
                .expect("a stream");
        }
        while !effects.is_empty() {
            for effect in effects.drain(..) {
                items += usize::from(matches!(effect, Effect::Send { .. }));
                step(&mut resolver, effect, stream, &mut next);
            }
            std::mem::swap(&mut effects, &mut next);
        }
    }
    assert!(resolver.is_empty());
    items
}

fn step(
    resolver: &mut Resolver<Bytes>,
    effect: Effect<Bytes>,
    stream: bool,
    effects: &mut Vec<Effect<Bytes>>,
) {
    match effect {
        Effect::Send {
            edge,
            key,
            epoch,
            item,
        } => {
            resolver
                .accept(edge, &key, epoch, item, effects)
                .expect("accepted");
        }
        Effect::Activate {
            node, key, inputs, ..
        } if !stream => {
            let Some(omniflow_flow::InputValue::Plain(payload)) =
                inputs.into_iter().next().map(|input| input.value)
            else {
                return;
            };
            resolver
                .emit(node, &key, PortIx(0), payload, effects)
                .expect("running");
            resolver.finish(node, &key, effects).expect("running");
        }
        Effect::Deliver {
            node, key, payload, ..
        } => {
            resolver
                .emit(node, &key, PortIx(0), payload, effects)
                .expect("running");
        }
        Effect::StreamEnd { node, key, .. } => {
            resolver.finish(node, &key, effects).expect("running")
        }
        other => {
            black_box(other);
        }
    }
}

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

criterion_group!(benches, bench_jobs, bench_stream);
criterion_main!(benches);
