//! A fake scheduler, workers and a link that can be cut, over real sockets.

#![allow(dead_code)] // The example of hops uses a part.
#![allow(clippy::expect_used)] // A failed step of a test is its end.

mod flows;

pub use flows::chain;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use omniflow_link::{
    Address, Endpoint, LinkConfig, LinkReader, LinkSender, Listener, Message, Received,
};
use omniflow_node::{ActivationHandle, Node, NodeConfig, Ready};
use omniflow_wire::v1;
use omniflow_wire::{Frame, LinkMessage};
use tempfile::TempDir;

pub const PATIENCE: Duration = Duration::from_secs(10);

/// A worker that serves the roles `a`, `b` and `c`.
pub struct Worker {
    pub node: Arc<Node>,
    pub peer: v1::Peer,
    pub folder: TempDir,
}

pub fn worker(id: u32, retention_bytes: usize) -> Worker {
    worker_with(id, |_, config| config.retention_bytes = retention_bytes)
}

/// A worker whose configuration the test changes, given the worker's own folder.
pub fn worker_with(id: u32, change: impl FnOnce(&Path, &mut NodeConfig)) -> Worker {
    let folder = tempfile::tempdir().expect("folder");
    let info = v1::WorkerInfo {
        name: format!("w{id}"),
        incarnation: "first".into(),
        host: "here".into(),
        roles: ["a", "b", "c"]
            .map(|name| v1::RoleInfo {
                name: name.into(),
                ..Default::default()
            })
            .to_vec(),
        ..Default::default()
    };
    let listen = [
        Address::Unix(folder.path().join("link.sock")),
        "tcp:127.0.0.1:0".parse().expect("an address"),
    ];
    let mut config = NodeConfig {
        heartbeat_limit: PATIENCE,
        ..NodeConfig::new("test")
    };
    change(folder.path(), &mut config);
    let node = Node::new(&info, &listen, &config).expect("starts");
    let peer = v1::Peer {
        id,
        name: info.name,
        incarnation: info.incarnation,
        addresses: node.addresses().to_vec(),
        host: "here".into(),
    };
    Worker {
        node: Arc::new(node),
        peer,
        folder,
    }
}

impl Worker {
    pub fn ready(&self, role: &str) -> Ready {
        self.node.ready(role).expect("the role exists")
    }

    pub fn stat(&self, name: &str) -> u64 {
        let stats = self.node.stats();
        stats
            .iter()
            .find(|(known, _)| *known == name)
            .expect("known")
            .1
    }

    /// The next activation of a role.
    pub async fn take(&self, role: &str) -> Arc<ActivationHandle> {
        let ready = self.ready(role);
        let taken = blocking(move || ready.take(1, PATIENCE)).await;
        let mut taken = taken.expect("open");
        Arc::new(taken.pop().expect("an activation comes"))
    }

    /// What an echoing role does: one value in, the same value out.
    pub async fn echo(&self, role: &str) {
        let activation = self.take(role).await;
        let value = activation.activation().value("text").expect("plain");
        activation
            .emit("text", vec![value.expect("required")])
            .expect("taken");
        activation.finish([].into()).expect("finished");
    }
}

pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}

/// The next frames of a stream input.
pub async fn read(
    activation: &Arc<ActivationHandle>,
    max_n: usize,
) -> Result<Option<Vec<Bytes>>, omniflow_node::NodeError> {
    let activation = Arc::clone(activation);
    blocking(move || activation.read("text", max_n, PATIENCE)).await
}

/// The scheduler's side of one link.
pub struct Scheduler {
    pub link: LinkSender,
    reader: LinkReader,
    waiting: Vec<Received>,
    pub heard: Vec<LinkMessage>,
    pub term: u64,
}

impl Scheduler {
    /// Dials the worker; the answer to the Hello is left in `heard`.
    pub async fn dial(worker: &Worker, term: u64) -> Self {
        Self::say_hello(worker, term, "test").await
    }

    pub async fn say_hello(worker: &Worker, term: u64, cluster: &str) -> Self {
        let addresses: Vec<Address> = worker
            .peer
            .addresses
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect();
        let endpoint = Endpoint::new(LinkConfig::default());
        let dialled = endpoint.dial(&addresses, PATIENCE).await;
        let (link, reader) = dialled.expect("reachable");
        let scheduler = Self {
            link,
            reader,
            waiting: Vec::new(),
            heard: Vec::new(),
            term,
        };
        scheduler.send(v1::Hello {
            protocol: omniflow_wire::PROTOCOL,
            cluster: cluster.into(),
            from: "scheduler".into(),
            to: worker.peer.name.clone(),
            to_incarnation: worker.peer.incarnation.clone(),
            term,
            ..Default::default()
        });
        scheduler
    }

    /// Dials, and says who there is and what flow 1 is.
    pub async fn lead(worker: &Worker, peers: &[&v1::Peer], flow: v1::Flow) -> Self {
        let mut scheduler = Self::dial(worker, 1).await;
        scheduler.welcome().await;
        scheduler.introduce(peers, flow);
        scheduler
    }

