//! Rule 14 in one process: a second hub opens what `kill -9` would leave of the first one's journal, and the workers, which
//! live, say what they hold. Jobs go on there: nothing is run twice.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::flows::{act, fan_out, fan_out_of_input, input, rounds, routed};
use crate::common::{Client, Cluster, Worker, config, hang, read_text, request, text, words};
use omniflow_hub::{HubConfig, JournalConfig};
use omniflow_node::ActivationHandle;
use omniflow_wire::v1;
use omniflow_wire::v1::client_message::Message as Request;
use prost::Message;
use tempfile::{TempDir, tempdir};

fn journaled(folder: &Path, term: u64) -> HubConfig {
    HubConfig {
        term,
        journal: Some(JournalConfig::new(folder)),
        heartbeat_limit: Duration::from_secs(30),
        ..config()
    }
}

/// How often each role began to work on what, and a gate at which one activation waits.
#[derive(Clone)]
struct Stage {
    runs: Arc<Mutex<BTreeMap<String, u32>>>,
    held: &'static str,
    told: Sender<()>,
    go: Arc<Mutex<Receiver<()>>>,
}

/// The other side of a stage.
struct Director {
    stage: Stage,
    news: Receiver<()>,
    go: Sender<()>,
}

impl Stage {
    /// `held`: role and input of the activation that waits.
    fn holding(held: &'static str) -> Director {
        let ((told, news), (go, gone)) = (channel(), channel());
        let stage = Self {
            runs: Arc::default(),
            held,
            told,
            go: Arc::new(Mutex::new(gone)),
        };
        Director { stage, news, go }
    }

    fn act(&self, activation: &ActivationHandle) {
        let role = activation.activation().role();
        let read = match role {
            "join" => String::new(),
            _ => read_text(&input(activation, "input")),
        };
        let what = format!("{role} {read}");
        let held = what == self.held;
        *self.runs.lock().unwrap().entry(what).or_default() += 1;
        if held {
            self.told.send(()).unwrap();
            // A second attempt would wait for ever, and be counted.
            self.go.lock().unwrap().recv().unwrap();
        }
        act(activation);
    }
}

impl Director {
    fn worker(&self, cluster: &Cluster, name: &str, roles: &[&str]) -> Worker {
        let stage = self.stage.clone();
        cluster.worker(name, roles, move |activation| stage.act(&activation))
    }

    fn until_held(&self) {
        self.news.recv_timeout(Duration::from_secs(20)).unwrap();
    }

    fn assert_each_ran_once(&self, runs: usize) {
        let seen = self.stage.runs.lock().unwrap();
        assert!(
            seen.len() == runs && seen.values().all(|times| *times == 1),
            "{seen:?}"
        );
    }
}

/// A scheduler that dies in mid-job.
struct FirstLife {
    cluster: Cluster,
    journal: TempDir,
    client: Client,
    job: String,
}

impl FirstLife {
    fn begin(flow: &v1::Flow) -> (Cluster, TempDir) {
        let journal = tempdir().unwrap();
        let cluster = Cluster::without_flows(journaled(journal.path(), 7));
        cluster.hub.put_flow(&flow.encode_to_vec()).unwrap();
        (cluster, journal)
    }

    fn submit(cluster: Cluster, journal: TempDir, flow: &str, frames: &[&str]) -> Self {
        let mut client = cluster.client();
        let mut request = v1::SubmitRequest {
            flow: flow.to_owned(),
            detach: true,
            ..request()
        };
        request.inputs[0].frames = frames.iter().map(|frame| text(frame)).collect();
        client.submit(request);
        let (job, _) = client.accepted();
        Self {
            cluster,
            journal,
            client,
            job,
        }
    }

    /// What `kill -9` would leave now is opened by the next life, which sees these workers.
    fn dies(&self, workers: &[&Worker]) -> (Cluster, Client, TempDir) {
        let copy = tempdir().unwrap();
        for entry in fs::read_dir(self.journal.path()).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
        // A dead scheduler decides nothing more.
        self.cluster.hub.close(Duration::ZERO);
        let next = Cluster::without_flows(journaled(copy.path(), 8));
        for worker in workers {
            next.hub.worker_seen(&worker.info.encode_to_vec()).unwrap();
        }
        let client = next.client();
        let watch = v1::WatchRequest {
            job: self.job.clone(),
            ..Default::default()
        };
        client.send(3, Request::Watch(watch));
        (next, client, copy)
    }
}

