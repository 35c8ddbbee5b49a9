//! Connections that break under a job: the links go on, and nobody is taken for dead.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::io::copy;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{Cluster, config, read_text, request, text, words, work};
use omniflow_hub::HubConfig;
use omniflow_node::{ActivationHandle, Node, NodeConfig};
use omniflow_wire::v1::job_event::Event;
use prost::Message as _;

/// Longer than any pause of a loaded machine.
const PATIENT: Duration = Duration::from_secs(60);

/// Stands in front of a worker; its connections can be cut.
#[derive(Clone)]
struct Bridge(Arc<Mutex<Vec<UnixStream>>>);

impl Bridge {
    fn new(at: &str, target: &str) -> Self {
        let path = |address: &str| PathBuf::from(address.strip_prefix("unix:").unwrap());
        let (listener, target) = (UnixListener::bind(path(at)).unwrap(), path(target));
        let bridge = Self(Arc::default());
        let ends = bridge.0.clone();
        thread::spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                let Ok(far) = UnixStream::connect(&target) else {
                    continue;
                };
                let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                ends.lock()
                    .unwrap()
                    .extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                for (from, to) in [(near, far), (far_too, near_too)] {
                    thread::spawn(move || {
                        let _ = copy(&mut &from, &mut &to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        bridge
    }

    fn cut(&self) {
        for end in self.0.lock().unwrap().drain(..) {
            // The other side may have closed it.
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

/// A worker that others reach over a bridge only.
fn worker(
    cluster: &Cluster,
    role: &str,
    work: impl Fn(ActivationHandle) + Send + 'static,
) -> (Arc<Node>, Bridge) {
    let (own, front) = (cluster.address(role), cluster.address("bridge"));
    let info = cluster.info(role, &[role], vec![front.clone()]);
    let config = NodeConfig {
        reconnect: PATIENT,
        ..NodeConfig::new("test")
    };
    let node = Arc::new(Node::new(&info, &[own.parse().unwrap()], &config).unwrap());
    let bridge = Bridge::new(&front, &own);
    let ready = node.ready(role).unwrap();
    thread::spawn(move || {
        while let Ok(taken) = ready.take(1, Duration::from_secs(60)) {
            taken.into_iter().for_each(&work);
        }
    });
    cluster.hub.worker_seen(&info.encode_to_vec()).unwrap();
    (node, bridge)
}

#[test]
fn rule_13_connections_that_break_under_a_job_cost_it_a_pause_and_no_attempt() {
    let cluster = Cluster::new(HubConfig {
        reconnect: PATIENT,
        ..config()
    });
    let (go_on, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let (reader, before_reader) = worker(&cluster, "read", |activation| work(&activation));
    let (speaker, before_speaker) = worker(&cluster, "speak", move |activation| {
        let input = activation.activation().value("input").unwrap().unwrap();
        for word in read_text(&input).split(' ') {
            gate.lock().unwrap().recv().unwrap();
            activation.emit("output", vec![text(word)]).unwrap();
        }
        activation.finish([].into()).unwrap();
    });
    cluster.until_ready(2);
    let mut client = cluster.client();
    for job in 0..3 {
        client.submit(request());
        client.accepted();
        let mut frames = Vec::new();
        for _ in 0..3 {
            // Wherever the job is by now: its inputs, its frames, its events and its results are on these.
            before_reader.cut();
            before_speaker.cut();
            go_on.send(()).unwrap();
            frames.push(loop {
                if let Event::Frame(frame) = client.next() {
                    break frame;
                }
            });
        }
        let (others, end) = client.rest();
        frames.extend(others);
        assert_eq!(end.error, None, "job {job}");
        assert_eq!(words(&frames).join(" "), "HOW ARE YOU", "job {job}");
        let attempts = end.report.unwrap().activations;
        assert!(attempts.iter().all(|a| a.attempt == 1), "{attempts:?}");
    }
    cluster.assert_clean();
    reader.close();
    speaker.close();
}
