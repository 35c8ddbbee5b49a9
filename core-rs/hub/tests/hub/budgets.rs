//! How many bytes the scheduler holds for its clients at most, and what it says then.

use crate::common::{ANSWER, config, hanging, request, served, text, wait_for, words};
use omniflow_hub::HubConfig;
use omniflow_wire::v1;
use omniflow_wire::v1::ErrorCode;
use omniflow_wire::v1::client_message::Message as Request;

fn input_bytes(request: &v1::SubmitRequest) -> usize {
    let frames = request.inputs.iter().flat_map(|input| &input.frames);
    frames.map(|frame| frame.len()).sum()
}

/// Its inputs outweigh what else is said to workers.
fn large() -> v1::SubmitRequest {
    let mut request = request();
    request.inputs[0].frames = vec![text(&"x".repeat(100_000))];
    request
}

#[test]
fn inputs_over_the_budget_are_refused_until_a_job_ends() {
    let (cluster, news) = hanging(HubConfig {
        max_held_input_bytes: input_bytes(&large()) + 1,
        ..config()
    });
    let mut client = cluster.client();
    client.submit(large());
    let (job, _) = client.accepted();
    wait_for(&news, "started");
    client.submit(large());
    let error = client.refused();
    assert_eq!(error.code(), ErrorCode::ResourceExhausted);
    assert!(error.retry_after_ms > 0 && error.cure.contains("max_held_input_bytes"));
    client.cancel(&job);
    client.failure();
    client.submit(large());
    client.accepted();
}

#[test]
fn results_that_nobody_reads_are_kept_and_new_jobs_are_refused() {
    let cluster = served(HubConfig {
        max_kept_result_bytes: 1,
        ..config()
    });
    let (mut idle, mut client) = (cluster.client(), cluster.client());
    idle.submit(request());
    cluster.until("the job has ended", |status| status.jobs_succeeded == 1);
    client.submit(request());
    let error = client.refused();
    assert_eq!(error.code(), ErrorCode::ResourceExhausted);
    assert!(error.cure.contains("max_kept_result_bytes"));
    idle.accepted();
    assert_eq!(words(&idle.rest().0), ANSWER);
    client.submit(request());
    let (job, _) = client.accepted();
    client.rest();
    assert_eq!(cluster.status().jobs_succeeded, 2);
    assert!(cluster.hub.job_status(&job).is_some());
}

#[test]
fn acknowledged_results_make_room() {
    let cluster = served(HubConfig {
        max_kept_result_bytes: 1,
        ..config()
    });
    let mut client = cluster.client();
    client.max_bytes = 1;
    client.submit(request());
    let (job, _) = client.accepted();
    cluster.until("the job has ended", |status| status.jobs_succeeded == 1);
    for port in 0..2 {
        let ack = v1::AckRequest {
            job: job.clone(),
            port,
            seq: 100,
        };
        client.send(2, Request::Ack(ack));
    }
    cluster.submitted();
}
