//! Rule 10 for each job of a client: one that is read slowly is sent no more of than its client has room for, holds up whoever
//! makes it, and nobody else.

use std::sync::mpsc::{Receiver, channel};

use crate::common::{
    Client, Cluster, PATIENCE, Worker, breathe, config, flow, numbers, read_text, request, text,
    words, work,
};
use omniflow_node::ActivationHandle;
use omniflow_wire::v1;
use omniflow_wire::v1::client_message::Message as Request;
use omniflow_wire::v1::job_event::Event;
use prost::Message;

/// What the scheduler takes of a stream beyond what its client was sent.
const WINDOW: usize = 1_024;
/// What the client has room for.
const ROOM: usize = 10;
/// More than both, and than is ever made until a producer hears that it has to wait.
const MANY: usize = 3_072;
const MOST: usize = 8_000;

fn room_for(frames: usize) -> v1::Window {
    v1::Window {
        frames: frames as u64,
        bytes: 1 << 30,
    }
}

fn submit(client: &mut Client, request: v1::SubmitRequest) -> String {
    client.send_with(1, Request::Submit(request), Some(room_for(ROOM)));
    client.accepted().0
}

fn allow(client: &Client, job: &str, port: u32, frames: usize) {
    let room = v1::Room {
        job: job.to_owned(),
        port,
        frames: frames as u64,
        bytes: 1 << 30,
        unread: false,
    };
    client.send(1, Request::Room(room));
}

fn unread(client: &Client, job: &str, port: u32) {
    let room = v1::Room {
        job: job.to_owned(),
        port,
        unread: true,
        ..Default::default()
    };
    client.send(1, Request::Room(room));
}

/// So many frames, and then nothing more however long it asks.
fn frames(client: &mut Client, count: usize) -> Vec<v1::ResultFrame> {
    let mut frames = Vec::new();
    while frames.len() < count {
        match client.next() {
            Event::Frame(frame) => frames.push(frame),
            other => panic!("after {} frames: {other:?}", frames.len()),
        }
    }
    assert_eq!(client.at_hand(), []);
    frames
}

fn count(range: std::ops::Range<usize>) -> Vec<bytes::Bytes> {
    numbers(range).iter().map(|number| text(number)).collect()
}

/// Says `MANY` words at once, and then one after the other until it is held up; ends when it has room again.
fn speak_until_held_up(activation: &ActivationHandle, said: &std::sync::mpsc::Sender<usize>) {
    let taken = activation.emit("output", count(0..MANY));
    assert_eq!(taken.unwrap(), MANY, "nobody is behind yet");
    let mut made = MANY;
    while !activation.activation().cancelled()
        && matches!(activation.emit("output", count(made..made + 1)), Ok(1))
    {
        made += 1;
        assert!(made < MOST, "it was never held up");
        breathe();
    }
    said.send(made).unwrap();
    if matches!(activation.wait_for_room(PATIENCE), Ok(true)) {
        activation.finish([].into()).unwrap();
    }
}

/// A cluster whose one speaker speaks until it is held up.
fn held_up() -> (Cluster, Receiver<usize>) {
    let cluster = Cluster::new(config());
    cluster.worker("reader", &["read"], |activation| work(&activation));
    let (told, said) = channel();
    cluster.worker("speaker", &["speak"], move |activation| {
        speak_until_held_up(&activation, &told);
    });
    cluster.until_ready(2);
    (cluster, said)
}

/// A cluster whose speaker is told that nobody holds it up, and then says `MOST` words.
fn unheld() -> (Cluster, Receiver<usize>, Worker) {
    let cluster = Cluster::new(config());
    cluster.worker("reader", &["read"], |activation| work(&activation));
    let (told, said) = channel();
    let speaker = cluster.worker("speaker", &["speak"], move |activation| {
        let mut made = 0;
        while made < MOST {
            let until = MOST.min(made + ROOM);
            made += activation.emit("output", count(made..until)).unwrap();
            activation.wait_for_room(PATIENCE).unwrap();
        }
        told.send(made).unwrap();
        activation.finish([].into()).unwrap();
    });
    cluster.until_ready(2);
    (cluster, said, speaker)
}

