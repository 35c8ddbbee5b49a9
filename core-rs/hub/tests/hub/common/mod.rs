//! A small cluster in one process: a hub, real nodes over real sockets, and roles that are closures.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

mod client;
pub mod flows;

pub use client::Client;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use omniflow_hub::{Hub, HubConfig};
use omniflow_node::{ActivationHandle, Node, NodeConfig, NodeError};
use omniflow_wire::v1;
use prost::Message;
use tempfile::TempDir;

/// How long a test waits for something that must come.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn text(value: &str) -> Bytes {
    let kind = Some(v1::value::Kind::Text(value.to_owned()));
    v1::Value { kind }.encode_to_vec().into()
}

pub fn read_text(frame: &[u8]) -> String {
    match v1::Value::decode(frame).unwrap().kind {
        Some(v1::value::Kind::Text(text)) => text,
        other => panic!("no text: {other:?}"),
    }
}

pub fn truth(value: bool) -> Bytes {
    let kind = Some(v1::value::Kind::Boolean(value));
    v1::Value { kind }.encode_to_vec().into()
}

pub fn read_list(frame: &[u8]) -> Vec<String> {
    match v1::Value::decode(frame).unwrap().kind {
        Some(v1::value::Kind::List(list)) => {
            let items = list.items.iter();
            items.map(|item| read_text(&item.encode_to_vec())).collect()
        }
        other => panic!("no list: {other:?}"),
    }
}

fn text_type(stream: bool) -> Option<v1::Type> {
    Some(v1::Type {
        kind: v1::Kind::Text.into(),
        stream,
        ..Default::default()
    })
}

fn port(name: &str, stream: bool) -> v1::Port {
    v1::Port {
        name: name.to_owned(),
        r#type: text_type(stream),
        parameter: name.to_owned(),
        ..Default::default()
    }
}

fn end(place: v1::end::Place, node: u32) -> Option<v1::End> {
    Some(v1::End {
        place: place.into(),
        node,
        port: 0,
    })
}

fn node(role: &str, stream_out: bool) -> v1::Node {
    v1::Node {
        name: format!("{role}.run"),
        role: role.to_owned(),
        method: "run".to_owned(),
        inputs: vec![port("input", false)],
        outputs: vec![port("output", stream_out)],
        trigger: vec![v1::Alternative { ports: vec![0] }],
        ..Default::default()
    }
}

/// `question` → `read` → `speak` → `words`, a stream.
pub fn flow() -> v1::Flow {
    use v1::end::Place::{Input, Node, Result};
    let edge = |from, to, stream| v1::Edge {
        from,
        to,
        r#type: text_type(stream),
    };
    v1::Flow {
        name: "speak".to_owned(),
        inputs: vec![port("question", false)],
        nodes: vec![node("read", false), node("speak", true)],
        edges: vec![
            edge(end(Input, 0), end(Node, 0), false),
            edge(end(Node, 0), end(Node, 1), false),
            edge(end(Node, 1), end(Result, 0), true),
        ],
        results: vec![port("words", true)],
        ..Default::default()
    }
}

pub fn request() -> v1::SubmitRequest {
    let input = v1::Input {
        name: "question".to_owned(),
        frames: vec![text("how are you")],
    };
    v1::SubmitRequest {
        flow: "speak".to_owned(),
        inputs: vec![input],
        ..Default::default()
    }
}

