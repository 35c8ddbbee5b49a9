//! What a decision of placement costs here: a million pages on a thousand workers, and fewer and more of both.

use std::hint::black_box;
use std::num::NonZeroU32;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use omniflow_prefix::{ClusterIndex, Holder, KeyChain, KeyRoot, PageKey};

/// 128 pages of 16 tokens, of which the first `shared` are those of all sequences.
fn keys(sequence: u32, shared: u32) -> Vec<PageKey> {
    let root = KeyRoot::new(b"model", "layout", NonZeroU32::MIN.saturating_add(15), b"");
    let mut chain = KeyChain::new(root);
    let own = |position| {
        if position < shared * 16 {
            0
        } else {
            sequence + 1
        }
    };
    let tokens: Vec<u32> = (0..128 * 16)
        .map(|position| position ^ (own(position) << 12))
        .collect();
    chain.extend(&tokens);
    chain.keys().to_vec()
}

/// Sequences that share none, a quarter or half of their pages with all others, eight a worker.
fn sequences(workers: u32) -> Vec<(Holder, Vec<PageKey>)> {
    (0..workers * 8)
        .map(|sequence| {
            (
                Holder(sequence % workers),
                keys(sequence, sequence % 3 * 32),
            )
        })
        .collect()
}

fn filled(sequences: &[(Holder, Vec<PageKey>)]) -> ClusterIndex {
    let mut index = ClusterIndex::default();
    for (holder, keys) in sequences {
        black_box(index.insert(*holder, None, keys)).ok();
    }
    index
}

fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cluster");
    group.sample_size(20);
    for workers in [100, 1_000, 4_000] {
        let sequences = sequences(workers);
        let mut index = filled(&sequences);
        let mut next = 0;
        let name = format!("{workers} workers, {} pages", index.len());
        group.bench_function(BenchmarkId::new("match 128 pages", &name), |bench| {
            bench.iter(|| {
                next = (next + 7_919) % sequences.len();
                let matched = index.matched(black_box(&sequences[next].1));
                matched.by_length().take(8).count()
            });
        });
        group.bench_function(
            BenchmarkId::new("insert, remove 128 pages", &name),
            |bench| {
                let new = keys(u32::MAX >> 13, 32);
                bench.iter(|| {
                    black_box(index.insert(Holder(3), None, &new)).ok();
                    index.remove(Holder(3), black_box(&new[32..]))
                });
            },
        );
        group.bench_function(
            BenchmarkId::new("remove and add a worker", &name),
            |bench| {
                let holder = Holder(5);
                let own: Vec<_> = sequences
                    .iter()
                    .filter(|(other, _)| *other == holder)
                    .collect();
                bench.iter(|| {
                    let removed = index.remove_holder(holder);
                    for (holder, keys) in &own {
                        black_box(index.insert(*holder, None, keys)).ok();
                    }
                    removed
                });
            },
        );
    }
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
