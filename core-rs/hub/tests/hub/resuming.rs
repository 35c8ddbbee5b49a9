//! A resumable node whose worker dies (rule 12): the client and whoever else reads from it hear one story.

use std::time::Duration;

use crate::common::{Cluster, config, hang, read_text, request, text, words, work};
use bytes::Bytes;
use omniflow_node::ActivationHandle;
use omniflow_wire::v1;
use prost::Message;

/// `question` → `read` → `speak` → `words`, and `words` → `relay` → `relayed`. What `speak` says is drawn anew each time.
fn improvised() -> v1::Flow {
    let mut flow = crate::common::flow();
    flow.name = "improvised".to_owned();
    flow.nodes[0].options = Some(v1::NodeOptions {
        deterministic: true,
        ..Default::default()
    });
    flow.nodes[1].options = Some(v1::NodeOptions {
        resumable: true,
        ..Default::default()
    });
    let stream = flow.results[0].r#type.clone();
    let mut relay = flow.nodes[0].clone();
    (relay.name, relay.role) = ("relay.run".to_owned(), "relay".to_owned());
    relay.inputs[0].r#type = stream.clone();
    relay.outputs[0].r#type = stream.clone();
    flow.nodes.push(relay);
    let mut relayed = flow.results[0].clone();
    relayed.name = "relayed".to_owned();
    flow.results.push(relayed);
    let end = |place: v1::end::Place, node, port| {
        Some(v1::End {
            place: place.into(),
            node,
            port,
        })
    };
    use v1::end::Place::{Node, Result};
    for (from, to) in [
        (end(Node, 1, 0), end(Node, 2, 0)),
        (end(Node, 2, 0), end(Result, 0, 1)),
    ] {
        flow.edges.push(v1::Edge {
            from,
            to,
            r#type: stream.clone(),
        });
    }
    flow
}

/// A frame whose state is its own word, in small letters.
fn said(word: &str) -> Bytes {
    let state = v1::FrameState {
        state: word.to_lowercase().into(),
    };
    [&text(word)[..], &state.encode_to_vec()].concat().into()
}

fn relay(activation: &ActivationHandle) {
    while let Ok(Some(frames)) = activation.read("input", 8, Duration::from_secs(60)) {
        for frame in frames {
            assert_eq!(text(&read_text(&frame)), frame, "it sees no state");
            activation.emit("output", vec![frame]).unwrap();
        }
    }
    let _ = activation.finish([].into());
}

#[test]
fn rule_12_a_killed_improviser_is_taken_over_after_its_last_word() {
    let cluster = Cluster::without_flows(config());
    cluster.hub.put_flow(&improvised().encode_to_vec()).unwrap();
    cluster.worker("reader", &["read"], |activation| work(&activation));
    cluster.worker("relay", &["relay"], |activation| relay(&activation));
    let doomed = cluster.worker("doomed", &["speak"], |activation| {
        assert!(activation.activation().resumed().is_empty());
        let frames = vec![said("ONCE"), said("UPON")];
        assert_eq!(activation.emit("output", frames).unwrap(), 2);
        hang(&activation);
    });
    cluster.until_ready(3);
    let mut client = cluster.client();
    client.submit(v1::SubmitRequest {
        flow: "improvised".to_owned(),
        ..request()
    });
    client.accepted();
    let mut frames = Vec::new();
    while frames.len() < 4 {
        if let v1::job_event::Event::Frame(frame) = client.next() {
            frames.push(frame);
        }
    }
    cluster.worker("heir", &["speak"], |activation| {
        let resumed = activation.activation().resumed();
        assert_eq!(resumed, [said("ONCE"), said("UPON")]);
        let frames = vec![said("ANOTHER"), said("TIME")];
        assert_eq!(activation.emit("output", frames).unwrap(), 2);
        activation.finish([].into()).unwrap();
    });
    cluster.until_ready(4);
    doomed.kill();
    let (more, ended) = client.rest();
    assert_eq!(ended.error, None);
    frames.extend(more);
    for port in [0, 1] {
        let of_port = frames.iter().filter(|frame| frame.port == port);
        let of_port: Vec<v1::ResultFrame> = of_port.cloned().collect();
        let expected = ["ONCE", "UPON", "ANOTHER", "TIME"];
        assert_eq!(words(&of_port), expected, "result {port}");
        assert!((0..).zip(&of_port).all(|(seq, frame)| frame.seq == seq));
    }
    cluster.assert_clean();
}
