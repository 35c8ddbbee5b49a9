//! Both sides of a call, over real sockets.

use bytes::Bytes;
use omniflow_grpc::{Code, binary_entries};

use crate::support::{LARGE, METHOD, PATIENCE, called, end, read, served};

#[test]
fn messages_of_any_size_come_back_whole_and_in_order() {
    let (_server, address, _closed) = served();
    let call = called(&address, METHOD);
    let mut sent: Vec<Vec<u8>> = vec![Vec::new(), b"a".to_vec(), vec![7; LARGE]];
    sent.extend((0..1_000).map(|number: u32| number.to_string().into_bytes()));
    sent.iter().for_each(|message| call.send(message));
    let came = read(&call, sent.len());
    assert!(came.iter().zip(&sent).all(|(came, sent)| came == sent));
}

#[test]
fn what_is_refused_ends_the_call_with_everything_that_was_said_of_it() {
    let (_server, address, closed) = served();
    let call = called(&address, METHOD);
    call.send(b"refuse");
    let status = end(&call);
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "no: 100 %, fünf");
    let why = ("why-bin".to_owned(), Bytes::from_static(&[0, 255, 1]));
    assert_eq!(binary_entries(&status), [why]);
    closed.recv_timeout(PATIENCE).expect("the call is closed");
}

#[test]
fn a_message_that_is_too_large_ends_the_call() {
    let (_server, address, _closed) = served();
    let call = called(&address, METHOD);
    call.send(&vec![0; LARGE + 1]);
    let status = end(&call);
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("larger than max"), "{status:?}");
}

#[test]
fn who_is_not_listened_to_is_listened_to_again_once_it_has_everything() {
    let (_server, address, _closed) = served();
    let call = called(&address, METHOD);
    for message in [&b"hold"[..], b"hold", b"last"] {
        call.send(message);
    }
    assert_eq!(read(&call, 3), [&b"hold"[..], b"hold", b"last"]);
}

#[test]
fn finishing_gives_callers_what_there_is_and_ends_their_calls_well() {
    let (server, address, closed) = served();
    let call = called(&address, METHOD);
    call.send(b"before");
    assert_eq!(read(&call, 1), [&b"before"[..]]);
    server.finish();
    assert_eq!(end(&call).code(), Code::Ok);
    closed.recv_timeout(PATIENCE).expect("the call is closed");
}

#[test]
fn a_caller_that_goes_is_noticed_and_a_server_that_goes_is_a_break() {
    let (server, address, closed) = served();
    let call = called(&address, METHOD);
    call.send(b"here");
    read(&call, 1);
    drop(call);
    closed.recv_timeout(PATIENCE).expect("the call is closed");
    let call = called(&address, METHOD);
    call.send(b"here");
    read(&call, 1);
    drop(server);
    let status = end(&call);
    assert_ne!(status.code(), Code::InvalidArgument);
}

#[test]
fn other_calls_are_unavailable_while_nobody_is_behind() {
    let (_server, address, _closed) = served();
    let call = called(&address, "/test.Service/Other");
    assert_eq!(end(&call).code(), Code::Unavailable);
}
