//! Links over real sockets.

#![allow(clippy::expect_used)] // A failed step of a test is its end.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use omniflow_link::header::Header;
use omniflow_link::{Address, LinkConfig, LinkError, Listener, Message, Received, dial, open};

const PATIENCE: Duration = Duration::from_secs(5);

fn message(stream: u32, body: impl Into<Bytes>) -> Message {
    Message {
        kind: 7,
        stream,
        head: Bytes::from_static(b"head"),
        body: body.into(),
    }
}

fn unix(folder: &tempfile::TempDir) -> Address {
    Address::Unix(folder.path().join("link.sock"))
}

fn tcp() -> Address {
    Address::Tcp {
        host: "127.0.0.1".to_owned(),
        port: 0,
    }
}

async fn exchange(address: Address) {
    let listener = Listener::bind(&address).await.expect("binds");
    let dialled = dial(&[listener.address().clone()], PATIENCE)
        .await
        .expect("reachable");
    let accepted = listener.accept().await.expect("accepts");
    let (sender, mut back) = open(dialled, LinkConfig::default());
    let (echo, mut reader) = open(accepted, LinkConfig::default());
    let big: Vec<u8> = (0..5 << 20).map(|i: u32| (i % 253) as u8).collect();
    sender
        .send_all([message(1, big.clone()), message(2, "small")])
        .expect("sent");
    sender.close();
    let mut got = Vec::new();
    while reader.read(&mut got).await.expect("well formed") {}
    assert_eq!(got.len(), 2);
    assert_eq!(&got[0].body[..], b"headsmall", "it overtook the bulk");
    assert_eq!(got[1].body[4..], big[..]);
    // The other direction still works after this side's close.
    echo.send(message(3, "bye")).expect("sent");
    echo.close();
    let mut got: Vec<Received> = Vec::new();
    while back.read(&mut got).await.expect("well formed") {}
    assert_eq!(&got[0].body[..], b"headbye");
    assert!(matches!(
        sender.send(message(1, "late")),
        Err(LinkError::Closed)
    ));
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
async fn a_link_cut_in_the_middle_of_a_frame_is_a_typed_error() {
    for cut in [1, 19, 20, 25] {
        let folder = tempfile::tempdir().expect("folder");
        let listener = Listener::bind(&unix(&folder)).await.expect("binds");
        let path = folder.path().join("link.sock");
        let mut raw = std::os::unix::net::UnixStream::connect(path).expect("connects");
        let header = Header {
            length: 10,
            kind: 1,
            first: true,
            last: true,
            stream: 0,
            sequence: 0,
        };
        let bytes = [&header.encode()[..], &[0; 10]].concat();
        raw.write_all(&bytes[..cut]).expect("writes");
        drop(raw);
        let (_, mut reader) = open(
            listener.accept().await.expect("accepts"),
            LinkConfig::default(),
        );
        let outcome = reader.read(&mut Vec::new()).await;
        assert!(matches!(outcome, Err(LinkError::CutShort)), "{outcome:?}");
    }
}

#[tokio::test]
async fn malformed_bytes_close_the_link() {
    let folder = tempfile::tempdir().expect("folder");
    let listener = Listener::bind(&unix(&folder)).await.expect("binds");
    let path = folder.path().join("link.sock");
    let mut raw = std::os::unix::net::UnixStream::connect(path).expect("connects");
    raw.write_all(&[0xff; 64]).expect("writes");
    let (sender, mut reader) = open(
        listener.accept().await.expect("accepts"),
        LinkConfig::default(),
    );
    let outcome = reader.read(&mut Vec::new()).await;
    assert!(
        matches!(outcome, Err(LinkError::Malformed(_))),
        "{outcome:?}"
    );
    assert!(sender.is_closed());
    sender.ended().await;
}

#[tokio::test]
async fn messages_over_the_limit_are_refused_before_they_are_sent() {
    let folder = tempfile::tempdir().expect("folder");
    let listener = Listener::bind(&unix(&folder)).await.expect("binds");
    let socket = dial(&[unix(&folder)], PATIENCE).await.expect("reachable");
    let config = LinkConfig {
        max_message_bytes: 100,
        max_queued_bytes: 150,
    };
    let (sender, _reader) = open(socket, config);
    let long = sender.send(message(1, vec![0; 97]));
    assert!(matches!(long, Err(LinkError::TooLarge { .. })));
    let many = sender.send_all((0..3).map(|_| message(1, vec![0; 90])));
    assert!(matches!(many, Err(LinkError::QueueFull { .. })));
    drop(listener);
}

#[tokio::test]
async fn dial_takes_the_first_reachable_address_and_else_names_all() {
    let folder = tempfile::tempdir().expect("folder");
    let listener = Listener::bind(&tcp()).await.expect("binds");
    let dead = unix(&folder);
    dial(&[dead.clone(), listener.address().clone()], PATIENCE)
        .await
        .expect("the second answers");
    let error = dial(std::slice::from_ref(&dead), PATIENCE)
        .await
        .expect_err("nobody there");
    assert!(error.to_string().contains(&dead.to_string()));
}

#[tokio::test]
async fn socket_file_of_a_dead_process_is_replaced_and_a_living_one_is_respected() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("link.sock");
    // A std listener leaves its file behind, as a killed process does.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("binds"));
    assert!(path.exists());
    let listener = Listener::bind(&unix(&folder)).await.expect("takes over");
    let second = Listener::bind(&unix(&folder)).await;
    assert!(matches!(second, Err(LinkError::AddressInUse(_))));
    drop(listener);
    assert!(!path.exists(), "the file goes with the listener");
    std::fs::write(&path, "not a socket").expect("writes");
    let third = Listener::bind(&unix(&folder)).await;
    assert!(matches!(third, Err(LinkError::AddressInUse(_))));
    assert!(path.exists(), "what is no socket is left alone");
}

#[tokio::test]
async fn a_tcp_port_in_use_is_a_typed_error() {
    let listener = Listener::bind(&tcp()).await.expect("binds");
    let second = Listener::bind(listener.address()).await;
    assert!(matches!(second, Err(LinkError::AddressInUse(_))));
}
