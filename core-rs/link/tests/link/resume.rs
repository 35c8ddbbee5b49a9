//! Links over sockets that break.

use std::io::{Read, Write};
use std::time::Duration;

use crate::support::{Ear, PATIENCE, Wire, link, message, patient, unix};
use omniflow_link::greeting::{GREETING_BYTES, Greeting, LinkId, Purpose};
use omniflow_link::{Address, Endpoint, LinkConfig, LinkError, LinkSender, LossReason};
use proptest::prelude::*;
use tokio::time::timeout;

fn path(address: &Address) -> std::path::PathBuf {
    match address {
        Address::Unix(path) => path.clone(),
        other => panic!("no path: {other}"),
    }
}

#[tokio::test]
async fn rule_13_a_link_survives_its_sockets_both_ways() {
    let folder = tempfile::tempdir().expect("folder");
    let endpoint = Endpoint::new(patient());
    let listener = endpoint.bind(&unix(&folder)).await.expect("binds");
    let wire = Wire::new(path(listener.address()), Vec::new());
    let ((near, mut back), (far, mut there)) = link(&endpoint, &wire.address, &listener).await;
    for round in 0..5u8 {
        near.send(message(1, vec![round; 1_000])).expect("sent");
        far.send(message(1, vec![round; 1_000])).expect("sent");
        assert_eq!(there.next().await.body[4], round);
        assert_eq!(back.next().await.body[4], round);
        wire.cut();
    }
    near.send(message(1, "last")).expect("sent");
    far.send(message(1, "last")).expect("sent");
    assert_eq!(there.next().await.body[4..], b"last"[..]);
    assert_eq!(back.next().await.body[4..], b"last"[..]);
    assert!(near.resumed() >= 1 && far.resumed() >= 1);
}

/// Length and filling of a message's body.
fn shape(body: &[u8]) -> (usize, Option<u8>) {
    (body.len() - 4, body.get(4).copied())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rule_13_cuts_anywhere_lose_nothing_and_repeat_nothing(
        mut budgets in proptest::collection::vec(prop_oneof![1usize..200, 1usize..400_000], 1..8),
        lengths in proptest::collection::vec(prop_oneof![0usize..100, 0usize..200_000], 1..20),
    ) {
        // The first greeting goes through: a link that never came to be cannot be resumed.
        budgets[0] += GREETING_BYTES;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let folder = tempfile::tempdir().expect("folder");
            let endpoint = Endpoint::new(patient());
            let listener = endpoint.bind(&unix(&folder)).await.expect("binds");
            let wire = Wire::new(path(listener.address()), budgets);
            let ((near, mut back), (far, mut there)) = link(&endpoint, &wire.address, &listener).await;
            let sent = lengths.iter().enumerate().map(|(at, length)| message(1, vec![at as u8; *length]));
            near.send_all(sent.clone()).expect("sent");
            far.send_all(sent.clone()).expect("sent");
            for got in [there.take(lengths.len()).await, back.take(lengths.len()).await] {
                let got: Vec<_> = got.iter().map(|message| shape(&message.body)).collect();
                let wanted: Vec<_> = lengths.iter().enumerate()
                    .map(|(at, length)| (*length, (*length > 0).then_some(at as u8))).collect();
                assert_eq!(got, wanted);
            }
        });
    }
}

/// Of its first connection, the wire takes the dialler's greeting and so many bytes more.
async fn over_a_short_wire(
    folder: &tempfile::TempDir,
    more: usize,
) -> (Wire, (LinkSender, Ear), (LinkSender, Ear)) {
    let endpoint = Endpoint::new(patient());
    let listener = endpoint.bind(&unix(folder)).await.expect("binds");
    let wire = Wire::new(path(listener.address()), vec![GREETING_BYTES + more]);
    let (near, far) = link(&endpoint, &wire.address, &listener).await;
    // It accepts the connections to come.
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    (wire, near, far)
}

#[tokio::test]
async fn what_was_sent_last_before_a_close_outlives_a_connection_that_swallows_it() {
    let folder = tempfile::tempdir().expect("folder");
    let (_wire, (near, back), (far, mut there)) = over_a_short_wire(&folder, 10).await;
    near.send(message(1, "last")).expect("sent");
    near.close();
    assert_eq!(&there.next().await.body[..], b"headlast");
    assert!(there.end().await.is_ok(), "closed in good order");
    timeout(PATIENCE, near.ended())
        .await
        .expect("it was told so");
    assert_eq!(near.unacknowledged_bytes(), 0);
    far.close();
    assert!(back.end().await.is_ok());
}

#[tokio::test]
async fn so_does_what_the_other_side_sends_after_that() {
    let folder = tempfile::tempdir().expect("folder");
    let (_wire, (near, mut back), (far, there)) = over_a_short_wire(&folder, 60).await;
    near.close();
    assert!(there.end().await.is_ok(), "closed in good order");
    far.send(message(1, vec![1; 1_000])).expect("sent");
    far.close();
    assert_eq!(back.next().await.body.len(), 1_004);
    assert!(back.end().await.is_ok(), "closed in good order");
    timeout(PATIENCE, far.ended())
        .await
        .expect("it was told so");
}

