//! Flows with control nodes over real links: fan-out, routes, loops, and what the scheduler's own resolver does of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::flows::{act, fan_out, fan_out_of_input, rounds, routed};
use crate::common::{Client, Cluster, config, hang, request, text, words};
use omniflow_wire::v1;
use omniflow_wire::v1::ErrorCode;
use prost::Message;

fn submit(client: &Client, flow: &str, frames: &[&str]) {
    let mut request = request();
    request.flow = flow.to_owned();
    request.inputs[0].frames = frames.iter().map(|frame| text(frame)).collect();
    client.submit(request);
}

fn cluster(flow: &v1::Flow) -> Cluster {
    let cluster = Cluster::without_flows(config());
    cluster.hub.put_flow(&flow.encode_to_vec()).unwrap();
    cluster
}

/// Of a node: on which workers it was bound last, for how many keys.
fn spread(end: &v1::JobEnd, node: &str) -> (BTreeSet<String>, usize) {
    let report = end.report.clone().unwrap();
    let mut latest = BTreeMap::new();
    for one in report
        .activations
        .into_iter()
        .filter(|one| one.node == node)
    {
        let known = latest.entry(one.key).or_insert((0, String::new()));
        *known = (one.attempt, one.worker).max(known.clone());
    }
    let keys = latest.len();
    let workers = latest.into_values().map(|(_, worker)| worker);
    (workers.collect(), keys)
}

#[test]
fn a_fan_out_spreads_over_workers_and_is_collected_in_order() {
    let cluster = cluster(&fan_out());
    cluster.worker("splitter", &["split", "join"], |activation| {
        act(&activation)
    });
    for name in ["one", "two", "three"] {
        cluster.worker(name, &["shout"], |activation| act(&activation));
    }
    cluster.until_ready(4);
    let mut client = cluster.client();
    let asked: Vec<String> = (0..40).map(|word| format!("w{word}")).collect();
    let asked = asked.join(" ");
    submit(&client, "fan_out", &[&asked]);
    client.accepted();
    let (frames, end) = client.rest();
    assert_eq!(end.error, None);
    assert_eq!(words(&frames), [asked.to_uppercase()]);
    let (workers, keys) = spread(&end, "shout.run");
    assert_eq!((workers.len(), keys), (3, 40), "{workers:?}");
    cluster.assert_clean();
}

#[test]
fn a_fan_out_of_a_jobs_input_is_made_and_put_in_order_by_the_scheduler() {
    let cluster = cluster(&fan_out_of_input());
    for name in ["one", "two"] {
        cluster.worker(name, &["shout"], |activation| act(&activation));
    }
    cluster.until_ready(2);
    let mut client = cluster.client();
    let asked: Vec<String> = (0..30).map(|word| format!("w{word}")).collect();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    for asked in [&asked[..], &[]] {
        submit(&client, "fan_out_of_input", asked);
        client.accepted();
        let (frames, end) = client.rest();
        assert_eq!(end.error, None);
        let wanted: Vec<String> = asked.iter().map(|word| word.to_uppercase()).collect();
        assert_eq!(words(&frames), wanted);
    }
    cluster.assert_clean();
}

#[test]
fn only_the_branch_that_is_taken_is_bound_and_its_value_is_the_result() {
    for planned in [false, true] {
        let flow = routed(planned);
        let cluster = cluster(&flow);
        cluster.worker("all", &["plan", "loud", "quiet"], |activation| {
            act(&activation)
        });
        cluster.until_ready(1);
        let mut client = cluster.client();
        for (choice, wanted) in [("loud", "LOUD"), ("quiet", "quiet")] {
            submit(&client, &flow.name, &[choice]);
            client.accepted();
            let (frames, end) = client.rest();
            assert_eq!(end.error, None);
            assert_eq!(words(&frames), [wanted]);
            let report = end.report.clone().unwrap();
            let other = ["loud.run", "quiet.run"]
                .into_iter()
                .find(|name| !name.starts_with(choice));
            let bound = report.activations.iter().map(|a| a.node.as_str());
            assert!(bound.clone().all(|node| Some(node) != other), "{report:?}");
        }
        cluster.assert_clean();
    }
}

#[test]
fn rule_06_an_unknown_branch_fails_the_job_naming_the_route_and_its_line() {
    for planned in [false, true] {
        let flow = routed(planned);
        let cluster = cluster(&flow);
        cluster.worker("all", &["plan", "loud", "quiet"], |activation| {
            act(&activation)
        });
        cluster.until_ready(1);
        let mut client = cluster.client();
        submit(&client, &flow.name, &["shrill"]);
        client.accepted();
        let error = client.failure();
        assert_eq!(
            (error.code(), &*error.node),
            (ErrorCode::BadRoute, "route"),
            "{error:?}"
        );
        assert!(error.message.contains("flow.py:3"), "{error:?}");
        assert!(error.message.contains("loud, quiet"), "{error:?}");
        cluster.assert_clean();
    }
}

