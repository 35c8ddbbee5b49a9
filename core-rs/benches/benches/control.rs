//! What the job table costs: a flat job from its submission to its end, and a key of a wide fan-out.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[allow(dead_code)]
#[path = "../../flow/tests/resolver/support/build.rs"]
mod build;
#[path = "../../control/tests/control/common/flat.rs"]
mod flat;
#[path = "../../control/tests/control/common/flows.rs"]
mod flows;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use omniflow_control::{
    ClientId, Control, Effect, Event, FlowId, JobId, Limits, Micros, NodeState, NodeUpdate,
    Submission,
};
use omniflow_flow::Key;
use omniflow_placement::{WorkerId, policy};

const STATES: [NodeState; 4] = [
    NodeState::Queued,
    NodeState::Started,
    NodeState::FirstFrame,
    NodeState::Done,
];

struct Table {
    control: Control,
    now: Micros,
    effects: Vec<Effect>,
}

impl Table {
    fn new(graph: std::sync::Arc<omniflow_flow::Graph>, roles: &[&str]) -> Self {
        let mut control = Control::new(Limits::default(), policy("least-outstanding").unwrap(), 1);
        control.add_flow(graph);
        let mut table = Self {
            control,
            now: Micros(1),
            effects: Vec::new(),
        };
        for (number, role) in (1..).zip(roles) {
            table.step(Event::WorkerUp {
                worker: WorkerId(number),
                name: format!("w{number}").into(),
                host: "".into(),
                roles: vec![(*role).to_owned()],
            });
        }
        table
    }

    fn step(&mut self, event: Event) {
        self.now.0 += 1;
        self.effects.clear();
        self.control.step(event, self.now, &mut self.effects);
    }

    fn submit(&mut self) -> JobId {
        self.step(Event::Submit(Submission {
            ticket: 1,
            client: ClientId(1),
            flow: FlowId(0),
            tenant: "".into(),
            priority: 0,
            deadline_ms: 0,
            idempotency_key: "".into(),
            detach: false,
        }));
        match self.effects.first() {
            Some(Effect::Accepted { job, .. }) => *job,
            other => panic!("{other:?}"),
        }
    }

    fn run(&mut self, job: JobId, node: u32, key: &Key, worker: u32) {
        for state in STATES {
            self.step(Event::Node(NodeUpdate {
                worker: WorkerId(worker),
                job,
                node,
                key: key.clone(),
                epoch: 1,
                state,
                at: self.now,
                features: Vec::new(),
                fault: None,
                traffic: None,
            }));
        }
    }
}

fn flat_job(criterion: &mut Criterion) {
    let chain: &[(&str, &[u32], bool)] =
        &[("a", &[], false), ("b", &[0], false), ("c", &[1], false)];
    let mut table = Table::new(flat::flow("chain", chain), &["a", "b", "c"]);
    let mut group = criterion.benchmark_group("control");
    group.throughput(Throughput::Elements(1));
    group.bench_function("flat job of 3 nodes", |bench| {
        bench.iter(|| {
            let job = table.submit();
            (0..3).for_each(|node| table.run(job, node, &Key::ROOT, node + 1));
            table.step(Event::ResultFrame { job });
            table.step(Event::ResultOver { job, port: 0 });
            table.step(Event::Forget { job });
        });
    });
    group.finish();
}

fn fan_out(criterion: &mut Criterion) {
    let graph = flows::deterministic(flows::pdf(), &[]);
    let mut table = Table::new(graph, &["split", "ocr", "clean", "answer"]);
    let mut group = criterion.benchmark_group("control");
    for keys in [1_000, 100_000] {
        group.throughput(Throughput::Elements(u64::from(keys)));
        group.sample_size(10);
        group.bench_function(format!("fan-out of {keys} keys over 2 nodes"), |bench| {
            bench.iter(|| {
                let job = table.submit();
                for key in (0..keys).map(|key| Key::new(&[key])) {
                    let wanted = vec![(2, key.clone())];
                    table.step(Event::Wanted { job, wanted });
                    table.run(job, 2, &key, 2);
                    table.run(job, 3, &key, 3);
                }
                table.step(Event::ScopeLeft {
                    job,
                    scope: 1,
                    key: Key::ROOT,
                    by: 4,
                });
                table.step(Event::Cancel {
                    job,
                    reason: String::new(),
                });
                table.step(Event::Forget { job });
            });
        });
    }
    group.finish();
}

criterion_group!(benches, flat_job, fan_out);
criterion_main!(benches);
