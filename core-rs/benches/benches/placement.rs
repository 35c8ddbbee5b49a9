//! One decision (choose, dispatch, end) at 4 to 4,000 workers: its cost has to stay flat.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use omniflow_placement::{Ledger, Request, RoleId, WorkerId, policy, policy_names};

fn decide(criterion: &mut Criterion) {
    for name in policy_names() {
        let mut group = criterion.benchmark_group(*name);
        for workers in [4u32, 40, 400, 4_000] {
            let (mut ledger, Ok(mut policy)) = (Ledger::new(), policy(name)) else {
                continue;
            };
            for worker in 0..workers {
                ledger.join(WorkerId(worker), &[RoleId(0)]);
                for _ in 0..worker % 5 {
                    ledger.dispatch(WorkerId(worker), 1.0);
                }
            }
            let request = Request {
                job: 1,
                node: 0,
                role: RoleId(0),
                work: 1.0,
                features: &[],
            };
            group.bench_function(BenchmarkId::from_parameter(workers), |bencher| {
                bencher.iter(|| {
                    if let Some(worker) = policy.choose(black_box(&request), &ledger) {
                        ledger.dispatch(worker, 1.0);
                        ledger.end(worker, 1.0);
                    }
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, decide);
criterion_main!(benches);
