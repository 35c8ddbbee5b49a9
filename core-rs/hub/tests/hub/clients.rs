//! What clients are promised beyond one call: overload, keys, vanishing, resumption, shutdown.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::{
    ANSWER, Cluster, breathe, config, hanging, request, served, wait_for, words, work,
};
use omniflow_hub::HubConfig;
use omniflow_wire::v1;
use omniflow_wire::v1::ErrorCode;
use omniflow_wire::v1::client_message::Message as Request;
use omniflow_wire::v1::job_event::Event;
use prost::Message;

#[test]
fn overload_is_refused_at_once_with_a_hint() {
    let (cluster, news) = hanging(HubConfig {
        queue_limit: 1,
        ..config()
    });
    let mut client = cluster.client();
    client.submit(request());
    let (job, _) = client.accepted();
    wait_for(&news, "started");
    client.submit(request());
    let error = client.refused();
    assert_eq!(error.code(), ErrorCode::ResourceExhausted);
    assert!(error.retry_after_ms > 0);
    client.cancel(&job);
    client.failure();
    client.submit(request());
    client.accepted();
}

#[test]
fn a_key_seen_before_returns_the_same_job() {
    let cluster = served(config());
    let keyed = || v1::SubmitRequest {
        idempotency_key: "k".to_owned(),
        tenant: "t".to_owned(),
        ..request()
    };
    let mut client = cluster.client();
    client.submit(keyed());
    let (first, _) = client.accepted();
    let (frames, _) = client.rest();
    let mut other = cluster.client();
    other.submit(keyed());
    let (second, accepted) = other.accepted();
    assert_eq!((&second, accepted.existed), (&first, true));
    assert_eq!(other.rest().0, frames);
    other.submit(v1::SubmitRequest {
        tenant: "another".to_owned(),
        ..keyed()
    });
    assert_ne!(other.accepted().0, first);
}

#[test]
fn a_vanished_client_takes_its_jobs_along_unless_they_are_detached() {
    let (cluster, news) = hanging(HubConfig {
        client_grace_ms: 100,
        ..config()
    });
    let mut client = cluster.client();
    client.submit(v1::SubmitRequest {
        idempotency_key: "k".to_owned(),
        ..request()
    });
    let (job, _) = client.accepted();
    wait_for(&news, "started");
    client.close();
    wait_for(&news, "cancelled");
    assert_eq!(cluster.job(&job).state(), v1::job_status::State::Cancelled);

    let mut client = cluster.client();
    client.submit(v1::SubmitRequest {
        detach: true,
        idempotency_key: "k".to_owned(),
        ..request()
    });
    let (detached, accepted) = client.accepted();
    assert!(
        !accepted.existed && detached != job,
        "a client that comes back gets a new job"
    );
    wait_for(&news, "started");
    client.close();
    assert_eq!(
        cluster.job(&detached).state(),
        v1::job_status::State::Running
    );
    cluster.client().cancel(&detached);
    wait_for(&news, "cancelled");
    cluster.assert_clean();
}

#[test]
fn a_client_that_comes_back_in_time_finds_its_job_running() {
    let (cluster, news) = hanging(HubConfig {
        client_grace_ms: 500,
        ..config()
    });
    let mut client = cluster.client();
    client.submit(request());
    let (job, _) = client.accepted();
    wait_for(&news, "started");
    client.close();
    let mut back = cluster.client();
    let watch = v1::WatchRequest {
        job: job.clone(),
        ..Default::default()
    };
    back.send(1, Request::Watch(watch));
    back.accepted();
    assert!(
        news.recv_timeout(Duration::from_millis(700)).is_err(),
        "the grace is over, and it is theirs"
    );
    back.send(2, Request::Leave(v1::Leave {}));
    wait_for(&news, "cancelled");
    assert_eq!(back.failure().code(), ErrorCode::Cancelled);
    cluster.assert_clean();
}

