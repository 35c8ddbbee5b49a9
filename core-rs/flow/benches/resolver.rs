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
    PortIx, PortSpec, Resolver, ScopeId, ScopeSpec, ValueKind, ValueType,
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

/// A flow by hand: what each node is, what feeds its inputs, and what leaves its outputs.
#[derive(Default)]
struct Flow(GraphSpec);

impl Flow {
    fn input(&mut self, value_type: &ValueType) -> Origin {
        self.0
            .inputs
            .push(port(format!("in{}", self.0.inputs.len()), value_type));
        Origin::Input {
            port: PortIx(self.0.inputs.len() as u32 - 1),
        }
    }

    fn node(
        &mut self,
        scope: ScopeId,
        kind: NodeKind,
        inputs: &[(&ValueType, Origin)],
        outputs: &[&ValueType],
    ) -> NodeId {
        let node = NodeId(self.0.nodes.len() as u32);
        for (index, (value_type, from)) in inputs.iter().enumerate() {
            self.edge(*from, node, index as u32, value_type);
        }
        let ports = |what: &str, types: Vec<&ValueType>| {
            let types = types.into_iter().enumerate();
            types
                .map(|(index, value_type)| port(format!("{what}{index}"), value_type))
                .collect::<Vec<_>>()
        };
        self.0.nodes.push(NodeSpec {
            name: format!("node{}", node.0),
            scope,
            kind,
            inputs: ports(
                "in",
                inputs.iter().map(|(value_type, _)| *value_type).collect(),
            ),
            outputs: ports("out", outputs.to_vec()),
            trigger: vec![(0..inputs.len() as u32).map(PortIx).collect()],
            ..NodeSpec::default()
        });
        node
    }

    fn edge(&mut self, from: Origin, node: NodeId, port: u32, value_type: &ValueType) {
        self.0.edges.push(EdgeSpec {
            from,
            to: Destination::Node {
                node,
                port: PortIx(port),
            },
            value_type: value_type.clone(),
        });
    }

    fn scope(&mut self, is_loop: bool) -> ScopeId {
        self.0.scopes.push(ScopeSpec {
            name: "scope".into(),
            parent: ScopeId::ROOT,
            node: NodeId(self.0.nodes.len() as u32),
            is_loop,
        });
        ScopeId(1)
    }

    fn graph(mut self, from: Origin, value_type: &ValueType) -> Arc<Graph> {
        self.0.edges.push(EdgeSpec {
            from,
            to: Destination::Result { port: PortIx(0) },
            value_type: value_type.clone(),
        });
        self.0.results.push(port("out".into(), value_type));
        Arc::new(Graph::new(self.0).expect("a valid flow"))
    }
}

fn out(node: NodeId, port: u32) -> Origin {
    Origin::Node {
        node,
        port: PortIx(port),
    }
}

fn text() -> ValueType {
    ValueType::plain(ValueKind::Text)
}

/// `collect(role(item) for item in each(stream))`.
fn fan_out() -> Arc<Graph> {
    let (texts, list) = (
        ValueType::stream(ValueKind::Text),
        ValueType::plain(ValueKind::List(Box::new(text()))),
    );
    let count = ValueType::stream(ValueKind::Boolean);
    let mut flow = Flow::default();
    let input = flow.input(&texts);
    let scope = flow.scope(false);
    let kind = NodeKind::Each { scope };
    let each = flow.node(ScopeId::ROOT, kind, &[(&texts, input)], &[&text(), &count]);
    let role = flow.node(
        scope,
        NodeKind::default(),
        &[(&text(), out(each, 0))],
        &[&text()],
    );
    let inputs = [(&text(), out(role, 0)), (&count, out(each, 1))];
    let kind = NodeKind::Collect { scope };
    let collect = flow.node(ScopeId::ROOT, kind, &inputs, &[&list]);
    flow.graph(out(collect, 0), &list)
}

/// A loop whose body is two roles: one makes the next state, one says whether it is over.
fn cycle(rounds: u32) -> Arc<Graph> {
    let truth = ValueType::plain(ValueKind::Boolean);
    let mut flow = Flow::default();
    let input = flow.input(&text());
    let scope = flow.scope(true);
    let kind = NodeKind::Loop {
        scope,
        carried: 1,
        emitted: 0,
        max_rounds: rounds + 1,
    };
    let (next, until) = (out(NodeId(1), 0), out(NodeId(2), 0));
    let inputs = [(&text(), input), (&text(), next), (&truth, until)];
    let node = flow.node(ScopeId::ROOT, kind, &inputs, &[&text(), &text()]);
    flow.node(
        scope,
        NodeKind::default(),
        &[(&text(), out(node, 0))],
        &[&text()],
    );
    flow.node(
        scope,
        NodeKind::default(),
        &[(&text(), out(NodeId(1), 0))],
        &[&truth],
    );
    flow.graph(out(node, 1), &text())
}

/// One node that 64 read, and one that reads those.
fn wide_diamond() -> Arc<Graph> {
    let mut inputs: Vec<Vec<u32>> = vec![vec![]];
    inputs.extend((0..64).map(|_| vec![0]));
    inputs.push((1..65).collect());
    let inputs: Vec<&[u32]> = inputs.iter().map(Vec::as_slice).collect();
    graph(text(), &inputs)
}

/// Runs a job with scopes at one place; the second role of a loop says true in the last round. Items that went over edges.
fn run_scopes(
    mut resolver: Resolver<Bytes>,
    frames: usize,
    stream: bool,
    rounds: u32,
    payload: &Bytes,
) -> usize {
    let (truth, lie) = (Bytes::from_static(&[64, 1]), Bytes::from_static(&[64, 0]));
    let graph = resolver.graph().clone();
    let mut effects = Vec::new();
    for node in (0..graph.nodes().len() as u32).map(NodeId) {
        if graph.nodes()[node.index()].kind.is_role() {
            let keys = if graph.bind_depth(node) == 0 {
                1
            } else {
                frames as u32
            };
            for index in 0..keys {
                let key = Key::ROOT.child(index).prefix(graph.bind_depth(node));
                resolver
                    .host(node, &key, 1, &mut effects)
                    .expect("hosted once");
            }
        }
    }
    for _ in 0..frames {
        resolver
            .feed_input(PortIx(0), payload.clone(), &mut effects)
            .expect("room");
    }
    if stream {
        resolver
            .end_input(PortIx(0), &mut effects)
            .expect("a stream");
    }
    let (mut items, mut next) = (0, Vec::new());
    while !effects.is_empty() {
        for effect in effects.drain(..) {
            items += usize::from(matches!(effect, Effect::Send { .. }));
            match effect {
                Effect::Activate { node, ref key, .. } if rounds > 0 && node == NodeId(2) => {
                    let last = key.path() == [rounds - 1];
                    let until = if last { truth.clone() } else { lie.clone() };
                    resolver
                        .emit(node, key, PortIx(0), until, &mut next)
                        .expect("running");
                    resolver.finish(node, key, &mut next).expect("running");
                }
                Effect::ScopeLeft { scope, key, by } => {
                    resolver.scope_left(scope, &key, by, &mut next);
                }
                effect => step(&mut resolver, effect, false, &mut next),
            }
        }
        std::mem::swap(&mut effects, &mut next);
    }
    assert!(resolver.is_empty() && resolver.done());
    items
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
