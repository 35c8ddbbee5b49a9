//! Links over real sockets.

use std::io::Write;
use std::time::Duration;

use crate::support::{Ear, PATIENCE, link, message, patient, tcp, unix};
use bytes::Bytes;
use omniflow_link::greeting::{Greeting, LinkId, Purpose};
use omniflow_link::header::{Header, MAX_BODY_BYTES};
use omniflow_link::{
    Address, Endpoint, GreetingProblem, LinkConfig, LinkError, LossReason, Malformation,
};

fn endpoint() -> Endpoint {
    Endpoint::new(patient())
}

async fn exchange(address: Address) {
    let listener = endpoint().bind(&address).await.expect("binds");
    let way = listener.address().clone();
    let ((sender, mut back), (echo, mut there)) = link(&endpoint(), &way, &listener).await;
    let big: Vec<u8> = (0..5 << 20).map(|i: u32| (i % 253) as u8).collect();
    sender
        .send_all([message(1, big.clone()), message(2, "small")])
        .expect("sent");
    sender.close();
    let got = there.take(2).await;
    assert_eq!(&got[0].body[..], b"headsmall", "it overtook the bulk");
    assert_eq!(got[1].body[4..], big[..]);
    assert!(there.end().await.is_ok(), "closed in good order");
    // The other direction still works after this side's close.
    echo.send(message(3, "bye")).expect("sent");
    echo.close();
    assert_eq!(&back.next().await.body[..], b"headbye");
    assert!(back.end().await.is_ok(), "closed in good order");
    assert!(matches!(
        sender.send(message(1, "late")),
        Err(LinkError::Closed)
    ));
}

/// A connection made by hand, greeted, and the accepted end of its link.
async fn by_hand(
    folder: &tempfile::TempDir,
    config: LinkConfig,
) -> (std::os::unix::net::UnixStream, Ear) {
    let listener = Endpoint::new(config)
        .bind(&unix(folder))
        .await
        .expect("binds");
    let path = folder.path().join("link.sock");
    let mut raw = std::os::unix::net::UnixStream::connect(path).expect("connects");
    let greeting = Greeting {
        purpose: Purpose::Open,
        link: LinkId::random().expect("random"),
        received: 0,
    };
    raw.write_all(&greeting.encode()).expect("writes");
    let (_, reader) = listener.accept().await.expect("accepts");
    (raw, Ear::new(reader))
}

fn header(length: usize, first: bool, last: bool, sequence: u64) -> Header {
    Header {
        length,
        kind: 1,
        first,
        last,
        stream: 0,
        sequence,
    }
}

#[tokio::test]
async fn messages_cross_a_unix_socket_and_close_loses_none() {
    let folder = tempfile::tempdir().expect("folder");
    exchange(unix(&folder)).await;
}

#[tokio::test]
async fn messages_cross_tcp_and_close_loses_none() {
    exchange(tcp()).await;
}

#[tokio::test]
async fn a_link_cut_in_the_middle_of_a_frame_for_good_is_a_typed_error() {
    for cut in [1, 19, 20, 25] {
        let folder = tempfile::tempdir().expect("folder");
        let config = LinkConfig {
            resume_within: Duration::from_millis(20),
            ..patient()
        };
        let (mut raw, ear) = by_hand(&folder, config).await;
        let bytes = [&header(10, true, true, 0).encode()[..], &[0; 10]].concat();
        raw.write_all(&bytes[..cut]).expect("writes");
        drop(raw);
        let outcome = ear.end().await;
        let Err(LinkError::Lost(loss)) = &outcome else {
            panic!("not lost: {outcome:?}");
        };
        assert!(matches!(loss.reason, LossReason::NotBack(_)), "{loss}");
        assert!(loss.cause.contains("in the middle of a message"), "{loss}");
    }
}

