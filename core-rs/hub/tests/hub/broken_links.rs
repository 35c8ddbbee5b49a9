//! Connections that break under a job: the links go on, and nobody is taken for dead.

use std::io::copy;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::flows::{act, rounds};
use crate::common::{Cluster, config, read_text, request, text, words, work};
use omniflow_hub::HubConfig;
use omniflow_node::{ActivationHandle, Node, NodeConfig};
use omniflow_wire::v1::job_event::Event;
use prost::Message as _;

/// Longer than any pause of a loaded machine.
const PATIENT: Duration = Duration::from_secs(60);

/// Stands in front of a worker; its connections can be cut.
#[derive(Clone)]
struct Bridge {
    ends: Arc<Mutex<Vec<UnixStream>>>,
    closed: Arc<AtomicBool>,
}

impl Bridge {
    fn new(at: &str, target: &str) -> Self {
        let path = |address: &str| PathBuf::from(address.strip_prefix("unix:").unwrap());
        let (listener, target) = (UnixListener::bind(path(at)).unwrap(), path(target));
        let bridge = Self {
            ends: Arc::default(),
            closed: Arc::default(),
        };
        let (ends, closed) = (bridge.ends.clone(), bridge.closed.clone());
        thread::spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                if closed.load(Ordering::Relaxed) {
                    continue;
                }
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
        for end in self.ends.lock().unwrap().drain(..) {
            // The other side may have closed it.
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Lets nobody pass any more.
    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.cut();
    }

    fn open(&self) {
        self.closed.store(false, Ordering::Relaxed);
    }
}

/// A worker that others reach over a bridge only.
fn worker(
    cluster: &Cluster,
    role: &str,
    work: impl Fn(ActivationHandle) + Send + 'static,
) -> (Arc<Node>, Bridge) {
    named_worker(cluster, role, role, work)
}

fn named_worker(
    cluster: &Cluster,
    name: &str,
    role: &str,
    work: impl Fn(ActivationHandle) + Send + 'static,
) -> (Arc<Node>, Bridge) {
    let (own, front) = (cluster.address(name), cluster.address("bridge"));
    let info = cluster.info(name, &[role], vec![front.clone()]);
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

/// The worker is taken for dead, finishes its loop all the same, and is back while another one runs the loop again.
#[test]
fn rule_13_what_a_worker_ended_while_it_was_taken_for_dead_ends_nothing_of_the_next_attempt() {
    let cluster = Cluster::without_flows(config());
    cluster.hub.put_flow(&rounds(8).encode_to_vec()).unwrap();
    let ((tell_start, starts), (tell_end, ends)) = (channel(), channel());
    let workers = ["one", "two"].map(|name| {
        let (go_on, gate) = channel::<()>();
        let (tell_start, tell_end) = (tell_start.clone(), tell_end.clone());
        let (node, bridge) = named_worker(&cluster, name, "step", move |activation| {
            tell_start.send(name).unwrap();
            gate.recv().unwrap();
            act(&activation);
            tell_end.send(()).unwrap();
        });
        (name, go_on, node, bridge)
    });
    let ask = |rounds: &str| {
        let mut request = request();
        request.flow = "rounds".to_owned();
        request.inputs[0].frames = vec![text(rounds)];
        let mut client = cluster.client();
        client.submit(request);
        client.accepted();
        client
    };
    cluster.until_ready(2);
    let mut client = ask("3");
    let first = starts.recv_timeout(PATIENT).unwrap();
    let [mut lost, mut heir] = workers;
    if first != lost.0 {
        std::mem::swap(&mut lost, &mut heir);
    }

    lost.3.close();
    for _ in 0..3 {
        lost.1.send(()).unwrap();
        ends.recv_timeout(PATIENT).unwrap();
    }
    while starts.recv_timeout(PATIENT).unwrap() != heir.0 {}
    lost.3.open();
    cluster.until_ready(2);
    // Once it has done another job, all that it had to say of the first one is heard.
    lost.1.send(()).unwrap();
    let (frames, end) = ask("1").rest();
    assert_eq!(
        (words(&frames).join(" "), end.error),
        ("0".to_owned(), None)
    );

    for _ in 0..3 {
        heir.1.send(()).unwrap();
    }
    let (frames, end) = client.rest();
    assert_eq!(
        (words(&frames).join(" "), end.error),
        ("2 1 0".to_owned(), None)
    );
    cluster.assert_clean();
    lost.2.close();
    heir.2.close();
}
