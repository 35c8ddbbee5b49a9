//! What clients are promised: results, refusals, deadlines, cancels, resumption.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Cluster, breathe, config, hang, request, text, words, work};
use omniflow_hub::HubConfig;
use omniflow_wire::v1;
use omniflow_wire::v1::client_message::Message as Request;
use omniflow_wire::v1::job_event::Event;
use omniflow_wire::v1::{ErrorCode, node_progress};

const ANSWER: [&str; 3] = ["HOW", "ARE", "YOU"];

fn served(config: HubConfig) -> Cluster {
    let cluster = Cluster::new(config);
    cluster.worker("reader", &["read"], |activation| work(&activation));
    cluster.worker("speaker", &["speak"], |activation| work(&activation));
    cluster.until_ready(2);
    cluster
}

/// A cluster whose `speak` hangs until it is cancelled; each start and each cancel is told.
fn hanging(config: HubConfig) -> (Cluster, std::sync::mpsc::Receiver<&'static str>) {
    let cluster = Cluster::new(config);
    let (told, news) = channel();
    cluster.worker("reader", &["read"], |activation| work(&activation));
    cluster.worker("speaker", &["speak"], move |activation| {
        told.send("started").unwrap();
        hang(&activation);
        let _ = told.send("cancelled");
    });
    cluster.until_ready(2);
    (cluster, news)
}

fn wait_for(news: &std::sync::mpsc::Receiver<&'static str>, what: &str) {
    assert_eq!(news.recv_timeout(Duration::from_secs(10)).unwrap(), what);
}