#[tokio::test]
async fn messages_wait_while_the_connection_is_broken_and_memory_is_bounded() {
    let folder = tempfile::tempdir().expect("folder");
    let config = LinkConfig {
        max_queued_bytes: 1 << 20,
        window_bytes: 1 << 20,
        ..patient()
    };
    let endpoint = Endpoint::new(config);
    let listener = endpoint.bind(&unix(&folder)).await.expect("binds");
    let wire = Wire::new(path(listener.address()), Vec::new());
    let ((near, _back), (_far, mut there)) = link(&endpoint, &wire.address, &listener).await;
    wire.block();
    let mut sent = 0;
    let refused = loop {
        match near.send(message(1, vec![0; 10_000])) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, LinkError::QueueFull { .. }), "{refused}");
    assert!(near.queued_bytes() + near.unacknowledged_bytes() < (2 << 20) + (1 << 17));
    wire.mend();
    assert_eq!(there.take(sent).await.len(), sent);
}

fn lost(outcome: Result<(), LinkError>) -> LossReason {
    match outcome {
        Err(LinkError::Lost(loss)) => loss.reason,
        other => panic!("not lost: {other:?}"),
    }
}

#[tokio::test]
async fn rule_13_a_peer_that_was_started_anew_is_another_link() {
    let folder = tempfile::tempdir().expect("folder");
    let dialler = Endpoint::new(patient());
    let listener = Endpoint::new(patient())
        .bind(&unix(&folder))
        .await
        .expect("binds");
    let wire = Wire::new(path(listener.address()), Vec::new());
    let ((near, back), _far) = link(&dialler, &wire.address, &listener).await;
    drop(listener);
    // Whoever listens there now has never heard of the link.
    let heir = Endpoint::new(patient())
        .bind(&unix(&folder))
        .await
        .expect("binds");
    wire.cut();
    assert_eq!(lost(back.end().await), LossReason::Forgotten);
    assert!(matches!(
        near.send(message(1, "late")),
        Err(LinkError::Closed)
    ));
    let _anew = link(&dialler, &wire.address, &heir).await;
}

#[tokio::test]
async fn rule_13_a_peer_that_refuses_is_lost_at_once() {
    let folder = tempfile::tempdir().expect("folder");
    let endpoint = Endpoint::new(patient());
    let listener = endpoint.bind(&unix(&folder)).await.expect("binds");
    let way = listener.address().clone();
    let ((_near, back), (far, _there)) = link(&endpoint, &way, &listener).await;
    drop(listener);
    far.abort();
    let reason = lost(back.end().await);
    assert!(matches!(reason, LossReason::Refused(_)), "{reason}");
}

#[tokio::test]
async fn rule_13_a_link_that_stays_broken_is_lost_on_both_sides() {
    let folder = tempfile::tempdir().expect("folder");
    let config = LinkConfig {
        resume_within: Duration::from_millis(100),
        ..patient()
    };
    let endpoint = Endpoint::new(config);
    let listener = endpoint.bind(&unix(&folder)).await.expect("binds");
    let wire = Wire::new(path(listener.address()), Vec::new());
    let ((_near, back), (_far, there)) = link(&endpoint, &wire.address, &listener).await;
    wire.block();
    for ear in [back, there] {
        let reason = lost(ear.end().await);
        assert!(matches!(reason, LossReason::NotBack(_)), "{reason}");
    }
}

#[tokio::test]
async fn rule_13_a_peer_whose_end_is_not_read_is_dead_past_the_limit_and_a_quiet_one_is_not() {
    let folder = tempfile::tempdir().expect("folder");
    let dialler = Endpoint::new(LinkConfig {
        heartbeat: Duration::from_millis(50),
        heartbeat_limit: Duration::from_secs(2),
        ..patient()
    });
    let listener = Endpoint::new(patient())
        .bind(&unix(&folder))
        .await
        .expect("binds");
    let way = listener.address().clone();
    let ((alive, _back), (_far, _there)) = link(&dialler, &way, &listener).await;
    // Nobody reads the second one, as if its process were stopped.
    let dialled = dialler.dial(std::slice::from_ref(&way), PATIENCE);
    let (dialled, _unread) = tokio::join!(dialled, listener.accept());
    let (_near, stopped) = dialled.expect("reachable");
    let reason = lost(Ear::new(stopped).end().await);
    assert!(matches!(reason, LossReason::Silent(_)), "{reason}");
    assert!(!alive.is_closed());
}

#[tokio::test]
async fn a_greeting_that_was_heard_before_is_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let listener = Endpoint::new(patient())
        .bind(&unix(&folder))
        .await
        .expect("binds");
    let greeting = Greeting {
        purpose: Purpose::Open,
        link: LinkId::random().expect("random"),
        received: 0,
    };
    let target = path(listener.address());
    let greet = move || {
        let mut socket = std::os::unix::net::UnixStream::connect(&target).expect("connects");
        socket.write_all(&greeting.encode()).expect("written");
        let mut answer = [0; GREETING_BYTES];
        socket.read_exact(&mut answer).expect("an answer");
        (
            socket,
            Greeting::decode(&answer).expect("an answer").purpose,
        )
    };
    let greet = std::sync::Arc::new(greet);
    let again = std::sync::Arc::clone(&greet);
    let (_socket, purpose) = tokio::task::spawn_blocking(move || greet())
        .await
        .expect("no panic");
    assert_eq!(purpose, Purpose::Welcome);
    let _first = listener.accept().await.expect("accepted");
    let (_socket, purpose) = tokio::task::spawn_blocking(move || again())
        .await
        .expect("no panic");
    assert_eq!(purpose, Purpose::Refused);
    assert!(matches!(
        listener.accept().await,
        Err(LinkError::Greeting { .. })
    ));
}
