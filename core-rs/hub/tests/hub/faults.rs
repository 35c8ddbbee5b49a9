//! What happens when workers die, fall silent, drain or come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::{ANSWER, Cluster, config, doomed, hang, request, wait_for, words, work};
use omniflow_hub::HubConfig;
use omniflow_link::{Address, Endpoint, LinkConfig, Message};
use omniflow_wire::v1::{ErrorCode, node_progress, worker_status};
use omniflow_wire::{LinkMessage, PROTOCOL, v1};
use prost::Message as _;

#[test]
fn a_node_whose_worker_dies_runs_again_elsewhere_unnoticed_by_the_client() {
    let (cluster, doomed, news) = doomed(config());
    let mut client = cluster.submitted();
    wait_for(&news, "started");
    doomed.kill();
    cluster.worker("heir", &["speak"], |activation| work(&activation));
    let (frames, end) = client.rest();
    assert_eq!(
        (words(&frames), end.error),
        (ANSWER.map(str::to_owned).to_vec(), None)
    );
    let attempts: Vec<_> = end
        .report
        .unwrap()
        .activations
        .into_iter()
        .filter(|a| a.node == "speak.run")
        .collect();
    let seen: Vec<_> = attempts
        .iter()
        .map(|a| (a.worker.as_str(), a.attempt, a.state()))
        .collect();
    assert_eq!(
        seen,
        [
            ("doomed", 1, node_progress::State::Lost),
            ("heir", 2, node_progress::State::Done)
        ]
    );
    cluster.assert_clean();
}

#[test]
fn producers_that_died_with_their_frames_run_again_too() {
    let cluster = Cluster::new(config());
    let (told, news) = channel();
    let runs = Arc::new(AtomicU32::new(0));
    let (counted, both) = (runs.clone(), ["read", "speak"]);
    let doomed = cluster.worker("doomed", &both, move |activation| {
        counted.fetch_add(1, Ordering::Relaxed);
        if activation.activation().role() == "read" {
            return work(&activation);
        }
        told.send(()).unwrap();
        hang(&activation);
    });
    cluster.until_ready(1);
    let mut client = cluster.submitted();
    news.recv_timeout(Duration::from_secs(10)).unwrap();
    doomed.kill();
    let counted = runs.clone();
    cluster.worker("heir", &both, move |activation| {
        counted.fetch_add(1, Ordering::Relaxed);
        work(&activation);
    });
    let (frames, end) = client.rest();
    assert_eq!(
        (words(&frames), end.error),
        (ANSWER.map(str::to_owned).to_vec(), None)
    );
    assert_eq!(runs.load(Ordering::Relaxed), 4);
    cluster.assert_clean();
}

#[test]
fn a_job_fails_once_every_attempt_of_a_node_is_lost() {
    let cluster = Cluster::new(HubConfig {
        max_attempts: 2,
        ..config()
    });
    cluster.worker("reader", &["read"], |activation| work(&activation));
    cluster.until_ready(1);
    let mut client = cluster.client();
    let (told, news) = channel();
    for attempt in 1..=2 {
        let told = told.clone();
        let name = format!("doomed-{attempt}");
        let doomed = cluster.worker(&name, &["speak"], move |activation| {
            told.send(()).unwrap();
            hang(&activation);
        });
        if attempt == 1 {
            cluster.until_ready(2);
            client.submit(request());
            client.accepted();
        }
        news.recv_timeout(Duration::from_secs(10)).unwrap();
        doomed.kill();
    }
    let error = client.failure();
    assert_eq!(
        (error.code(), &*error.node, &*error.worker),
        (ErrorCode::WorkerLost, "speak.run", "doomed-2")
    );
    assert!(
        !error.cause.is_empty() && !error.cure.is_empty(),
        "{error:?}"
    );
    cluster.assert_clean();
}