fn ends_well(mut client: Client, next: &Cluster, wanted: &[&str]) -> v1::JobEnd {
    client.accepted();
    let (frames, end) = client.rest();
    assert_eq!(end.error, None);
    assert_eq!(words(&frames), wanted);
    next.assert_clean();
    end
}

#[test]
fn rule_14_a_running_job_goes_on_where_it_is_and_its_client_misses_nothing() {
    let flow = crate::common::flow();
    let (cluster, journal) = FirstLife::begin(&flow);
    let (told, news) = channel();
    let (go, gone) = channel::<()>();
    let (told, gone) = (Mutex::new(told), Mutex::new(gone));
    let reader = cluster.worker("reader", &["read"], |activation| {
        crate::common::work(&activation)
    });
    let speaker = cluster.worker("speaker", &["speak"], move |activation| {
        activation.emit("output", vec![text("HOW")]).unwrap();
        told.lock().unwrap().send(()).unwrap();
        gone.lock().unwrap().recv().unwrap();
        let rest = vec![text("ARE"), text("YOU")];
        activation.emit("output", rest).unwrap();
        activation.finish(BTreeMap::new()).unwrap();
    });
    cluster.until_ready(2);
    let mut first = FirstLife::submit(cluster, journal, "speak", &["how are you"]);
    news.recv_timeout(Duration::from_secs(20)).unwrap();
    // The client has seen a word: the next life must not contradict it.
    first.client.next();
    let (next, client, _copy) = first.dies(&[&reader, &speaker]);
    next.until_ready(2);
    go.send(()).unwrap();
    let end = ends_well(client, &next, &crate::common::ANSWER);
    let attempts = end.report.unwrap().activations;
    assert!(
        attempts.iter().all(|attempt| attempt.attempt == 1),
        "{attempts:?}"
    );
}

#[test]
fn rule_14_what_ran_on_a_worker_that_died_too_runs_again_alone() {
    let flow = crate::common::flow();
    let director = Stage::holding("speak HOW ARE YOU");
    let (cluster, journal) = FirstLife::begin(&flow);
    let reader = director.worker(&cluster, "reader", &["read"]);
    let speaker = cluster.worker("speaker", &["speak"], |activation| hang(&activation));
    cluster.until_ready(2);
    let first = FirstLife::submit(cluster, journal, "speak", &["how are you"]);
    first.cluster.until("the reader is done", |status| {
        status.workers.iter().any(|worker| worker.completed == 1)
    });
    speaker.kill();
    let (next, client, _copy) = first.dies(&[&reader]);
    // A new incarnation means that the old one is dead.
    let mut heir = speaker.info.clone();
    heir.incarnation = "another".to_owned();
    next.hub.worker_seen(&heir.encode_to_vec()).unwrap();
    next.worker("heir", &["speak"], |activation| {
        crate::common::work(&activation)
    });
    ends_well(client, &next, &crate::common::ANSWER);
    director.assert_each_ran_once(1);
}

#[test]
fn rule_14_a_fan_out_goes_on_and_none_of_its_keys_runs_twice() {
    let director = Stage::holding("shout are");
    let (cluster, journal) = FirstLife::begin(&fan_out());
    let workers = [
        director.worker(&cluster, "splitter", &["split", "join"]),
        director.worker(&cluster, "one", &["shout"]),
        director.worker(&cluster, "two", &["shout"]),
    ];
    cluster.until_ready(3);
    let first = FirstLife::submit(cluster, journal, "fan_out", &["how are you"]);
    director.until_held();
    let (next, client, _copy) = first.dies(&workers.each_ref());
    next.until_ready(3);
    director.go.send(()).unwrap();
    ends_well(client, &next, &["HOW ARE YOU"]);
    director.assert_each_ran_once(5);
}

#[test]
fn rule_14_what_the_scheduler_had_gathered_comes_again_from_those_who_made_it() {
    let director = Stage::holding("shout are");
    let (cluster, journal) = FirstLife::begin(&fan_out_of_input());
    let workers = [
        director.worker(&cluster, "one", &["shout"]),
        director.worker(&cluster, "two", &["shout"]),
    ];
    cluster.until_ready(2);
    let asked = ["how", "are", "you"];
    let mut first = FirstLife::submit(cluster, journal, "fan_out_of_input", &asked);
    director.until_held();
    // The first word is with the client already.
    first.client.next();
    let (next, client, _copy) = first.dies(&workers.each_ref());
    next.until_ready(2);
    director.go.send(()).unwrap();
    ends_well(client, &next, &["HOW", "ARE", "YOU"]);
    director.assert_each_ran_once(3);
}