#[test]
fn a_loop_runs_until_it_is_done_and_its_nodes_are_bound_once() {
    let cluster = cluster(&rounds(10));
    for name in ["one", "two"] {
        cluster.worker(name, &["step"], |activation| act(&activation));
    }
    cluster.until_ready(2);
    let mut client = cluster.client();
    submit(&client, "rounds", &["5"]);
    client.accepted();
    let (frames, end) = client.rest();
    assert_eq!(end.error, None);
    assert_eq!(words(&frames), ["4", "3", "2", "1", "0"]);
    // The last rounds may end the job before they are reported.
    let (workers, keys) = spread(&end, "step.run");
    assert!(workers.len() == 1 && keys <= 5, "{workers:?}, {keys}");
    cluster.assert_clean();
}

#[test]
fn rule_05_a_loop_at_its_bound_fails_the_job_naming_the_loop_and_its_line() {
    let cluster = cluster(&rounds(3));
    cluster.worker("one", &["step"], |activation| act(&activation));
    cluster.until_ready(1);
    let mut client = cluster.client();
    submit(&client, "rounds", &["5"]);
    client.accepted();
    let error = client.failure();
    assert_eq!((error.code(), &*error.node), (ErrorCode::LoopLimit, "loop"));
    assert!(error.message.contains("flow.py:3"), "{error:?}");
    cluster.assert_clean();
}

#[test]
fn a_worker_lost_in_mid_fan_out_loses_only_what_was_not_done() {
    let cluster = cluster(&fan_out());
    cluster.worker("splitter", &["split", "join"], |activation| {
        act(&activation)
    });
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    cluster.worker("steady", &["shout"], move |activation| {
        counted.fetch_add(1, Ordering::Relaxed);
        act(&activation);
    });
    let (told, news) = channel();
    let told = Mutex::new(told);
    let doomed = cluster.worker("doomed", &["shout"], move |activation| {
        let _ = told.lock().unwrap().send(());
        hang(&activation);
    });
    cluster.until_ready(3);
    let mut client = cluster.client();
    let asked: Vec<String> = (0..20).map(|word| format!("w{word}")).collect();
    let asked = asked.join(" ");
    submit(&client, "fan_out", &[&asked]);
    client.accepted();
    news.recv_timeout(Duration::from_secs(20)).unwrap();
    doomed.kill();
    let (frames, end) = client.rest();
    assert_eq!(end.error, None);
    assert_eq!(words(&frames), [asked.to_uppercase()]);
    let (workers, keys) = spread(&end, "shout.run");
    assert_eq!((workers.len(), keys), (1, 20));
    cluster.assert_clean();
}

#[test]
fn a_job_that_lost_what_left_a_fan_out_starts_over_from_its_inputs() {
    let cluster = cluster(&fan_out());
    cluster.worker("splitter", &["split"], |activation| act(&activation));
    let shouter = cluster.worker("shouter", &["shout"], |activation| act(&activation));
    let (told, news) = channel();
    let told = Mutex::new(told);
    let joiner = cluster.worker("joiner", &["join"], move |activation| {
        let _ = told.lock().unwrap().send(());
        hang(&activation);
    });
    cluster.until_ready(3);
    let mut client = cluster.client();
    submit(&client, "fan_out", &["a b c"]);
    client.accepted();
    // The fan-out has ended, for what it brought has been joined: nobody keeps its insides.
    news.recv_timeout(Duration::from_secs(20)).unwrap();
    shouter.kill();
    cluster.until("the shouter is lost", |status| {
        let lost = |worker: &v1::WorkerStatus| worker.state() == v1::worker_status::State::Lost;
        status.workers.iter().any(lost)
    });
    joiner.kill();
    cluster.worker("heir", &["shout", "join"], |activation| act(&activation));
    let (frames, end) = client.rest();
    assert_eq!(end.error, None);
    assert_eq!(words(&frames), ["A B C"]);
    let report = end.report.unwrap();
    let splits = report.activations.iter().filter(|a| a.node == "split.run");
    assert_eq!(splits.count(), 2, "{:?}", report.activations);
    cluster.assert_clean();
}

#[test]
fn many_jobs_with_fan_outs_and_loops_leave_nothing_behind() {
    let cluster = cluster(&fan_out());
    cluster.hub.put_flow(&rounds(10).encode_to_vec()).unwrap();
    for name in ["one", "two"] {
        let roles = ["split", "shout", "join", "step"];
        cluster.worker(name, &roles, |activation| act(&activation));
    }
    cluster.until_ready(2);
    let mut clients: Vec<Client> = (0..20).map(|_| cluster.client()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        match index % 2 {
            0 => submit(client, "fan_out", &["a b c d e f"]),
            _ => submit(client, "rounds", &["4"]),
        }
        client.accepted();
    }
    for (index, client) in clients.iter_mut().enumerate() {
        let (frames, end) = client.rest();
        assert_eq!(end.error, None);
        let wanted: &[&str] = match index % 2 {
            0 => &["A B C D E F"],
            _ => &["3", "2", "1", "0"],
        };
        assert_eq!(words(&frames), wanted);
    }
    cluster.assert_clean();
}
