//! What a turn costs here: keys of 8,192 tokens, a match of 512 pages, an insertion of as many.

use std::hint::black_box;
use std::num::NonZeroU32;

use criterion::{Criterion, criterion_group, criterion_main};
use omniflow_prefix::{KeyChain, KeyRoot, PrefixIndex};

const TOKENS: u32 = 8_192;

fn root() -> KeyRoot {
    KeyRoot::new(
        b"model",
        "k,v: 30 layers, 3 heads, 64, f32",
        NonZeroU32::MIN.saturating_add(15),
        b"tenant",
    )
}

fn chain(first: u32) -> KeyChain {
    let tokens: Vec<u32> = (first..first + TOKENS).collect();
    let mut chain = KeyChain::new(root());
    chain.extend(&tokens);
    chain
}

/// An index of 64 unrelated sequences of 512 pages.
fn filled() -> PrefixIndex<u32> {
    let mut index = PrefixIndex::default();
    for sequence in 0..64 {
        let inserted = index.insert(chain(sequence * TOKENS).keys(), |missing| {
            missing.map(|page| page as u32)
        });
        black_box(inserted).ok();
    }
    index
}

fn benches(criterion: &mut Criterion) {
    let tokens: Vec<u32> = (0..TOKENS).collect();
    criterion.bench_function("prefix/keys of 8192 tokens", |bench| {
        bench.iter(|| {
            let mut chain = KeyChain::new(root());
            chain.extend(black_box(&tokens))
        });
    });
    criterion.bench_function("prefix/one token more at 8192", |bench| {
        let mut grown = chain(0);
        bench.iter(|| {
            grown.extend(black_box(&[7]));
            grown.truncate(TOKENS as usize)
        });
    });

    let mut index = filled();
    let known = chain(17 * TOKENS);
    criterion.bench_function("prefix/match 512 pages hit", |bench| {
        bench.iter(|| black_box(index.matched(black_box(known.keys()))).len());
    });
    criterion.bench_function("prefix/find 512 pages hit", |bench| {
        bench.iter(|| index.find(black_box(known.keys())));
    });
    let new = chain(100 * TOKENS);
    criterion.bench_function("prefix/insert 512 pages, remove 512", |bench| {
        bench.iter(|| {
            let inserted = index.insert(black_box(new.keys()), |missing| {
                missing.map(|page| page as u32)
            });
            black_box(inserted).ok();
            new.keys()
                .iter()
                .rev()
                .filter(|key| index.remove(key).is_ok())
                .count()
        });
    });
    let next = std::cell::Cell::new(0);
    criterion.bench_function("prefix/insert 512 pages, evict 512", |bench| {
        // 64 sequences are known and 80 take turns: each evicts the one that was used longest ago.
        let chains: Vec<KeyChain> = (0..80).map(|sequence| chain(sequence * TOKENS)).collect();
        bench.iter(|| {
            next.set((next.get() + 1) % chains.len());
            let keys = chains[next.get()].keys();
            let inserted = index.insert(keys, |missing| missing.map(|page| page as u32));
            let added = inserted.map_or(0, |inserted| inserted.added);
            index.evict(added, |_| true).len()
        });
    });
}

criterion_group!(all, benches);
criterion_main!(all);
