//! A driver with one place: what is sent comes back at once, and roles pass on what they read.

use std::hint::black_box;

use bytes::Bytes;
use omniflow_flow::{Effect, InputValue, Key, NodeId, PortIx, Resolver};

/// Runs a job whose nodes pass on what their first port reads. Returns the number of items that went over edges.
pub fn run(mut resolver: Resolver<Bytes>, frames: usize, stream: bool, payload: &Bytes) -> usize {
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
            let Some(InputValue::Plain(payload)) =
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

/// Runs a job with scopes at one place; the second role of a loop says true in the last round. Items that went over edges.
pub fn run_scopes(
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