/// A cluster whose speaker says so many words.
fn speaking(words: usize) -> Cluster {
    let cluster = Cluster::new(config());
    cluster.worker("reader", &["read"], |activation| work(&activation));
    cluster.worker("speaker", &["speak"], move |activation| {
        let taken = activation.emit("output", count(0..words));
        assert_eq!(taken.unwrap(), words);
        activation.finish([].into()).unwrap();
    });
    cluster.until_ready(2);
    cluster
}

#[test]
fn rule_10_a_job_that_is_read_slowly_holds_up_its_producer_and_no_other_job_of_its_client() {
    let (cluster, said) = held_up();
    let mut client = cluster.client();
    let job = submit(&mut client, request());
    let made = said.recv_timeout(PATIENCE).unwrap();
    assert_eq!(words(&frames(&mut client, ROOM)), numbers(0..ROOM));
    // Another job of the same client comes to its end, and nothing more of the first meanwhile.
    cluster.worker("other", &["speak"], |activation| work(&activation));
    cluster.until_ready(3);
    client.send_with(2, Request::Submit(request()), Some(room_for(ROOM)));
    loop {
        let event = client.next_tagged();
        assert_eq!(event.tag, 2);
        if let Some(Event::Ended(end)) = event.event {
            assert_eq!(end.error, None);
            break;
        }
    }
    // A little more, and then all of it.
    allow(&client, &job, 0, ROOM + 5);
    assert_eq!(words(&frames(&mut client, 5)), numbers(ROOM..ROOM + 5));
    allow(&client, &job, 0, usize::MAX);
    let (rest, end) = client.rest();
    assert_eq!(end.error, None);
    assert_eq!(words(&rest), numbers(ROOM + 5..made));
    cluster.assert_clean();
}

#[test]
fn a_job_that_is_held_up_by_its_reader_ends_at_once_when_it_is_cancelled() {
    let (cluster, said) = held_up();
    let mut client = cluster.client();
    let job = submit(&mut client, request());
    said.recv_timeout(PATIENCE).unwrap();
    frames(&mut client, ROOM);
    client.cancel(&job);
    let (rest, end) = client.rest();
    assert_eq!(end.error.unwrap().code(), v1::ErrorCode::Cancelled);
    assert!(rest.len() <= WINDOW + ROOM, "{} more frames", rest.len());
    assert_eq!(words(&rest), numbers(ROOM..ROOM + rest.len()));
    cluster.until("its producer is free", |status| status.jobs_running == 0);
}

#[test]
fn what_is_left_at_a_jobs_end_comes_without_room_for_it_and_so_does_the_end() {
    let cluster = speaking(200);
    let mut client = cluster.client();
    submit(&mut client, request());
    let (frames, end) = client.rest();
    assert_eq!((words(&frames), end.error), (numbers(0..200), None));
    cluster.assert_clean();
}

#[test]
fn a_client_that_comes_back_is_sent_what_it_has_room_for_from_where_it_was() {
    let (cluster, said) = held_up();
    let mut client = cluster.client();
    let job = submit(
        &mut client,
        v1::SubmitRequest {
            detach: true,
            ..request()
        },
    );
    frames(&mut client, ROOM);
    client.close();
    let mut back = cluster.client();
    let watch = v1::WatchRequest {
        job: job.clone(),
        next_seq: [("words".to_owned(), ROOM as u64)].into(),
        ..Default::default()
    };
    back.send_with(1, Request::Watch(watch), Some(room_for(0)));
    back.accepted();
    assert_eq!(frames(&mut back, 0), []);
    allow(&back, &job, 0, 5);
    assert_eq!(words(&frames(&mut back, 5)), numbers(ROOM..ROOM + 5));
    let made = said.recv_timeout(PATIENCE).unwrap();
    allow(&back, &job, 0, usize::MAX);
    let (rest, end) = back.rest();
    assert_eq!(end.error, None);
    assert_eq!(words(&rest), numbers(ROOM + 5..made));
    cluster.assert_clean();
}

