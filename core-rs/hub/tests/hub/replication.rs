//! Rule 17 with a standby: real journals and a real link, in one process; the tests answer for etcd.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{
    ANSWER, Client, Cluster, PATIENCE, breathe, config, request, served, words, work,
};
use omniflow_hub::{
    Hub, HubConfig, JournalConfig, Mark, Marked, ReplicationConfig, Standby, StandbyConfig,
};
use omniflow_wire::v1;
use omniflow_wire::v1::client_message::Message as Request;
use omniflow_wire::v1::standby_status::State;
use tempfile::{TempDir, tempdir};

/// How long a leader waits for a silent standby: longer than a busy machine keeps one from its work, and short enough for a
/// goodbye that got lost.
const LIMIT: Duration = Duration::from_secs(8);

/// Folders of two journals, and a socket.
struct Place {
    leader: TempDir,
    standby: TempDir,
    sockets: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            leader: tempdir().unwrap(),
            standby: tempdir().unwrap(),
            sockets: tempdir().unwrap(),
        }
    }

    fn address(&self, term: u64) -> omniflow_link::Address {
        let socket = self.sockets.path().join(format!("{term}"));
        format!("unix:{}", socket.display()).parse().unwrap()
    }

    fn leading(&self, folder: &Path, term: u64) -> HubConfig {
        HubConfig {
            term,
            journal: Some(JournalConfig {
                segment_bytes: 2_000,
                ..JournalConfig::new(folder)
            }),
            replication: Some(ReplicationConfig {
                listen: self.address(term),
                limit: LIMIT,
            }),
            result_ttl_ms: 600_000,
            ..config()
        }
    }

    fn follower(&self, term: u64) -> Standby {
        let standby = Standby::new(StandbyConfig {
            cluster: "test".to_owned(),
            name: "scheduler-2".to_owned(),
            journal_id: "second".to_owned(),
            journal: JournalConfig::new(self.standby.path()),
            heartbeat: Duration::from_secs(1),
            heartbeat_limit: Duration::from_secs(20),
            limit: Duration::from_secs(20),
            tls: None,
        });
        let standby = standby.unwrap();
        standby.follow(term, self.address(term));
        standby
    }
}

