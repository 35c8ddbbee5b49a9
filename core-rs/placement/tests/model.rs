//! The ledger and the policies against a naive model, on random joins, drains, deaths, dispatches and ends.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use omniflow_placement::{Ledger, Request, RoleId, WorkerId, policy};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Join(u32, Vec<u32>),
    Withdraw(u32),
    Leave(u32),
    Dispatch(u32),
    End(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..12u32, prop::collection::btree_set(0..3u32, 1..3))
            .prop_map(|(worker, roles)| Step::Join(worker, roles.into_iter().collect())),
        (0..12u32).prop_map(Step::Withdraw),
        (0..12u32).prop_map(Step::Leave),
        (0..3u32).prop_map(Step::Dispatch),
        (0..3u32).prop_map(Step::Dispatch),
        (0..12u32).prop_map(Step::End),
    ]
}

#[derive(Default)]
struct Model {
    workers: BTreeMap<u32, (Vec<u32>, bool, u32)>,
}

impl Model {
    fn candidates(&self, role: u32) -> Vec<u32> {
        let able = self
            .workers
            .iter()
            .filter(|(_, (roles, offered, _))| *offered && roles.contains(&role));
        able.map(|(worker, _)| *worker).collect()
    }
}

fn request(role: u32) -> Request<'static> {
    Request {
        job: 1,
        node: 0,
        role: RoleId(role),
        work: 1.0,
        features: &[],
    }
}

fn run(name: &str, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (mut ledger, mut policy, mut model) =
        (Ledger::new(), policy(name).unwrap(), Model::default());
    for step in steps {
        match step {
            Step::Join(worker, roles) => {
                ledger.join(
                    WorkerId(worker),
                    &roles.iter().map(|role| RoleId(*role)).collect::<Vec<_>>(),
                );
                let load = model.workers.get(&worker).map_or(0, |entry| entry.2);
                model.workers.insert(worker, (roles, true, load));
            }
            Step::Withdraw(worker) => {
                ledger.withdraw(WorkerId(worker));
                if let Some(entry) = model.workers.get_mut(&worker) {
                    entry.1 = false;
                }
            }
            Step::Leave(worker) => {
                let load = ledger.leave(WorkerId(worker));
                prop_assert_eq!(
                    load.outstanding,
                    model.workers.remove(&worker).map_or(0, |entry| entry.2)
                );
            }
            Step::Dispatch(role) => {
                let chosen = policy.choose(&request(role), &ledger);
                let candidates = model.candidates(role);
                prop_assert_eq!(chosen.is_some(), !candidates.is_empty());
                let Some(chosen) = chosen else { continue };
                prop_assert!(
                    candidates.contains(&chosen.0),
                    "{} chose {}, not among {:?}",
                    name,
                    chosen,
                    candidates
                );
                if name == "least-outstanding" {
                    let least = candidates
                        .iter()
                        .map(|worker| model.workers[worker].2)
                        .min()
                        .unwrap();
                    prop_assert_eq!(model.workers[&chosen.0].2, least);
                }
                ledger.dispatch(chosen, 1.0);
                model.workers.get_mut(&chosen.0).unwrap().2 += 1;
            }
            Step::End(worker) => {
                ledger.end(WorkerId(worker), 1.0);
                if let Some(entry) = model.workers.get_mut(&worker) {
                    entry.2 = entry.2.saturating_sub(1);
                }
            }
        }
        ledger.check().unwrap();
        prop_assert_eq!(
            ledger.outstanding(),
            model
                .workers
                .values()
                .map(|entry| u64::from(entry.2))
                .sum::<u64>()
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn least_outstanding_always_takes_a_least_loaded_candidate(steps in prop::collection::vec(step(), 1..120)) {
        run("least-outstanding", steps)?;
    }

    #[test]
    fn round_robin_always_takes_a_candidate(steps in prop::collection::vec(step(), 1..120)) {
        run("round-robin", steps)?;
    }
}

fn spread(name: &str, workers: u32, jobs: u32) -> BTreeMap<WorkerId, u32> {
    let (mut ledger, mut policy) = (Ledger::new(), policy(name).unwrap());
    for worker in 0..workers {
        ledger.join(WorkerId(worker), &[RoleId(0)]);
    }
    let mut given = BTreeMap::new();
    for _ in 0..jobs {
        let worker = policy.choose(&request(0), &ledger).unwrap();
        ledger.dispatch(worker, 1.0);
        *given.entry(worker).or_insert(0) += 1;
    }
    given
}

#[test]
fn a_burst_spreads_evenly_because_load_counts_at_dispatch() {
    for name in ["least-outstanding", "round-robin"] {
        let given = spread(name, 7, 70);
        assert!(
            given.len() == 7 && given.values().all(|count| *count == 10),
            "{name}: {given:?}"
        );
    }
}