#[test]
fn rule_10_a_job_that_nobody_reads_holds_nobody_up_and_waits_where_it_was_made() {
    let (cluster, said, speaker) = unheld();
    let mut client = cluster.client();
    let job = submit(&mut client, request());
    frames(&mut client, ROOM);
    unread(&client, &job, 0);
    assert_eq!(said.recv_timeout(PATIENCE).unwrap(), MOST, "it was held up");
    assert_eq!(client.at_hand(), []);
    assert!(speaker.frames_out() < WINDOW + 128);
    // Somebody reads after all.
    allow(&client, &job, 0, usize::MAX);
    let (rest, end) = client.rest();
    assert_eq!(end.error, None);
    assert_eq!(words(&rest), numbers(ROOM..MOST));
    cluster.assert_clean();
}

/// `speak` has a second stream, which is a result, too.
fn two_results() -> v1::Flow {
    let mut flow = flow();
    let stream = flow.nodes[1].outputs[0].clone();
    let second = |mut port: v1::Port| {
        port.name = "tune".to_owned();
        port
    };
    flow.nodes[1].outputs.push(second(stream));
    flow.results.push(second(flow.results[0].clone()));
    let mut edge = flow.edges[2].clone();
    for end in [&mut edge.from, &mut edge.to] {
        end.as_mut().unwrap().port = 1;
    }
    edge.to.as_mut().unwrap().node = 0;
    flow.edges.push(edge);
    flow
}

/// As much on either port, waiting wherever there is no room.
fn speak_and_sing(activation: &ActivationHandle) {
    for number in 0..MANY {
        for port in ["output", "tune"] {
            while activation.emit(port, count(number..number + 1)).unwrap() == 0 {
                activation.wait_for_room(PATIENCE).unwrap();
            }
        }
    }
    activation.finish([].into()).unwrap();
}

#[test]
fn rule_10_a_result_that_nobody_reads_does_not_keep_another_one_of_the_same_job() {
    let cluster = Cluster::without_flows(config());
    cluster
        .hub
        .put_flow(&two_results().encode_to_vec())
        .unwrap();
    cluster.worker("reader", &["read"], |activation| work(&activation));
    cluster.worker("speaker", &["speak"], |activation| {
        speak_and_sing(&activation);
    });
    cluster.until_ready(2);
    let mut client = cluster.client();
    let job = submit(&mut client, request());
    allow(&client, &job, 0, MANY);
    unread(&client, &job, 1);
    let (mut spoken, mut sung) = (Vec::new(), 0);
    while spoken.len() < MANY {
        match client.next() {
            Event::Frame(frame) if frame.mark() != v1::Mark::None => {}
            Event::Frame(frame) if frame.port == 0 => spoken.push(read_text(&frame.payload)),
            Event::Frame(_) => sung += 1,
            other => panic!("{other:?}"),
        }
        assert!(sung <= ROOM + WINDOW);
    }
    assert_eq!(spoken, numbers(0..MANY));
    allow(&client, &job, 1, MANY);
    let (rest, end) = client.rest();
    let rest = words(&rest).len();
    assert_eq!((sung + rest, end.error), (MANY, None));
    cluster.assert_clean();
}

#[test]
fn room_for_what_is_not_there_harms_nobody() {
    let cluster = speaking(3);
    let mut client = cluster.client();
    allow(&client, "no job", 0, 5);
    let job = submit(&mut client, request());
    allow(&client, &job, 7, 5);
    client.send(
        9,
        Request::Room(v1::Room {
            job,
            ..Default::default()
        }),
    );
    assert_eq!(words(&client.rest().0), numbers(0..3));
    cluster.assert_clean();
}
