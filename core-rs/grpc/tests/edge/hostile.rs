//! What a client may do to the server, and nobody else notices.

use std::time::Duration;

use omniflow_grpc::Call;

use crate::raw_client::{RawClient, begin, message};
use crate::support::{METHOD, PATIENCE, called, read, served, served_patiently};

/// What is known of it is in its own words.
fn is_served(call: &Call) {
    call.send(b"still here?");
    assert_eq!(read(call, 1), [&b"still here?"[..]]);
}

/// There all the time, and somebody who comes later.
fn nobody_else_notices(address: &str, hostile: impl FnOnce()) {
    let there = called(address, METHOD);
    is_served(&there);
    hostile();
    is_served(&there);
    is_served(&called(address, METHOD));
}

#[test]
fn what_is_no_http2_is_closed_at_once() {
    let (_server, address, _closed) = served();
    nobody_else_notices(&address, || {
        for nonsense in [
            &[0xAA; 64 << 10][..],
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"PRI * HTTQ",
        ] {
            let mut client = RawClient::silent(&address);
            client.write(nonsense);
            client.is_closed();
        }
    });
}

#[test]
fn nonsense_behind_a_good_beginning_ends_that_connection() {
    let (_server, address, _closed) = served();
    nobody_else_notices(&address, || {
        let mut client = RawClient::greeted(&address);
        client.write(&begin(0));
        client.write(&[0xAA; 64 << 10]);
        client.is_closed();
    });
}

#[test]
fn who_stops_in_the_middle_of_a_word_holds_up_nobody() {
    let (_server, address, closed) = served();
    let mut half_a_message = begin(0);
    half_a_message.extend_from_slice(&message(0, &[7; 100])[..50]);
    let halves = [&begin(0)[..20], &half_a_message];
    let mut clients: Vec<RawClient> = halves
        .iter()
        .map(|half| {
            let mut client = RawClient::greeted(&address);
            client.write(half);
            client
        })
        .collect();
    let mut client = RawClient::silent(&address);
    client.write(b"PRI * HT");
    clients.push(client);
    nobody_else_notices(&address, || {});
    drop(clients);
    // Two of those that were served, and the one that had begun.
    for _ in 0..3 {
        closed.recv_timeout(PATIENCE).expect("the call is closed");
    }
}

#[test]
fn who_says_nothing_for_too_long_is_let_go_of() {
    let (_server, address, closed) = served_patiently(Duration::from_millis(500));
    RawClient::silent(&address).is_closed();
    let mut client = RawClient::silent(&address);
    client.write(b"PRI * HT");
    client.is_closed();
    let mut client = RawClient::greeted(&address);
    client.write(&begin(0));
    // It answers no ping.
    client.is_closed();
    closed.recv_timeout(PATIENCE).expect("the call is closed");
}

#[test]
fn ten_thousand_calls_at_once_are_too_many() {
    let (server, address, closed) = served();
    let there = called(&address, METHOD);
    is_served(&there);
    let mut client = RawClient::greeted(&address);
    (0..10_000).for_each(|call| client.write(&begin(call)));
    client.is_closed();
    is_served(&there);
    drop(server);
    // Whoever told of ends is gone with the server.
    let ended = closed.iter().count();
    assert!(ended <= 1_001, "{ended} calls were begun");
}

#[test]
fn hundreds_of_calls_that_are_left_open_end_with_their_connection() {
    let (_server, address, closed) = served();
    nobody_else_notices(&address, || {
        let mut client = RawClient::greeted(&address);
        (0..900).for_each(|call| client.write(&begin(call)));
        client.is_answered(900);
        client.shut();
        for _ in 0..900 {
            closed.recv_timeout(PATIENCE).expect("the call is closed");
        }
    });
}

#[test]
fn who_never_reads_holds_up_nobody() {
    let (_server, address, closed) = served();
    nobody_else_notices(&address, || {
        let mut client = RawClient::greeted(&address);
        client.write(&begin(0));
        // Twice what may be sent to it before it says that it has read some.
        (0..128).for_each(|_| client.write(&message(0, &[7; 1 << 10])));
        is_served(&called(&address, METHOD));
        drop(client);
        closed.recv_timeout(PATIENCE).expect("the call is closed");
    });
}
