//! What the tests over real sockets share.

#![allow(dead_code, clippy::expect_used)] // Each test binary uses a part; a failed step of a test is its end.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use omniflow_link::{
    Address, Endpoint, LinkConfig, LinkError, LinkReader, LinkSender, Listener, Message, Received,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub const PATIENCE: Duration = Duration::from_secs(20);

/// Bounds with which nothing is given up while a test runs.
pub fn patient() -> LinkConfig {
    LinkConfig {
        heartbeat_limit: Duration::from_secs(60),
        resume_within: Duration::from_secs(60),
        ..LinkConfig::default()
    }
}

pub fn message(stream: u32, body: impl Into<Bytes>) -> Message {
    Message {
        kind: 7,
        stream,
        head: Bytes::from_static(b"head"),
        body: body.into(),
    }
}

pub fn unix(folder: &tempfile::TempDir) -> Address {
    Address::Unix(folder.path().join("link.sock"))
}

pub fn tcp() -> Address {
    Address::Tcp {
        host: "127.0.0.1".to_owned(),
        port: 0,
    }
}

pub type Ends = (LinkSender, Ear);

/// A link to a listener, by any way.
pub async fn link(dialler: &Endpoint, way: &Address, listener: &Listener) -> (Ends, Ends) {
    let dialled = dialler.dial(std::slice::from_ref(way), PATIENCE);
    let (dialled, accepted) = tokio::join!(dialled, listener.accept());
    let [one, two] = [dialled.expect("reachable"), accepted.expect("accepted")]
        .map(|(sender, reader)| (sender, Ear::new(reader)));
    (one, two)
}

/// What a link brings. It is read for as long as it lasts, as every link has to be.
pub struct Ear {
    heard: mpsc::UnboundedReceiver<Received>,
    task: JoinHandle<Result<(), LinkError>>,
}

impl Ear {
    pub fn new(mut reader: LinkReader) -> Self {
        let (tell, heard) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut got = Vec::new();
            while reader.read(&mut got).await? {
                for message in got.drain(..) {
                    // The test may have heard enough.
                    let _ = tell.send(message);
                }
            }
            Ok(())
        });
        Self { heard, task }
    }

    pub async fn next(&mut self) -> Received {
        let next = timeout(PATIENCE, self.heard.recv())
            .await
            .expect("a message comes");
        next.expect("the link goes on")
    }

    pub async fn take(&mut self, count: usize) -> Vec<Received> {
        let mut got = Vec::new();
        while got.len() < count {
            got.push(self.next().await);
        }
        got
    }

    /// How the link ends.
    pub async fn end(self) -> Result<(), LinkError> {
        let ended = timeout(PATIENCE, self.task).await.expect("the link ends");
        ended.expect("no panic")
    }
}

/// Stands between a dialler and a listener; what goes over it can be cut at any byte, and for as long as a test wants.
pub struct Wire {
    pub address: Address,
    cuts: watch::Sender<u64>,
    open: watch::Sender<bool>,
    _folder: tempfile::TempDir,
}

impl Wire {
    /// To the Unix socket at `target`. Of each connection's bytes, at most as many go through as `budgets` says next; the
    /// connections after those are not limited.
    pub fn new(target: PathBuf, budgets: Vec<usize>) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("wire.sock");
        let listener = UnixListener::bind(&path).expect("binds");
        let (cuts, seen) = watch::channel(0);
        let (open, opened) = watch::channel(true);
        tokio::spawn(async move {
            let mut budgets = budgets.into_iter();
            while let Ok((near, _)) = listener.accept().await {
                let budget = budgets.next().unwrap_or(usize::MAX);
                let mut seen = seen.clone();
                seen.mark_unchanged();
                let mut opened = opened.clone();
                let target = target.clone();
                tokio::spawn(async move {
                    opened
                        .wait_for(|open| *open)
                        .await
                        .expect("the test goes on");
                    let Ok(far) = UnixStream::connect(&target).await else {
                        return;
                    };
                    tokio::select! {
                        () = forward(near, far, budget) => {}
                        _ = seen.changed() => {}
                    }
                });
            }
        });
        Self {
            address: Address::Unix(path),
            cuts,
            open,
            _folder: folder,
        }
    }

    /// Breaks every connection; new ones go through.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Breaks every connection; new ones get no answer until `mend`.
    pub fn block(&self) {
        self.open.send_replace(false);
        self.cut();
    }

    pub fn mend(&self) {
        self.open.send_replace(true);
    }
}

/// Ends both directions when one has used its budget up.
async fn forward(near: UnixStream, far: UnixStream, budget: usize) {
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    tokio::select! {
        () = copy(near_read, far_write, budget) => {}
        () = copy(far_read, near_write, budget) => {}
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut budget: usize) {
    let mut buffer = vec![0; 64 * 1024];
    while budget > 0 {
        let room = buffer.len().min(budget);
        let Ok(read @ 1..) = from.read(&mut buffer[..room]).await else {
            return;
        };
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
        budget -= read;
    }
}
