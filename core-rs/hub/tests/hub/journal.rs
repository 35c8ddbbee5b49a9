//! Rule 17 in one process: a second hub opens what `kill -9` would leave of the first one's journal at a given moment.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::flows::{act, fan_out};
use crate::common::{ANSWER, Client, Cluster, config, hang, request, words, work};
use omniflow_hub::{HubConfig, JournalConfig};
use omniflow_wire::v1;
use omniflow_wire::v1::client_message::Message as Request;
use omniflow_wire::v1::job_event::Event;
use prost::Message;
use tempfile::tempdir;

fn journaled(folder: &Path, term: u64) -> HubConfig {
    HubConfig {
        term,
        journal: Some(JournalConfig::new(folder)),
        heartbeat_limit: Duration::from_secs(1),
        ..config()
    }
}

/// The journal as it is now, for another hub.
fn copied(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

fn keyed(key: &str) -> v1::SubmitRequest {
    v1::SubmitRequest {
        idempotency_key: key.to_owned(),
        detach: true,
        ..request()
    }
}

fn watch(client: &Client, job: &str, from: u64) {
    client.send(
        3,
        Request::Watch(v1::WatchRequest {
            job: job.to_owned(),
            next_seq: [("words".to_owned(), from)].into(),
            progress: false,
        }),
    );
}

#[test]
fn rule_17_accepted_means_in_the_journal_and_the_next_life_runs_the_job_to_its_result() {
    let (first, second) = (tempdir().unwrap(), tempdir().unwrap());
    let cluster = Cluster::new(journaled(first.path(), 7));
    cluster.worker("reader", &["read"], |activation| hang(&activation));
    cluster.worker("speaker", &["speak"], |activation| work(&activation));
    cluster.until_ready(2);
    let mut client = cluster.client();
    client.submit(keyed("k"));
    let (job, accepted) = client.accepted();
    assert!(!accepted.existed);
    copied(first.path(), second.path());

    // The next life knows job and flow by itself; workers that it has never seen serve it.
    let next = Cluster::without_flows(journaled(second.path(), 8));
    assert_eq!(next.status().jobs_waiting, 1);
    let mut client = next.client();
    watch(&client, &job, 0);
    next.worker("other-reader", &["read"], |activation| work(&activation));
    next.worker("other-speaker", &["speak"], |activation| work(&activation));
    let (same, accepted) = client.accepted();
    assert_eq!((same, accepted.existed), (job.clone(), true));
    let (frames, end) = client.rest();
    assert_eq!(
        (words(&frames), end.error),
        (ANSWER.map(str::to_owned).to_vec(), None)
    );
    // The same key is the same job, also after it has ended.
    let mut again = next.client();
    again.submit(keyed("k"));
    assert_eq!(again.accepted().0, job);
    next.assert_clean();
}

#[test]
fn rule_17_a_fan_out_of_an_earlier_life_runs_to_its_result() {
    let (first, second) = (tempdir().unwrap(), tempdir().unwrap());
    let cluster = Cluster::without_flows(journaled(first.path(), 7));
    cluster.hub.put_flow(&fan_out().encode_to_vec()).unwrap();
    cluster.worker("splitter", &["split", "join"], |activation| {
        act(&activation)
    });
    let (told, news) = channel();
    cluster.worker("shouter", &["shout"], move |activation| {
        let input = activation.activation().value("input").unwrap().unwrap();
        if crate::common::read_text(&input) == "are" {
            told.send(()).unwrap();
            return hang(&activation);
        }
        act(&activation);
    });
    cluster.until_ready(2);
    let mut client = cluster.client();
    client.submit(v1::SubmitRequest {
        flow: "fan_out".to_owned(),
        ..keyed("k")
    });
    let (job, _) = client.accepted();
    news.recv_timeout(Duration::from_secs(20)).unwrap();
    copied(first.path(), second.path());

    let next = Cluster::without_flows(journaled(second.path(), 8));
    let mut client = next.client();
    watch(&client, &job, 0);
    let roles = ["split", "shout", "join"];
    next.worker("other", &roles, |activation| act(&activation));
    assert_eq!(client.accepted().0, job);
    let (frames, end) = client.rest();
    assert_eq!(end.error, None);
    assert_eq!(words(&frames), ["HOW ARE YOU"]);
    next.assert_clean();
}

#[test]
fn rule_17_an_end_that_was_heard_is_the_end_in_the_next_life() {
    let (first, second) = (tempdir().unwrap(), tempdir().unwrap());
    let cluster = Cluster::new(journaled(first.path(), 7));
    cluster.worker("reader", &["read"], |activation| work(&activation));
    cluster.worker("speaker", &["speak"], |activation| work(&activation));
    cluster.until_ready(2);
    let mut client = cluster.client();
    client.submit(keyed("k"));
    let (job, _) = client.accepted();
    let (_, end) = client.rest();
    copied(first.path(), second.path());

    let next = Cluster::without_flows(journaled(second.path(), 8));
    let mut client = next.client();
    watch(&client, &job, 1);
    client.accepted();
    let (frames, same) = client.rest();
    assert_eq!(words(&frames), ANSWER[1..]);
    assert_eq!(same, end);
    next.assert_clean();
}

#[test]
fn rule_14_restored_jobs_wait_for_the_workers_that_were_known() {
    let (first, second) = (tempdir().unwrap(), tempdir().unwrap());
    let cluster = Cluster::new(journaled(first.path(), 7));
    let (told, news) = channel();
    let reader = cluster.worker("reader", &["read"], move |activation| {
        told.send(()).unwrap();
        hang(&activation);
    });
    let speaker = cluster.worker("speaker", &["speak"], |activation| work(&activation));
    cluster.until_ready(2);
    let mut client = cluster.client();
    client.submit(keyed("k"));
    let (job, _) = client.accepted();
    news.recv_timeout(Duration::from_secs(10)).unwrap();
    copied(first.path(), second.path());

    let mut patient = journaled(second.path(), 8);
    patient.heartbeat_limit = Duration::from_secs(30);
    let next = Cluster::without_flows(patient);
    // One that could run it is there, and one of those that were known: the other may still run it.
    next.worker("other-reader", &["read"], |activation| work(&activation));
    next.hub.worker_seen(&speaker.info.encode_to_vec()).unwrap();
    next.until_ready(2);
    assert_eq!(next.job(&job).state(), v1::job_status::State::Waiting);
    // A new incarnation of it means that the old one is dead.
    reader.kill();
    let mut info = reader.info.clone();
    info.incarnation = "another".to_owned();
    next.hub.worker_seen(&info.encode_to_vec()).unwrap();
    let mut client = next.client();
    watch(&client, &job, 0);
    client.accepted();
    assert_eq!(words(&client.rest().0), ANSWER);
    next.assert_clean();
}

#[test]
fn rule_12_a_restored_job_that_says_something_else_than_its_client_has_fails() {
    let (first, second) = (tempdir().unwrap(), tempdir().unwrap());
    let cluster = Cluster::new(journaled(first.path(), 7));
    cluster.worker("reader", &["read"], |activation| work(&activation));
    cluster.worker("speaker", &["speak"], |activation| {
        activation
            .emit("output", vec![crate::common::text("HOW")])
            .unwrap();
        hang(&activation);
    });
    cluster.until_ready(2);
    let mut client = cluster.client();
    client.submit(keyed("k"));
    let (job, _) = client.accepted();
    client.next();
    copied(first.path(), second.path());

    let next = Cluster::without_flows(journaled(second.path(), 8));
    next.worker("reader", &["read"], |activation| work(&activation));
    next.worker("speaker", &["speak"], |activation| {
        activation
            .emit("output", vec![crate::common::text("WHY")])
            .unwrap();
        hang(&activation);
    });
    let mut client = next.client();
    watch(&client, &job, 1);
    client.accepted();
    let error = client.failure();
    assert_eq!(error.code(), v1::ErrorCode::NotReplayable);
    next.assert_clean();
}

#[test]
fn rule_17_a_job_that_cannot_be_written_is_refused_and_taken_once_it_can() {
    let folder = tempdir().unwrap();
    let mut small = journaled(folder.path(), 7);
    // Every write begins a new file.
    small.journal.as_mut().unwrap().segment_bytes = 1;
    let cluster = Cluster::new(small);
    cluster.worker("reader", &["read"], |activation| work(&activation));
    cluster.worker("speaker", &["speak"], |activation| work(&activation));
    cluster.until_ready(2);
    let mut client = cluster.client();
    client.submit(keyed("before"));
    client.accepted();
    client.rest();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(folder.path().join("probe"), b"").is_ok() {
        // Whoever may write everywhere cannot be shown a folder that is closed: its files get another name instead.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let aside = folder.path().with_extension("aside");
        fs::rename(folder.path(), &aside).unwrap();
        refused(&cluster, &mut client);
        fs::rename(&aside, folder.path()).unwrap();
    } else {
        refused(&cluster, &mut client);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    }
    let mut patience = 1_000;
    loop {
        client.submit(keyed("after"));
        if matches!(client.next(), Event::Accepted(_)) {
            break;
        }
        patience -= 1;
        assert!(patience > 0);
        std::thread::park_timeout(Duration::from_millis(10));
    }
    assert_eq!(words(&client.rest().0), ANSWER);
    cluster.assert_clean();
}

fn refused(cluster: &Cluster, client: &mut Client) {
    client.submit(keyed("during"));
    let error = client.refused();
    assert_eq!(error.code(), v1::ErrorCode::ResourceExhausted);
    assert!(error.message.contains("journal"), "{error:?}");
    assert_eq!(cluster.status().jobs_running, 0);
}
