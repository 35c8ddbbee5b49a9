//! Rule 10 up to the client: one that reads slowly holds up whoever makes what it reads, and nobody else; one that is gone
//! holds up nobody.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::common::{
    ANSWER, Client, Cluster, PATIENCE, Worker, config, numbers, request, text, wait_for, words,
    work,
};
use omniflow_node::ActivationHandle;
use omniflow_wire::v1;
use omniflow_wire::v1::client_message::Message as Request;
use omniflow_wire::v1::job_event::Event;

/// What the scheduler takes of a stream beyond what its client was sent.
const WINDOW: usize = 1_024;
/// Three of them.
const BEHIND: usize = 3_072;
/// More than is ever made until a producer hears that it has to wait.
const MOST: usize = 8_000;

fn count(frames: &[String]) -> Vec<bytes::Bytes> {
    frames.iter().map(|number| text(number)).collect()
}

/// `speak` for ever, until it is refused room, and says how much it has said; then it ends.
fn speak_until_held_up(activation: &ActivationHandle, said: &Sender<usize>) {
    let emit = |from: usize, to: usize| activation.emit("output", count(&numbers(from..to)));
    assert_eq!(emit(0, BEHIND).unwrap(), BEHIND, "nobody is behind yet");
    let mut made = BEHIND;
    while emit(made, made + 1).unwrap() == 1 {
        made += 1;
        assert!(made < MOST, "it was never held up");
        thread::park_timeout(Duration::from_millis(2));
    }
    said.send(made).unwrap();
    assert!(
        activation.wait_for_room(PATIENCE).unwrap(),
        "its client reads on"
    );
    activation.finish([].into()).unwrap();
}

struct Stage {
    cluster: Cluster,
    speaker: Worker,
    said: Receiver<usize>,
}

/// Somebody reads, and somebody speaks until he is held up.
fn stage() -> Stage {
    let cluster = Cluster::new(config());
    cluster.worker("reader", &["read"], |activation| work(&activation));
    let (told, said) = channel();
    let speaker = cluster.worker("speaker", &["speak"], move |activation| {
        speak_until_held_up(&activation, &told);
    });
    cluster.until_ready(2);
    Stage {
        cluster,
        speaker,
        said,
    }
}

/// A client that has read little of its job.
fn slow_client(cluster: &Cluster) -> Client {
    let mut client = cluster.client();
    client.max_bytes = 512;
    client.submit(request());
    client.accepted();
    assert!(matches!(client.next(), Event::Frame(_)));
    client
}

#[test]
fn rule_10_a_slow_client_holds_up_whoever_makes_its_result_and_the_scheduler_keeps_a_window() {
    let Stage {
        cluster,
        speaker,
        said,
    } = stage();
    let mut client = slow_client(&cluster);
    let made = said.recv_timeout(PATIENCE).unwrap();
    // One message of it has been read.
    assert!(
        speaker.frames_out() < WINDOW + 128,
        "{}",
        speaker.frames_out()
    );
    // Others are served meanwhile.
    cluster.worker("other", &["speak"], |activation| work(&activation));
    cluster.until_ready(3);
    let mut other = cluster.submitted();
    assert_eq!(words(&other.rest().0), ANSWER);
    // It reads on, from the second frame.
    let (frames, end) = client.rest();
    assert_eq!(end.error, None);
    assert_eq!(words(&frames), numbers(1..made));
    cluster.assert_clean();
}

#[test]
fn rule_10_a_client_that_leaves_holds_up_nobody_any_more() {
    let Stage { cluster, said, .. } = stage();
    let mut client = cluster.client();
    client.max_bytes = 512;
    client.submit(v1::SubmitRequest {
        detach: true,
        ..request()
    });
    let (job, _) = client.accepted();
    let made = said.recv_timeout(PATIENCE).unwrap();
    client.close();
    cluster.until("the job ends", |status| status.jobs_running == 0);
    let mut back = cluster.client();
    let watch = v1::WatchRequest {
        job,
        ..Default::default()
    };
    back.send(1, Request::Watch(watch));
    back.accepted();
    let (frames, end) = back.rest();
    assert_eq!(end.error, None);
    assert_eq!(words(&frames), numbers(0..made), "all of it was kept");
    cluster.assert_clean();
}

#[test]
fn rule_10_a_job_without_a_client_comes_to_its_end() {
    let cluster = Cluster::new(config());
    let (told, news) = channel();
    let (go, gone) = channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    cluster.worker("reader", &["read"], move |activation| {
        told.send("reads").unwrap();
        gone.lock().unwrap().recv().unwrap();
        work(&activation);
    });
    cluster.worker("speaker", &["speak"], |activation| {
        let taken = activation.emit("output", count(&numbers(0..BEHIND)));
        assert_eq!(taken.unwrap(), BEHIND);
        activation.finish([].into()).unwrap();
    });
    cluster.until_ready(2);
    let mut client = cluster.client();
    client.submit(v1::SubmitRequest {
        detach: true,
        ..request()
    });
    let (job, _) = client.accepted();
    wait_for(&news, "reads");
    client.close();
    go.send(()).unwrap();
    cluster.until("the job ends", |status| status.jobs_running == 0);
    assert_eq!(cluster.job(&job).state(), v1::job_status::State::Succeeded);
}