/// A worker that greets and then says nothing.
fn mute(cluster: &Cluster, name: &str) -> v1::WorkerInfo {
    let address = cluster.address(name);
    let info = cluster.info(name, &["read"], vec![address.clone()]);
    let incarnation = info.incarnation.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let endpoint = Endpoint::new(LinkConfig::default());
            let address: Address = address.parse().unwrap();
            let listener = endpoint.bind(&address).await.unwrap();
            let (sender, mut reader) = listener.accept().await.unwrap();
            reader.read(&mut Vec::new()).await.unwrap();
            let welcome = v1::Welcome {
                protocol: PROTOCOL,
                incarnation,
                ..Default::default()
            };
            let (kind, head, body) = LinkMessage::from(welcome).encode();
            sender
                .send(Message {
                    kind,
                    stream: 0,
                    head,
                    body,
                })
                .unwrap();
            std::future::pending::<()>().await;
        });
    });
    info
}

#[test]
fn a_worker_that_is_silent_past_the_limit_is_lost() {
    let config = HubConfig {
        heartbeat: Duration::from_millis(50),
        heartbeat_limit: Duration::from_secs(1),
        ..config()
    };
    let cluster = Cluster::new(config);
    cluster.worker("speaker", &["speak"], |activation| work(&activation));
    cluster.until_ready(1);
    let info = mute(&cluster, "mute");
    cluster.hub.worker_seen(&info.encode_to_vec()).unwrap();
    cluster.until_ready(2);
    let mut client = cluster.submitted();
    cluster.until("the mute worker is lost", |status| {
        status
            .workers
            .iter()
            .any(|worker| worker.state() == worker_status::State::Lost)
    });
    cluster.worker("reader", &["read"], |activation| work(&activation));
    let (frames, end) = client.rest();
    assert_eq!((words(&frames).len(), end.error), (3, None));
    cluster.assert_clean();
}

#[test]
fn what_a_slow_worker_has_not_taken_holds_back_new_jobs_and_is_not_its_death() {
    let cluster = Cluster::new(HubConfig {
        max_held_input_bytes: 4 << 20,
        ..config()
    });
    cluster.worker("speaker", &["speak"], |activation| work(&activation));
    let info = mute(&cluster, "mute");
    cluster.hub.worker_seen(&info.encode_to_vec()).unwrap();
    cluster.until_ready(2);
    let mut large = request();
    large.inputs[0].frames = vec![crate::common::text(&"x".repeat(1 << 20))];
    let mut client = cluster.client();
    let refusal = (0..50).find_map(|_| {
        client.submit(large.clone());
        match client.next() {
            v1::job_event::Event::Refused(error) => Some(error),
            _ => {
                let job = cluster.hub.list_jobs(&[]).unwrap();
                let job = v1::ListResponse::decode(&job[..])
                    .unwrap()
                    .jobs
                    .remove(0)
                    .job;
                client.cancel(&job);
                client.failure();
                None
            }
        }
    });
    let error = refusal.expect("its inputs pile up");
    assert_eq!(error.code(), ErrorCode::ResourceExhausted);
    assert!(error.message.contains("wait for workers"), "{error:?}");
    cluster.until_ready(2);
}

#[test]
fn absence_from_the_registry_with_a_living_link_changes_nothing() {
    let cluster = Cluster::new(config());
    let worker = cluster.worker("both", &["read", "speak"], |activation| work(&activation));
    cluster.until_ready(1);
    cluster.hub.worker_gone("both", &worker.info.incarnation);
    let mut client = cluster.submitted();
    assert_eq!(client.rest().1.error, None);
    worker.kill();
    cluster.until("the seat is gone", |status| status.workers.is_empty());
}

#[test]
fn a_new_incarnation_replaces_the_old_one() {
    let cluster = Cluster::new(config());
    let (told, news) = channel();
    cluster.worker("both", &["read", "speak"], move |activation| {
        told.send(()).unwrap();
        hang(&activation);
    });
    cluster.until_ready(1);
    let mut client = cluster.submitted();
    news.recv_timeout(Duration::from_secs(10)).unwrap();
    cluster.worker("both", &["read", "speak"], |activation| work(&activation));
    let (frames, end) = client.rest();
    assert_eq!((words(&frames).len(), end.error), (3, None));
    assert_eq!(cluster.status().workers.len(), 1);
}

