//! What one job is promised: its result, or a refusal or failure that says where and why.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{
    ANSWER, Cluster, config, hanging, request, served, text, wait_for, words, work,
};
use omniflow_hub::HubConfig;
use omniflow_wire::v1;
use omniflow_wire::v1::job_event::Event;
use omniflow_wire::v1::{ErrorCode, node_progress};

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
        let (given, read) = (&activation.outputs[0], &activation.inputs[0]);
        assert_eq!((given.port.as_str(), read.frames), ("output", 1));
        let within = activation.queued_us..=activation.ended_us;
        assert!(within.contains(&given.first_us) && within.contains(&read.first_us));
        assert!(within.contains(&given.last_us) && given.last_us >= given.first_us);
    }
    assert!(report.arrived_unix_us > 0);
    let frames = |node: usize| report.activations[node].outputs[0].frames;
    assert_eq!((frames(0), frames(1)), (1, 3));
    assert_eq!(report.activations[1].outputs[0].sampled_us.len(), 3);
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
    let words = v1::value::Kind::Text("hot".to_owned());
    client.submit(parameter("speak.run.loudness", words));
    let error = client.refused();
    assert!(
        error
            .message
            .ends_with("takes a number such as 0.2, and text was given"),
        "{error:?}"
    );
    assert_eq!(error.cure, "give a number such as 0.2");

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
        deadline_ms: 2_000,
        ..request()
    });
    client.accepted();
    wait_for(&news, "started");
    let error = client.failure();
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error:?}");
    assert_eq!(
        (&*error.node, &*error.worker),
        ("speak.run", "doomed"),
        "{error:?}"
    );
    assert!(error.message.contains("2000 ms"), "{error:?}");
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
    let mut client = cluster.submitted();
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