    pub fn introduce(&self, peers: &[&v1::Peer], flow: v1::Flow) {
        let peers = peers.iter().map(|&peer| peer.clone()).collect();
        self.send(v1::Peers {
            term: self.term,
            peers,
        });
        self.send(v1::FlowDefinition {
            term: self.term,
            id: 1,
            flow: Some(flow),
        });
    }

    pub async fn welcome(&mut self) -> v1::Welcome {
        self.hear(|message| match message {
            LinkMessage::Welcome(welcome) => Some(welcome.clone()),
            _ => None,
        })
        .await
    }

    pub fn send(&self, message: impl Into<LinkMessage>) {
        let (kind, head, body) = message.into().encode();
        let message = Message {
            kind,
            stream: 0,
            head,
            body,
        };
        self.link.send(message).expect("sent");
    }

    pub fn bind(&self, job: u64, binds: &[(u32, u32, u32)]) {
        let bind = |&(node, worker, epoch): &(u32, u32, u32)| v1::Bind {
            node,
            worker,
            epoch,
            key: Vec::new(),
        };
        self.send(v1::BindJob {
            term: self.term,
            job,
            flow: 1,
            remaining_ms: 60_000,
            seed: 7,
            tenant: "anna".into(),
            binds: binds.iter().map(bind).collect(),
            ..Default::default()
        });
    }

    pub fn input(&self, job: u64, payload: impl Into<Bytes>) {
        self.send(Frame {
            header: v1::FrameHeader {
                job,
                term: self.term,
                ..Default::default()
            },
            payload: payload.into(),
        });
    }

    pub fn release(&self, job: u64) {
        self.send(v1::ReleaseJobs {
            term: self.term,
            jobs: vec![job],
            reason: None,
        });
    }

    /// The first message, of those that came and will come, that the test looks for. It is taken out of `heard`.
    pub async fn hear<T>(&mut self, wanted: impl Fn(&LinkMessage) -> Option<T>) -> T {
        loop {
            let found = self
                .heard
                .iter()
                .enumerate()
                .find_map(|(at, message)| Some((at, wanted(message)?)));
            if let Some((at, found)) = found {
                self.heard.remove(at);
                return found;
            }
            assert!(self.listen().await, "the link ended: {:?}", self.heard);
        }
    }

    /// Appends what comes next to `heard`; false at the link's end.
    pub async fn listen(&mut self) -> bool {
        let reading = self.reader.read(&mut self.waiting);
        let more = tokio::time::timeout(PATIENCE, reading).await;
        let more = more.unwrap_or_else(|_| panic!("silence; heard {:?}", self.heard));
        for received in self.waiting.drain(..) {
            let message = LinkMessage::decode(received.kind, received.body);
            self.heard.push(message.expect("well formed"));
        }
        matches!(more, Ok(true))
    }

    /// The next frame, of a result.
    pub async fn frame(&mut self) -> Frame {
        self.hear(|message| match message {
            LinkMessage::Frame(frame) => Some(frame.clone()),
            _ => None,
        })
        .await
    }

    /// The next error that an attempt failed with.
    pub async fn failure(&mut self) -> v1::Error {
        self.hear(|message| match message {
            LinkMessage::Events(events) => {
                events.events.iter().find_map(|event| event.error.clone())
            }
            _ => None,
        })
        .await
    }

    /// Waits until the state was reported for a node.
    pub async fn state(&mut self, node: u32, state: v1::node_progress::State) {
        loop {
            let came = self.heard.iter().any(|message| match message {
                LinkMessage::Events(events) => events
                    .events
                    .iter()
                    .any(|event| event.node == node && event.state == i32::from(state)),
                _ => false,
            });
            if came {
                return;
            }
            assert!(self.listen().await, "the link ended: {:?}", self.heard);
        }
    }
}

/// A way to a worker that can be cut and comes back at once.
pub struct Bridge {
    cut: tokio::sync::broadcast::Sender<()>,
    pub address: String,
    _folder: TempDir,
}

impl Bridge {
    pub async fn to(worker: &Worker) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("bridge.sock");
        let target = worker.folder.path().join("link.sock");
        let listener = tokio::net::UnixListener::bind(&path).expect("binds");
        let (cut, _) = tokio::sync::broadcast::channel(4);
        let cuts = cut.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut cut = cuts.subscribe();
                let mut far = tokio::net::UnixStream::connect(&target)
                    .await
                    .expect("reachable");
                tokio::spawn(async move {
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = cut.recv() => {}
                    }
                });
            }
        });
        Self {
            cut,
            address: format!("unix:{}", path.display()),
            _folder: folder,
        }
    }

    pub fn cut(&self) {
        self.cut.send(()).expect("a link goes over it");
    }
}

/// Listens where a peer is said to be, and says nothing.
pub async fn deaf(folder: &TempDir) -> (Listener, String) {
    let address = Address::Unix(folder.path().join("deaf.sock"));
    let endpoint = Endpoint::new(LinkConfig::default());
    let listener = endpoint.bind(&address).await.expect("binds");
    (listener, address.to_string())
}