/// What `read` and `speak` do when nothing goes wrong. A job that is refused has perhaps begun, and is cancelled then.
pub fn work(activation: &ActivationHandle) {
    match try_to_work(activation) {
        Ok(()) | Err(NodeError::Cancelled { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

fn try_to_work(activation: &ActivationHandle) -> Result<(), NodeError> {
    let input = activation.activation().value("input")?.unwrap();
    let input = read_text(&input);
    match activation.activation().role() {
        "read" => {
            activation.emit("output", vec![text(&input.to_uppercase())])?;
        }
        _ => {
            for word in input.split(' ') {
                activation.emit("output", vec![text(word)])?;
            }
        }
    }
    activation.finish(BTreeMap::from([("letters".to_owned(), input.len() as f64)]))
}

/// Between two looks at something that no event tells of.
pub fn breathe() {
    thread::park_timeout(Duration::from_millis(1));
}

/// A role that never answers.
pub fn hang(activation: &ActivationHandle) {
    while !activation.activation().cancelled() {
        breathe();
    }
}

pub struct Worker {
    pub node: Arc<Node>,
    pub info: v1::WorkerInfo,
}

impl Worker {
    /// Dies: its links close, and nobody listens at its addresses any more.
    pub fn kill(&self) {
        self.node.close();
    }

    /// Of all its streams.
    pub fn frames_out(&self) -> usize {
        let stats = self.node.stats();
        let found = stats.iter().find(|(name, _)| *name == "frames_out");
        found.unwrap().1 as usize
    }
}

pub struct Cluster {
    pub hub: Arc<Hub>,
    folder: TempDir,
    incarnations: AtomicU32,
    /// They live as long as the cluster.
    nodes: Mutex<Vec<Arc<Node>>>,
}

pub fn config() -> HubConfig {
    HubConfig {
        reconnect: Duration::from_millis(300),
        ..HubConfig::new("test", 7)
    }
}

impl Cluster {
    pub fn new(config: HubConfig) -> Self {
        let cluster = Self::without_flows(config);
        cluster.hub.put_flow(&flow().encode_to_vec()).unwrap();
        cluster
    }

    pub fn without_flows(config: HubConfig) -> Self {
        Self {
            hub: Arc::new(Hub::new(config).unwrap()),
            folder: tempfile::tempdir().unwrap(),
            incarnations: AtomicU32::new(0),
            nodes: Mutex::default(),
        }
    }

    pub fn address(&self, name: &str) -> String {
        let incarnation = self.incarnations.fetch_add(1, Ordering::Relaxed);
        format!(
            "unix:{}",
            self.folder
                .path()
                .join(format!("{name}-{incarnation}"))
                .display()
        )
    }

    pub fn info(&self, name: &str, roles: &[&str], addresses: Vec<String>) -> v1::WorkerInfo {
        let method = v1::MethodInfo {
            name: "run".to_owned(),
            parameters: vec![v1::Parameter {
                name: "loudness".to_owned(),
                r#type: Some(v1::Type {
                    kind: v1::Kind::Real.into(),
                    ..Default::default()
                }),
                default: None,
            }],
            ..Default::default()
        };
        let role = |role: &&str| v1::RoleInfo {
            name: (*role).to_owned(),
            methods: vec![method.clone()],
            ..Default::default()
        };
        v1::WorkerInfo {
            name: name.to_owned(),
            incarnation: format!("{}", self.incarnations.fetch_add(1, Ordering::Relaxed)),
            roles: roles.iter().map(role).collect(),
            addresses,
            ..Default::default()
        }
    }

    /// A worker whose roles do `work`, one activation after the other and role.
    pub fn worker(
        &self,
        name: &str,
        roles: &[&str],
        work: impl Fn(ActivationHandle) + Send + Sync + 'static,
    ) -> Worker {
        let address = self.address(name);
        let mut info = self.info(name, roles, vec![address.clone()]);
        let config = NodeConfig {
            retention_bytes: 1 << 20,
            ..NodeConfig::new("test")
        };
        let node = Arc::new(Node::new(&info, &[address.parse().unwrap()], &config).unwrap());
        info.addresses = node.addresses().to_vec();
        let work = Arc::new(work);
        for role in roles {
            let (ready, work) = (node.ready(role).unwrap(), work.clone());
            thread::spawn(move || {
                while let Ok(taken) = ready.take(1, Duration::from_secs(60)) {
                    taken.into_iter().for_each(|activation| work(activation));
                }
            });
        }
        self.hub.worker_seen(&info.encode_to_vec()).unwrap();
        self.nodes.lock().unwrap().push(node.clone());
        Worker { node, info }
    }

    pub fn status(&self) -> v1::ClusterStatus {
        v1::ClusterStatus::decode(&self.hub.cluster_status()[..]).unwrap()
    }

    pub fn job(&self, job: &str) -> v1::JobStatus {
        v1::JobStatus::decode(&self.hub.job_status(job).unwrap()[..]).unwrap()
    }

    /// Waits until the cluster looks as it should.
    pub fn until(&self, what: &str, holds: impl Fn(&v1::ClusterStatus) -> bool) {
        let started = Instant::now();
        while !holds(&self.status()) {
            assert!(started.elapsed() < PATIENCE, "{what}: {:?}", self.status());
            breathe();
        }
    }

    pub fn until_ready(&self, workers: usize) {
        let ready = |worker: &&v1::WorkerStatus| worker.state() == v1::worker_status::State::Ready;
        self.until("workers are ready", |status| {
            status.workers.iter().filter(ready).count() == workers
        });
    }

    pub fn client(&self) -> Client {
        Client::open(self.hub.clone())
    }

    /// A client whose usual job is under way.
    pub fn submitted(&self) -> Client {
        let mut client = self.client();
        client.submit(request());
        client.accepted();
        client
    }

    /// What must hold when every job has ended.
    pub fn assert_clean(&self) {
        self.hub.check().unwrap();
        let status = self.status();
        assert_eq!((status.jobs_running, status.jobs_waiting), (0, 0));
        assert!(
            status.workers.iter().all(|worker| worker.outstanding == 0),
            "{status:?}"
        );
    }
}

/// Workers leave before the hub does: one whose goodbye nobody hears waits for a second.
impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes
            .lock()
            .unwrap()
            .iter()
            .for_each(|node| node.close());
    }
}

/// What a worker says that counts.
pub fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

pub fn words(frames: &[v1::ResultFrame]) -> Vec<String> {
    let frames = frames.iter().filter(|frame| frame.mark() == v1::Mark::None);
    frames.map(|frame| read_text(&frame.payload)).collect()
}

/// What `words` yields for the usual request.
pub const ANSWER: [&str; 3] = ["HOW", "ARE", "YOU"];

/// A cluster with a worker for each role.
pub fn served(config: HubConfig) -> Cluster {
    let cluster = Cluster::new(config);
    cluster.worker("reader", &["read"], |activation| work(&activation));
    cluster.worker("speaker", &["speak"], |activation| work(&activation));
    cluster.until_ready(2);
    cluster
}

/// A cluster whose `speak` hangs until it is cancelled; each start and each cancel is told.
pub fn hanging(config: HubConfig) -> (Cluster, Receiver<&'static str>) {
    let (cluster, _, news) = doomed(config);
    (cluster, news)
}

/// The same, with the worker of that `speak`.
pub fn doomed(config: HubConfig) -> (Cluster, Worker, Receiver<&'static str>) {
    let cluster = Cluster::new(config);
    let (told, news) = channel();
    cluster.worker("reader", &["read"], |activation| work(&activation));
    let doomed = cluster.worker("doomed", &["speak"], move |activation| {
        told.send("started").unwrap();
        hang(&activation);
        let _ = told.send("cancelled");
    });
    cluster.until_ready(2);
    (cluster, doomed, news)
}

/// Waits for a role to tell that.
pub fn wait_for(news: &Receiver<&'static str>, what: &str) {
    assert_eq!(news.recv_timeout(PATIENCE).unwrap(), what);
}