#[tokio::test]
async fn malformed_bytes_close_the_link_and_nobody_elses() {
    let folder = tempfile::tempdir().expect("folder");
    let (mut raw, ear) = by_hand(&folder, patient()).await;
    raw.write_all(&[0xff; 64]).expect("writes");
    let outcome = ear.end().await;
    assert!(
        matches!(outcome, Err(LinkError::Malformed(_))),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn what_is_no_peer_is_told_apart_and_does_not_hold_up_who_comes_behind_it() {
    let folder = tempfile::tempdir().expect("folder");
    let listener = endpoint().bind(&unix(&folder)).await.expect("binds");
    let way = listener.address().clone();
    let path = folder.path().join("link.sock");
    let connect = || std::os::unix::net::UnixStream::connect(&path).expect("connects");
    let _mute = connect();
    let mut stranger = connect();
    stranger
        .write_all(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
        .expect("writes");
    let refused = listener.accept().await;
    let problem = match &refused {
        Err(LinkError::Greeting { problem, .. }) => problem,
        other => panic!("taken: {other:?}"),
    };
    assert_eq!(*problem, GreetingProblem::NotAPeer);
    let _link = link(&endpoint(), &way, &listener).await;
}

/// A message that has no end costs no more than the limit.
#[tokio::test]
async fn an_endless_message_is_refused_at_the_limit() {
    let folder = tempfile::tempdir().expect("folder");
    let config = LinkConfig {
        max_message_bytes: 1 << 20,
        ..patient()
    };
    let (mut raw, ear) = by_hand(&folder, config).await;
    let writing = tokio::task::spawn_blocking(move || {
        let body = vec![0; MAX_BODY_BYTES];
        for sequence in 0.. {
            let header = header(body.len(), sequence == 0, false, sequence).encode();
            if raw.write_all(&[&header[..], &body].concat()).is_err() {
                return sequence;
            }
        }
        0
    });
    let outcome = ear.end().await;
    let limit = Malformation::MessageTooLong(1 << 20);
    assert!(
        matches!(outcome, Err(LinkError::Malformed(found)) if found == limit),
        "{outcome:?}"
    );
    // The link hung up on it, soon after what its socket holds.
    assert!(writing.await.expect("no panic") < 100);
}

#[tokio::test]
async fn a_frame_of_a_gibibyte_is_refused_and_the_next_one_goes() {
    let folder = tempfile::tempdir().expect("folder");
    let listener = endpoint().bind(&unix(&folder)).await.expect("binds");
    let way = listener.address().clone();
    let ((near, _back), (_far, mut there)) = link(&endpoint(), &way, &listener).await;
    // Pages that nobody touches cost nothing.
    let huge = near.send(message(1, vec![0; 1 << 30]));
    assert!(
        matches!(huge, Err(LinkError::TooLarge { length, .. }) if length > 1 << 30),
        "{huge:?}"
    );
    near.send(message(1, "next")).expect("sent");
    assert_eq!(&there.next().await.body[4..], b"next");
}

#[tokio::test]
async fn rule_18_a_large_frame_under_the_limit_is_fragmented_and_others_overtake_it() {
    let folder = tempfile::tempdir().expect("folder");
    let listener = endpoint().bind(&unix(&folder)).await.expect("binds");
    let way = listener.address().clone();
    let dialler = endpoint();
    let (near, far) = tokio::join!(
        dialler.dial(std::slice::from_ref(&way), PATIENCE),
        listener.accept()
    );
    let ((near, back), (_far, mut reader)) = (near.expect("reachable"), far.expect("accepts"));
    let _back = Ear::new(back);
    let bulk = Bytes::from(vec![7; 64 << 20]);
    near.send(message(1, bulk.clone())).expect("sent");
    // Of other jobs, one after the other. The bulk moves only as this end is read, and that ends with each of them.
    let mut got = Vec::new();
    for round in 0..20u8 {
        let other = 2 + u32::from(round);
        near.send(message(other, vec![round])).expect("sent");
        assert!(reader.read(&mut got).await.expect("well formed"));
        assert_eq!(
            (got.len(), got[0].stream),
            (1, other),
            "it waits for no bulk"
        );
        got.clear();
    }
    assert!(reader.read(&mut got).await.expect("well formed"));
    assert_eq!(got[0].body[4..], bulk);
}

#[tokio::test]
async fn messages_over_the_limit_are_refused_before_they_are_sent() {
    let folder = tempfile::tempdir().expect("folder");
    let listener = endpoint().bind(&unix(&folder)).await.expect("binds");
    let config = LinkConfig {
        max_message_bytes: 100,
        max_queued_bytes: 150,
        ..patient()
    };
    let dialler = Endpoint::new(config);
    let ((sender, _back), _far) = link(&dialler, &unix(&folder), &listener).await;
    let long = sender.send(message(1, vec![0; 97]));
    assert!(matches!(long, Err(LinkError::TooLarge { .. })));
    let many = sender.send_all((0..3).map(|_| message(1, vec![0; 90])));
    assert!(matches!(many, Err(LinkError::QueueFull { .. })));
}

#[tokio::test]
async fn dial_takes_the_first_reachable_address_and_else_names_all() {
    let folder = tempfile::tempdir().expect("folder");
    let listener = endpoint().bind(&tcp()).await.expect("binds");
    let dead = unix(&folder);
    let both = [dead.clone(), listener.address().clone()];
    let dialled = endpoint().dial(&both, PATIENCE).await;
    dialled.expect("the second answers");
    let nobody = endpoint().dial(std::slice::from_ref(&dead), PATIENCE).await;
    let error = nobody.expect_err("nobody there");
    assert!(matches!(error, LinkError::Unreachable(_)));
    assert!(error.to_string().contains(&dead.to_string()));
}

#[tokio::test]
async fn socket_file_of_a_dead_process_is_replaced_and_a_living_one_is_respected() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("link.sock");
    // A std listener leaves its file behind, as a killed process does.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("binds"));
    assert!(path.exists());
    let listener = endpoint().bind(&unix(&folder)).await.expect("takes over");
    let second = endpoint().bind(&unix(&folder)).await;
    assert!(matches!(second, Err(LinkError::AddressInUse(_))));
    drop(listener);
    assert!(!path.exists(), "the file goes with the listener");
    std::fs::write(&path, "not a socket").expect("writes");
    let third = endpoint().bind(&unix(&folder)).await;
    assert!(matches!(third, Err(LinkError::AddressInUse(_))));
    assert!(path.exists(), "what is no socket is left alone");
}

#[tokio::test]
async fn a_tcp_port_in_use_is_a_typed_error() {
    let listener = endpoint().bind(&tcp()).await.expect("binds");
    let second = endpoint().bind(listener.address()).await;
    assert!(matches!(second, Err(LinkError::AddressInUse(_))));
}
