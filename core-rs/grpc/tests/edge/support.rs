//! A server that echoes, and its callers.

use std::collections::HashMap;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use omniflow_grpc::{
    Call, CallConfig, Code, Exchange, News, Server, ServerConfig, Status, with_binary,
};
use parking_lot::Mutex;

pub(crate) const METHOD: &str = "/test.Service/Exchange";
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const LARGE: usize = 20 << 20;

struct Caller {
    news: News,
    waiting: Vec<Vec<u8>>,
}

/// Gives back what comes; "refuse" ends the call, "hold" is not listened past before everything was taken.
struct Echo {
    callers: Mutex<HashMap<u64, Caller>>,
    closed: Sender<u64>,
}

impl Exchange for Echo {
    fn open(&self, news: News) -> u64 {
        let mut callers = self.callers.lock();
        let number = callers.len() as u64;
        let waiting = Vec::new();
        callers.insert(number, Caller { news, waiting });
        number
    }

    fn take(&self, caller: u64, message: Bytes) -> Result<bool, Status> {
        if &*message == b"refuse" {
            let code = Code::InvalidArgument;
            return Err(with_binary(
                code,
                "no: 100 %, fünf",
                "why-bin",
                &[0, 255, 1],
            ));
        }
        let listen = &*message != b"hold";
        let mut callers = self.callers.lock();
        let caller = callers.get_mut(&caller).expect("open");
        caller.waiting.push(message.to_vec());
        caller.news.tell(Duration::from_millis(1));
        Ok(listen)
    }

    fn next(&self, caller: u64) -> Option<Vec<u8>> {
        let mut callers = self.callers.lock();
        let caller = callers.get_mut(&caller).expect("open");
        (!caller.waiting.is_empty()).then(|| caller.waiting.remove(0))
    }

    fn close(&self, caller: u64) {
        let _ = self.closed.send(caller);
    }
}

/// It closes what says nothing after a while that no test lives to see.
pub(crate) fn served() -> (Server, String, Receiver<u64>) {
    served_patiently(PATIENCE)
}

/// Also the numbers of the calls that are over.
pub(crate) fn served_patiently(patience: Duration) -> (Server, String, Receiver<u64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = Server::new(listener).expect("a server");
    let config = ServerConfig {
        method: METHOD.to_owned(),
        message_bytes: LARGE,
        behind: "omniflow-test-nobody".to_owned(),
        pace: Duration::from_micros(100),
        ping_every: patience,
        ping_patience: patience,
    };
    let (closed, receiver) = channel();
    let callers = Mutex::default();
    server
        .start(config, Arc::new(Echo { callers, closed }))
        .expect("it starts");
    let address = server.address().to_string();
    (server, address, receiver)
}

pub(crate) fn called(address: &str, method: &str) -> Call {
    let config = CallConfig {
        address: address.to_owned(),
        method: method.to_owned(),
        patience: PATIENCE,
        ping_every: PATIENCE,
        ping_patience: PATIENCE,
    };
    Call::new(config).expect("a call")
}

/// Waits on the descriptor, as an event loop would.
fn wait(call: &Call, until: Instant) {
    let left = until.saturating_duration_since(Instant::now());
    assert!(!left.is_zero(), "nothing came");
    // SAFETY: the descriptor is open as long as the call.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(call.fileno()) };
    assert_eq!(fd.as_raw_fd(), call.fileno());
    let mut polled = [rustix::event::PollFd::new(
        &fd,
        rustix::event::PollFlags::IN,
    )];
    let limit = rustix::event::Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: 0,
    };
    rustix::event::poll(&mut polled, Some(&limit)).expect("poll");
}

pub(crate) fn read(call: &Call, count: usize) -> Vec<Bytes> {
    let (until, mut messages) = (Instant::now() + PATIENCE, Vec::new());
    while messages.len() < count {
        messages.append(&mut call.take());
        if messages.len() < count {
            wait(call, until);
        }
    }
    messages
}

pub(crate) fn end(call: &Call) -> Status {
    let until = Instant::now() + PATIENCE;
    loop {
        assert_eq!(call.take(), Vec::<Bytes>::new());
        if let Some(status) = call.status() {
            return status;
        }
        wait(call, until);
    }
}