#[test]
fn rule_14_a_branch_and_a_loop_go_on_where_they_are() {
    for (flow, held, asked, wanted, runs) in [
        (routed(true), "loud loud", "loud", &["LOUD"][..], 2),
        (routed(false), "quiet quiet", "quiet", &["quiet"], 1),
        (rounds(10), "step 2", "3", &["2", "1", "0"], 3),
    ] {
        let director = Stage::holding(held);
        let (cluster, journal) = FirstLife::begin(&flow);
        let roles = ["plan", "loud", "quiet", "step"];
        let worker = director.worker(&cluster, "all", &roles);
        cluster.until_ready(1);
        let first = FirstLife::submit(cluster, journal, &flow.name, &[asked]);
        director.until_held();
        let (next, client, _copy) = first.dies(&[&worker]);
        next.until_ready(1);
        director.go.send(()).unwrap();
        ends_well(client, &next, wanted);
        director.assert_each_ran_once(runs);
    }
}

/// The shouter dies with what it has, before the scheduler (which knows it then, and has nobody else) or with it.
fn shouter_dies(before: bool) {
    let director = Stage::holding("shout are");
    let (cluster, journal) = FirstLife::begin(&fan_out());
    let splitter = director.worker(&cluster, "splitter", &["split", "join"]);
    let shouter = director.worker(&cluster, "shouter", &["shout"]);
    cluster.until_ready(2);
    let first = FirstLife::submit(cluster, journal, "fan_out", &["how are you"]);
    director.until_held();
    if before {
        shouter.kill();
        let ready = v1::worker_status::State::Ready;
        first.cluster.until("the shouter is lost", |status| {
            let workers = status.workers.iter();
            workers.filter(|worker| worker.state() == ready).count() == 1
        });
    }
    let (next, client, _copy) = first.dies(&[&splitter]);
    shouter.kill();
    // The journal may not have had its death yet: a new incarnation says the same.
    let mut another = shouter.info.clone();
    another.incarnation = "another".to_owned();
    next.hub.worker_seen(&another.encode_to_vec()).unwrap();
    next.worker("heir", &["shout"], |activation| act(&activation));
    ends_well(client, &next, &["HOW ARE YOU"]);
}

#[test]
fn rule_14_a_fan_out_of_which_a_worker_died_too_runs_from_its_inputs() {
    shouter_dies(false);
}

#[test]
fn rule_14_what_was_lost_before_the_scheduler_could_bind_it_again_is_asked_for_again() {
    shouter_dies(true);
}

/// Says so many numbers, whatever it takes, and waits for a word in the middle.
fn count(activation: &ActivationHandle, half: u32, go: &Mutex<Receiver<()>>) {
    let (mut said, mut may_go_on) = (0, false);
    while said < 2 * half {
        if said == half && !may_go_on {
            go.lock().unwrap().recv().unwrap();
            may_go_on = true;
        }
        match activation
            .emit("output", vec![text(&said.to_string())])
            .unwrap()
        {
            0 => assert!(activation.wait_for_room(Duration::from_secs(20)).unwrap()),
            _ => said += 1,
        }
    }
    activation.finish([].into()).unwrap();
}

#[test]
fn rule_10_a_long_result_goes_on_under_the_next_scheduler_as_far_as_it_is_read() {
    const HALF: u32 = 3_000;
    let (cluster, journal) = FirstLife::begin(&crate::common::flow());
    let reader = cluster.worker("reader", &["read"], |activation| {
        crate::common::work(&activation);
    });
    let (go, gone) = channel();
    let gone = Mutex::new(gone);
    let speaker = cluster.worker("speaker", &["speak"], move |activation| {
        count(&activation, HALF, &gone);
    });
    cluster.until_ready(2);
    let mut first = FirstLife::submit(cluster, journal, "speak", &["go"]);
    // More than a window has been shown, and more than that is there.
    for _ in 0..HALF / 2 {
        first.client.next();
    }
    let (next, mut client, _copy) = first.dies(&[&reader, &speaker]);
    go.send(()).unwrap();
    client.accepted();
    let (frames, end) = client.rest();
    assert_eq!(end.error, None);
    let all: Vec<String> = (0..2 * HALF).map(|number| number.to_string()).collect();
    assert_eq!(words(&frames), all);
    next.assert_clean();
}