#[test]
fn a_draining_worker_finishes_what_it_has_and_gets_nothing_new() {
    let cluster = Cluster::new(config());
    let (told, news) = channel();
    let (go, gone) = channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    cluster.worker("reader", &["read"], |activation| work(&activation));
    let old = cluster.worker("old", &["speak"], move |activation| {
        told.send(()).unwrap();
        gone.lock().unwrap().recv().unwrap();
        work(&activation);
    });
    cluster.until_ready(2);
    let mut client = cluster.submitted();
    news.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(cluster.hub.drain_worker("old", 0).unwrap(), 1);
    cluster.worker("new", &["speak"], |activation| work(&activation));
    cluster.until_ready(2);
    let mut other = cluster.submitted();
    let report = other.rest().1.report.unwrap();
    assert!(
        report
            .activations
            .iter()
            .all(|activation| activation.worker != "old")
    );
    assert!(!old.node.wait_drained(Duration::ZERO));
    go.send(()).unwrap();
    assert_eq!(client.rest().1.error, None);
    assert!(old.node.wait_drained(Duration::from_secs(10)));
    old.kill();
    cluster.until("it has left", |status| status.workers.len() == 2);
    assert!(
        cluster
            .hub
            .drain_worker("old", 0)
            .unwrap_err()
            .to_string()
            .contains("new, reader")
    );
    cluster.assert_clean();
}

#[test]
fn what_a_draining_worker_has_not_done_in_its_time_goes_on_elsewhere_and_it_leaves() {
    let (cluster, old, news) = doomed(config());
    let mut client = cluster.submitted();
    wait_for(&news, "started");
    cluster.worker("new", &["speak"], |activation| work(&activation));
    cluster.until_ready(3);
    cluster.hub.drain_worker(&old.info.name, 100).unwrap();
    let (frames, end) = client.rest();
    assert_eq!(
        (words(&frames), end.error),
        (ANSWER.map(str::to_owned).to_vec(), None)
    );
    assert!(old.node.wait_drained(Duration::from_secs(10)));
    cluster.assert_clean();
}

#[test]
fn a_worker_that_was_to_drain_while_it_could_not_be_reached_is_told_once_it_can() {
    let cluster = Cluster::new(config());
    let address = cluster.address("late");
    let info = cluster.info("late", &["read"], vec![address.clone()]);
    cluster.hub.worker_seen(&info.encode_to_vec()).unwrap();
    cluster.hub.drain_worker("late", 0).unwrap();
    let node_config = omniflow_node::NodeConfig {
        retention_bytes: 1 << 20,
        ..omniflow_node::NodeConfig::new("test")
    };
    let node = omniflow_node::Node::new(&info, &[address.parse().unwrap()], &node_config).unwrap();
    assert!(node.wait_drained(Duration::from_secs(10)));
}

#[test]
fn words_that_the_client_has_are_not_contradicted_by_a_method_that_draws_anew() {
    let cluster = Cluster::new(config());
    let mut flow = crate::common::flow();
    flow.name = "drawn".to_owned();
    for node in &mut flow.nodes {
        node.options = Some(v1::NodeOptions {
            deterministic: false,
            ..Default::default()
        });
    }
    cluster.hub.put_flow(&flow.encode_to_vec()).unwrap();
    cluster.worker("reader", &["read"], |activation| work(&activation));
    let doomed = cluster.worker("doomed", &["speak"], move |activation| {
        activation
            .emit("output", vec![crate::common::text("HOW")])
            .unwrap();
        hang(&activation);
    });
    cluster.until_ready(2);
    let mut client = cluster.client();
    client.submit(v1::SubmitRequest {
        flow: "drawn".to_owned(),
        ..request()
    });
    client.accepted();
    assert!(matches!(
        client.next(),
        v1::job_event::Event::Frame(frame) if crate::common::read_text(&frame.payload) == "HOW"
    ));
    cluster.worker("heir", &["speak"], |activation| work(&activation));
    cluster.until_ready(3);
    doomed.kill();
    let error = client.failure();
    assert_eq!(
        (error.code(), &*error.node),
        (ErrorCode::NotReplayable, "speak.run")
    );
    cluster.assert_clean();
}