/// An etcd that does what it is asked.
struct Etcd {
    over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Etcd {
    fn of(hub: &Arc<Hub>) -> Self {
        let (over, hub) = (Arc::new(AtomicBool::new(false)), hub.clone());
        let ends = over.clone();
        let answer = move || {
            while !ends.load(Ordering::Relaxed) {
                if let Some(mark) = hub.next_mark(Duration::from_millis(20)) {
                    hub.marked(mark.ticket, Marked::Done);
                }
            }
        };
        let thread = Some(thread::spawn(answer));
        Self { over, thread }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().map(thread::JoinHandle::join);
    }
}

fn until_standby(cluster: &Cluster, state: State) {
    cluster.until("the standby's state", |status| {
        let standby = status.standby.as_ref();
        standby.is_some_and(|standby| standby.state() == state)
    });
}

fn keyed(key: &str) -> v1::SubmitRequest {
    v1::SubmitRequest {
        idempotency_key: key.to_owned(),
        detach: true,
        ..request()
    }
}

fn run(client: &mut Client, key: &str) -> String {
    client.submit(keyed(key));
    let (job, _) = client.accepted();
    assert_eq!(words(&client.rest().0), ANSWER);
    job
}

fn next_mark(hub: &Hub) -> Mark {
    let started = Instant::now();
    loop {
        if let Some(mark) = hub.next_mark(Duration::from_millis(100)) {
            return mark;
        }
        assert!(started.elapsed() < 3 * PATIENCE, "etcd is asked nothing");
    }
}

#[test]
fn rule_17_what_a_client_heard_of_is_there_when_the_standby_leads() {
    let place = Place::new();
    let cluster = served(place.leading(place.leader.path(), 7));
    let mut client = cluster.client();
    // Before anybody follows, the leader is alone.
    let before = run(&mut client, "before");
    let etcd = Etcd::of(&cluster.hub);
    let standby = place.follower(7);
    until_standby(&cluster, State::InSync);
    let with = run(&mut client, "with");
    let hanging = cluster.worker("other", &["read"], |activation| {
        crate::common::hang(&activation)
    });
    client.submit(v1::SubmitRequest {
        detach: true,
        ..request()
    });
    let (open, _) = client.accepted();

    // The leader is cut off as by `kill -9`: nothing that it does reaches its standby any more.
    standby.close();
    drop(etcd);
    let next = Cluster::without_flows(place.leading(place.standby.path(), 8));
    let _etcd = Etcd::of(&next.hub);
    for key in ["before", "with"] {
        let mut client = next.client();
        client.submit(keyed(key));
        let (job, accepted) = client.accepted();
        assert!(accepted.existed);
        assert!([&before, &with].contains(&&job));
    }
    assert!(next.hub.job_status(&open).is_some());
    next.worker("reader-2", &["read"], |activation| work(&activation));
    next.worker("speaker-2", &["speak"], |activation| work(&activation));
    drop(hanging);
}

#[test]
fn rule_17_without_the_standby_nobody_is_told_before_etcd_knows_and_without_both_jobs_are_refused()
{
    let place = Place::new();
    let cluster = served(place.leading(place.leader.path(), 7));
    let standby = place.follower(7);
    let admit = next_mark(&cluster.hub);
    assert_eq!(admit.standby.as_deref(), Some("second"));
    cluster.hub.marked(admit.ticket, Marked::Done);
    until_standby(&cluster, State::InSync);
    let mut client = cluster.client();
    run(&mut client, "both");

    // It leaves: etcd has to know, and does not answer.
    standby.close();
    let remove = next_mark(&cluster.hub);
    assert_eq!(remove.standby, None);
    client.submit(keyed("waits"));
    let started = Instant::now();
    while cluster.status().jobs_running + cluster.status().jobs_waiting == 0
        && cluster.status().jobs_succeeded < 2
    {
        assert!(started.elapsed() < PATIENCE);
        breathe();
    }
    assert!(
        cluster.hub.take(client.number, 1 << 20).is_empty(),
        "told too early"
    );
    cluster.hub.marked(remove.ticket, Marked::Unknown);
    let waited = client.refused();
    client.submit(keyed("refused"));
    for error in [waited, client.refused()] {
        assert_eq!(error.code(), v1::ErrorCode::Unavailable);
        assert!(
            error.retry_after_ms > 0 && error.message.contains("etcd"),
            "{error:?}"
        );
    }
    let again = next_mark(&cluster.hub);
    assert_eq!(again.standby, None);
    cluster.hub.marked(again.ticket, Marked::Done);
    until_standby(&cluster, State::Away);
    run(&mut client, "alone");
    cluster.assert_clean();
}

#[test]
fn rule_17_a_returning_standby_loses_what_only_it_has_and_gets_what_it_lacks() {
    let place = Place::new();
    let cluster = served(place.leading(place.leader.path(), 7));
    let etcd = Etcd::of(&cluster.hub);
    let standby = place.follower(7);
    until_standby(&cluster, State::InSync);
    let mut client = cluster.client();
    let known = run(&mut client, "known");
    standby.close();
    until_standby(&cluster, State::Away);
    // Something else happens at the standby, which it tells nobody.
    {
        let other = served(HubConfig {
            term: 6,
            journal: Some(JournalConfig::new(place.standby.path())),
            ..config()
        });
        run(&mut other.client(), "lost");
    }
    // The leader goes on for several files, which it compacts.
    for number in 0..60 {
        run(&mut client, &format!("{number}"));
    }
    let standby = place.follower(7);
    until_standby(&cluster, State::InSync);
    let last = run(&mut client, "last");
    drop(etcd);
    standby.close();
    let next = Cluster::without_flows(place.leading(place.standby.path(), 8));
    assert!(next.hub.job_status(&known).is_some());
    assert!(next.hub.job_status(&last).is_some());
    let jobs = next
        .hub
        .list_jobs(&prost::Message::encode_to_vec(&v1::ListRequest {
            ended: true,
            limit: 1_000,
            ..Default::default()
        }));
    let jobs: v1::ListResponse = prost::Message::decode(&jobs.unwrap()[..]).unwrap();
    assert_eq!(jobs.jobs.len(), 62);
}

#[test]
fn rule_14_a_superseded_leader_tells_nobody_of_anything() {
    let place = Place::new();
    let cluster = served(place.leading(place.leader.path(), 7));
    let standby = place.follower(7);
    let admit = next_mark(&cluster.hub);
    cluster.hub.marked(admit.ticket, Marked::Done);
    until_standby(&cluster, State::InSync);
    standby.close();
    let remove = next_mark(&cluster.hub);
    let mut client = cluster.client();
    client.submit(keyed("late"));
    cluster.hub.marked(remove.ticket, Marked::Superseded);
    assert_eq!(client.refused().code(), v1::ErrorCode::Unavailable);
    client.send(
        2,
        Request::Submit(v1::SubmitRequest {
            idempotency_key: "later".to_owned(),
            ..request()
        }),
    );
    assert_eq!(client.refused().code(), v1::ErrorCode::Unavailable);
}
