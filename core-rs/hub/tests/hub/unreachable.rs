//! A worker that another one cannot reach: nothing fails before it is known whether it lives.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::common::{Cluster, config, work};
use omniflow_hub::HubConfig;
use omniflow_link::{Address, Endpoint, LinkConfig, LinkSender, Message};
use omniflow_wire::v1::{ErrorCode, worker_status};
use omniflow_wire::{LinkMessage, PROTOCOL, v1};
use prost::Message as _;

/// A worker that greets the scheduler and is then as the test wants it: it tells what it hears, and may answer pings.
struct Puppet {
    link: LinkSender,
    heard: Receiver<LinkMessage>,
}

impl Puppet {
    fn new(cluster: &Cluster, name: &str, role: &str, answers: bool) -> Self {
        let address = cluster.address(name);
        let info = cluster.info(name, &[role], vec![address.clone()]);
        let (born, birth) = channel();
        let (tell, heard) = channel();
        let incarnation = info.incarnation.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let address: Address = address.parse().unwrap();
            runtime.block_on(live(&address, incarnation, answers, &born, &tell));
        });
        // It listens from the first dial on at the latest: the hub dials until somebody answers.
        cluster.hub.worker_seen(&info.encode_to_vec()).unwrap();
        let link = birth.recv_timeout(Duration::from_secs(10)).unwrap();
        Self { link, heard }
    }

    fn say(&self, message: impl Into<LinkMessage>) {
        self.link.send(packed(&message.into())).unwrap();
    }

    /// The scheduler's number for a worker, once it has introduced it.
    fn number_of(&self, name: &str) -> u32 {
        loop {
            let heard = self.heard.recv_timeout(Duration::from_secs(10)).unwrap();
            if let LinkMessage::Peers(peers) = heard
                && let Some(peer) = peers.peers.iter().find(|peer| peer.name == name)
            {
                return peer.id;
            }
        }
    }
}

async fn live(
    address: &Address,
    incarnation: String,
    answers: bool,
    born: &Sender<LinkSender>,
    tell: &Sender<LinkMessage>,
) {
    let endpoint = Endpoint::new(LinkConfig::default());
    let listener = endpoint.bind(address).await.unwrap();
    let (link, mut reader) = listener.accept().await.unwrap();
    let mut received = Vec::new();
    reader.read(&mut received).await.unwrap();
    received.clear();
    let welcome = v1::Welcome {
        protocol: PROTOCOL,
        incarnation,
        ..Default::default()
    };
    link.send(packed(&welcome.into())).unwrap();
    born.send(link.clone()).unwrap();
    if !answers {
        // As good as stopped: not even its link says a word any more.
        return std::future::pending().await;
    }
    while reader.read(&mut received).await.unwrap_or(false) {
        for message in received.drain(..) {
            match LinkMessage::decode(message.kind, message.body).unwrap() {
                LinkMessage::Ping(ping) => {
                    let pong = v1::Pong { nonce: ping.nonce };
                    let _ = link.send(packed(&pong.into()));
                }
                heard => {
                    let _ = tell.send(heard);
                }
            }
        }
    }
}

fn packed(message: &LinkMessage) -> Message {
    let (kind, head, body) = message.encode();
    Message {
        kind,
        stream: 0,
        head,
        body,
    }
}

fn report(worker: u32) -> v1::PeerUnreachable {
    let cause = "connection refused".to_owned();
    v1::PeerUnreachable { worker, cause }
}

#[test]
fn a_job_between_two_living_workers_that_cannot_meet_fails_and_names_them() {
    let cluster = Cluster::new(config());
    let reader = Puppet::new(&cluster, "reader", "read", true);
    let _speaker = Puppet::new(&cluster, "speaker", "speak", true);
    cluster.until_ready(2);
    let mut client = cluster.submitted();
    reader.say(report(reader.number_of("speaker")));
    let error = client.failure();
    assert_eq!(
        (error.code(), &*error.worker, &*error.cause),
        (ErrorCode::Unavailable, "speaker", "connection refused")
    );
    assert!(error.message.contains("reader") && !error.cure.is_empty());
    cluster.assert_clean();
}

#[test]
fn a_job_whose_consumer_is_unreachable_because_it_is_dying_goes_on_elsewhere() {
    let config = HubConfig {
        heartbeat: Duration::from_millis(50),
        heartbeat_limit: Duration::from_secs(1),
        ..config()
    };
    let cluster = Cluster::new(config);
    let reader = Puppet::new(&cluster, "reader", "read", true);
    let _dying = Puppet::new(&cluster, "dying", "speak", false);
    cluster.until_ready(2);
    let mut client = cluster.submitted();
    reader.say(report(reader.number_of("dying")));
    cluster.until("it is lost", |status| {
        let mut states = status.workers.iter().map(v1::WorkerStatus::state);
        states.any(|state| state == worker_status::State::Lost)
    });
    reader.link.abort();
    cluster.worker("heir", &["read", "speak"], |activation| work(&activation));
    assert_eq!(client.rest().1.error, None);
    cluster.assert_clean();
}