#[test]
fn a_job_streams_its_result_and_reports_where_its_time_went() {
    let cluster = served(config());
    let mut client = cluster.client();
    client.submit(v1::SubmitRequest {
        progress: true,
        ..request()
    });
    let (job, accepted) = client.accepted();
    assert_eq!(
        (accepted.results, accepted.existed),
        (vec!["words".to_owned()], false)
    );
    let (mut frames, mut steps) = (Vec::new(), Vec::new());
    let end = loop {
        match client.next() {
            Event::Frame(frame) => frames.push(frame),
            Event::Progress(step) => steps.push((step.node.clone(), step.state())),
            Event::Ended(end) => break end,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(end.error, None);
    assert_eq!(words(&frames), ANSWER);
    let mark = frames.last().unwrap();
    assert_eq!((mark.mark(), mark.count, mark.seq), (v1::Mark::End, 3, 3));
    let report = end.report.unwrap();
    assert!(report.first_frame_us > 0 && report.jct_us >= report.first_frame_us);
    assert_eq!(report.activations.len(), 2);
    for activation in &report.activations {
        assert_eq!(
            activation.state(),
            node_progress::State::Done,
            "{activation:?}"
        );
        assert_eq!(activation.features["letters"], 11.0);
        assert!(activation.queued_us > 0 && activation.started_us >= activation.queued_us);
        assert!(activation.ended_us >= activation.started_us);
    }
    for step in [
        node_progress::State::Queued,
        node_progress::State::Started,
        node_progress::State::Done,
    ] {
        assert!(steps.contains(&("read.run".to_owned(), step)), "{steps:?}");
    }
    assert_eq!(cluster.job(&job).state(), v1::job_status::State::Succeeded);
    cluster.assert_clean();
}

#[test]
fn many_jobs_of_one_batching_client_all_end_well() {
    let cluster = served(config());
    let mut client = cluster.client();
    client.max_bytes = 300;
    for _ in 0..200 {
        client.submit(request());
    }
    let (mut ended, mut frames) = (0, 0);
    while ended < 200 {
        match client.next() {
            Event::Frame(_) => frames += 1,
            Event::Ended(end) => {
                assert_eq!(end.error, None);
                ended += 1;
            }
            _ => {}
        }
    }
    assert_eq!(frames, 200 * 4);
    cluster.assert_clean();
}

#[test]
fn bad_requests_are_refused_naming_the_field() {
    let cluster = served(HubConfig {
        max_input_bytes: 1_000,
        ..config()
    });
    let mut client = cluster.client();
    let input = |name: &str, frames| v1::SubmitRequest {
        inputs: vec![v1::Input {
            name: name.to_owned(),
            frames,
        }],
        ..request()
    };
    let parameter = |name: &str, kind| v1::SubmitRequest {
        parameters: [(name.to_owned(), v1::Value { kind: Some(kind) })].into(),
        ..request()
    };
    let image = v1::Value {
        kind: Some(v1::value::Kind::Image(v1::Image::default())),
    };
    let image: bytes::Bytes = prost::Message::encode_to_vec(&image).into();
    let real = || v1::value::Kind::Real(0.5);
    let cases = [
        (
            v1::SubmitRequest {
                flow: "sing".to_owned(),
                ..request()
            },
            ErrorCode::UnknownFlow,
            "flow",
        ),
        (
            v1::SubmitRequest {
                flow_version: b"old"[..].into(),
                ..request()
            },
            ErrorCode::UnknownFlow,
            "flow_version",
        ),
        (
            v1::SubmitRequest {
                inputs: vec![],
                ..request()
            },
            ErrorCode::InvalidArgument,
            "inputs.question",
        ),
        (
            input("answer", vec![text("x")]),
            ErrorCode::InvalidArgument,
            "inputs.answer",
        ),
        (
            input("question", vec![]),
            ErrorCode::InvalidArgument,
            "inputs.question",
        ),
        (
            input("question", vec![text("x"), text("y")]),
            ErrorCode::InvalidArgument,
            "inputs.question",
        ),
        (
            input("question", vec![image]),
            ErrorCode::InvalidArgument,
            "inputs.question",
        ),
        (
            input("question", vec![b"nonsense"[..].into()]),
            ErrorCode::InvalidArgument,
            "inputs.question",
        ),
        (
            input("question", vec![text(&"x".repeat(2_000))]),
            ErrorCode::TooLarge,
            "inputs.question",
        ),
        (
            parameter("sing.run.loudness", real()),
            ErrorCode::InvalidArgument,
            "parameters.sing.run.loudness",
        ),
        (
            parameter("speak.run.pitch", real()),
            ErrorCode::InvalidArgument,
            "parameters.speak.run.pitch",
        ),
        (
            parameter("speak.run.loudness", v1::value::Kind::Boolean(true)),
            ErrorCode::InvalidArgument,
            "parameters.speak.run.loudness",
        ),
        (
            v1::SubmitRequest {
                deadline_ms: 600_001,
                ..request()
            },
            ErrorCode::InvalidArgument,
            "deadline_ms",
        ),
        (
            v1::SubmitRequest {
                deadline_ms: (-5_i64) as u64,
                ..request()
            },
            ErrorCode::InvalidArgument,
            "deadline_ms",
        ),
        (
            v1::SubmitRequest {
                priority: 1 << 20,
                ..request()
            },
            ErrorCode::InvalidArgument,
            "priority",
        ),
    ];
    for (request, code, field) in cases {
        client.submit(request);
        let error = client.refused();
        assert_eq!((error.code(), &*error.field), (code, field), "{error:?}");
        assert!(
            !error.message.is_empty() && !error.cure.is_empty(),
            "{error:?}"
        );
    }
    client.submit(parameter("speak.run.loudness", real()));
    client.accepted();
    assert_eq!(client.rest().1.error, None);
    cluster.assert_clean();
}

#[test]
fn a_role_that_nobody_registered_is_refused_and_one_without_a_living_worker_waits() {
    let cluster = Cluster::new(config());
    let reader = cluster.worker("reader", &["read"], |activation| work(&activation));
    cluster.until_ready(1);
    let mut client = cluster.client();
    client.submit(request());
    let error = client.refused();
    assert_eq!(
        (error.code(), &*error.node),
        (ErrorCode::UnknownRole, "speak.run")
    );
    assert!(error.message.contains("registered are: read"), "{error:?}");

    cluster.worker("speaker", &["speak"], |activation| work(&activation));
    cluster.until_ready(2);
    reader.kill();
    cluster.hub.worker_gone("reader", &reader.info.incarnation);
    cluster.until("the reader is gone", |status| status.workers.len() == 1);
    client.submit(v1::SubmitRequest {
        deadline_ms: 50,
        ..request()
    });
    client.accepted();
    let error = client.failure();
    assert_eq!(
        (error.code(), &*error.node),
        (ErrorCode::NoWorker, "read.run"),
        "{error:?}"
    );

    client.submit(request());
    let (job, _) = client.accepted();
    assert_eq!(cluster.job(&job).state(), v1::job_status::State::Waiting);
    cluster.worker("reader", &["read"], |activation| work(&activation));
    let (frames, end) = client.rest();
    assert_eq!(
        (words(&frames), end.error),
        (ANSWER.map(str::to_owned).to_vec(), None)
    );
    cluster.assert_clean();
}

#[test]
fn a_deadline_names_the_node_and_worker_where_the_job_hung() {
    let (cluster, news) = hanging(config());
    let mut client = cluster.client();
    client.submit(v1::SubmitRequest {
        deadline_ms: 150,
        ..request()
    });
    client.accepted();
    wait_for(&news, "started");
    let error = client.failure();
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded);
    assert_eq!(
        (&*error.node, &*error.worker),
        ("speak.run", "speaker"),
        "{error:?}"
    );
    assert!(error.message.contains("150 ms"), "{error:?}");
    wait_for(&news, "cancelled");
    cluster.assert_clean();
}

#[test]
fn a_cancel_reaches_the_running_role_and_the_client() {
    let (cluster, news) = hanging(config());
    let mut client = cluster.client();
    client.submit(request());
    let (job, _) = client.accepted();
    wait_for(&news, "started");
    client.cancel(&job);
    let error = client.failure();
    assert_eq!(error.code(), ErrorCode::Cancelled);
    assert!(error.message.contains("enough"));
    wait_for(&news, "cancelled");
    assert_eq!(cluster.job(&job).state(), v1::job_status::State::Cancelled);
    client.cancel("0000000000000001");
    assert_eq!(client.refused().code(), ErrorCode::UnknownJob);
    cluster.assert_clean();
}

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
    let (cluster, news) = hanging(config());
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
fn a_role_that_fails_ends_the_job_with_its_own_words() {
    let cluster = Cluster::new(config());
    let fails = Arc::new(AtomicBool::new(true));
    let failing = fails.clone();
    cluster.worker("both", &["read", "speak"], move |activation| {
        if activation.activation().role() == "speak" && failing.swap(false, Ordering::Relaxed) {
            let error = v1::Error {
                code: ErrorCode::RoleFailed.into(),
                message: "the voice broke".to_owned(),
                cause: "ValueError: no breath".to_owned(),
                ..Default::default()
            };
            activation
                .fail(&prost::Message::encode_to_vec(&error))
                .unwrap();
        } else {
            work(&activation);
        }
    });
    cluster.until_ready(1);
    let mut client = cluster.client();
    client.submit(request());
    client.accepted();
    let error = client.failure();
    assert_eq!(
        (error.code(), &*error.node, &*error.worker),
        (ErrorCode::RoleFailed, "speak.run", "both")
    );
    assert_eq!(
        (&*error.message, &*error.cause),
        ("the voice broke", "ValueError: no breath")
    );
    assert!(!error.cure.is_empty());
    client.submit(request());
    client.accepted();
    assert_eq!(client.rest().1.error, None, "the next job runs");
    cluster.assert_clean();
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
    let mut client = cluster.client();
    client.submit(request());
    client.accepted();
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