#[test]
fn a_key_seen_before_with_another_request_is_refused() {
    let cluster = served(config());
    let keyed = || v1::SubmitRequest {
        idempotency_key: "k".to_owned(),
        ..request()
    };
    let mut client = cluster.client();
    client.submit(keyed());
    let (job, _) = client.accepted();
    client.rest();
    let mut other = keyed();
    other.inputs[0].frames = vec![crate::common::text("something else")];
    client.submit(other);
    let error = client.refused();
    assert_eq!(
        (error.code(), &*error.field),
        (ErrorCode::InvalidArgument, "idempotency_key")
    );
    assert!(error.message.contains(&job));
}

#[test]
fn answers_that_nobody_takes_are_counted() {
    let cluster = served(config());
    let client = cluster.client();
    let ack = v1::ClientMessage {
        tag: 1,
        message: Some(Request::Ack(v1::AckRequest::default())),
        window: None,
    };
    let batch = v1::ClientBatch {
        messages: vec![ack; 10],
    };
    let batch = batch.encode_to_vec();
    assert_eq!(cluster.hub.send(client.number, &batch).unwrap(), 10);
    assert_eq!(cluster.hub.send(client.number, &batch).unwrap(), 20);
    while !cluster.hub.take(client.number, 1 << 20).is_empty() {}
    assert_eq!(cluster.hub.send(client.number, &batch).unwrap(), 10);
}

#[test]
fn a_watch_resumes_at_the_frame_asked_for_and_acknowledged_frames_are_gone() {
    let cluster = served(config());
    let mut client = cluster.client();
    client.submit(request());
    let (job, _) = client.accepted();
    client.rest();
    let watch = |next: u64| {
        Request::Watch(v1::WatchRequest {
            job: job.clone(),
            next_seq: [("words".to_owned(), next)].into(),
            progress: false,
        })
    };
    client.send(3, watch(1));
    assert!(client.accepted().1.existed);
    let (frames, end) = client.rest();
    assert_eq!(
        (words(&frames), end.error),
        (
            ANSWER[1..].iter().map(|word| (*word).to_owned()).collect(),
            None
        )
    );
    client.send(
        4,
        Request::Ack(v1::AckRequest {
            job: job.clone(),
            port: 0,
            seq: 1,
        }),
    );
    client.send(5, watch(0));
    client.accepted();
    assert_eq!(words(&client.rest().0), ANSWER[2..]);
    client.send(
        6,
        Request::Watch(v1::WatchRequest {
            job: job.clone(),
            next_seq: [("sound".to_owned(), 0)].into(),
            progress: false,
        }),
    );
    assert_eq!(client.refused().field, "next_seq.sound");
}

#[test]
fn results_are_forgotten_after_their_time() {
    let cluster = served(HubConfig {
        result_ttl_ms: 100,
        ..config()
    });
    let mut client = cluster.client();
    client.submit(request());
    let (job, _) = client.accepted();
    client.rest();
    while cluster.hub.job_status(&job).is_some() {
        breathe();
    }
    client.send(
        3,
        Request::Watch(v1::WatchRequest {
            job,
            ..Default::default()
        }),
    );
    assert_eq!(client.refused().code(), ErrorCode::UnknownJob);
}

#[test]
fn closing_waits_for_running_jobs_and_fails_the_rest() {
    let cluster = Cluster::new(config());
    let (go, gone) = channel::<()>();
    let gone = Mutex::new(gone);
    cluster.worker("both", &["read", "speak"], move |activation| {
        if activation.activation().role() == "speak" {
            let _ = gone.lock().unwrap().recv();
        }
        work(&activation);
    });
    cluster.until_ready(1);
    let mut client = cluster.submitted();
    let hub = cluster.hub.clone();
    let closing = std::thread::spawn(move || hub.close(Duration::from_secs(10)));
    loop {
        client.submit(request());
        match client.next() {
            Event::Refused(error) => {
                assert_eq!(error.code(), ErrorCode::Unavailable);
                break;
            }
            _ => go.send(()).unwrap(),
        }
    }
    go.send(()).unwrap();
    drop(go);
    closing.join().unwrap();
    assert_eq!(cluster.status().jobs_failed, 0);
}
