//! What becomes of a job when its client goes, with and without a word.

use omniflow_control::{
    ClientId, Code, Control, Effect, Event, FlowId, JobId, Limits, Micros, Outcome, Submission,
};
use omniflow_placement::{WorkerId, policy};

const OWNER: ClientId = ClientId(1);
const OTHER: ClientId = ClientId(2);
const GRACE_MS: u64 = 5_000;

struct Table {
    control: Control,
    now: Micros,
}

impl Table {
    fn new() -> Self {
        let limits = Limits {
            client_grace_ms: GRACE_MS,
            ..Limits::default()
        };
        let mut control = Control::new(limits, policy("round-robin").unwrap(), 1);
        control.add_flow(crate::common::flow("flow", &[("a", &[], false)]));
        let mut table = Self {
            control,
            now: Micros(0),
        };
        table.up(1);
        table
    }

    fn up(&mut self, worker: u32) {
        self.step(Event::WorkerUp {
            worker: WorkerId(worker),
            name: format!("w{worker}").into(),
            host: "".into(),
            roles: vec!["a".to_owned()],
        });
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.control.step(event, self.now, &mut effects);
        self.control.check().unwrap();
        effects
    }

    fn wait_ms(&mut self, ms: u64) -> Vec<Effect> {
        self.now = self.now.plus_ms(ms);
        self.step(Event::Tick)
    }

    fn submit(&mut self, client: ClientId, key: &str, deadline_ms: u64) -> JobId {
        let effects = self.step(Event::Submit(Submission {
            ticket: 1,
            client,
            flow: FlowId(0),
            tenant: "".into(),
            priority: 0,
            deadline_ms,
            idempotency_key: key.into(),
            detach: false,
        }));
        match effects.first() {
            Some(Effect::Accepted { job, .. }) => *job,
            other => panic!("{other:?}"),
        }
    }

    fn watch(&mut self, job: JobId, client: ClientId) {
        self.step(Event::Watch { job, client });
    }

    fn code(&self, job: JobId) -> Option<Code> {
        match &self.control.job(job).unwrap().outcome {
            Outcome::Failed(fault) => Some(fault.code),
            _ => None,
        }
    }
}

#[test]
fn a_goodbye_cancels_at_once_even_under_the_eyes_of_others() {
    let mut table = Table::new();
    let job = table.submit(OWNER, "", 0);
    table.watch(job, OTHER);
    table.step(Event::ClientGone(OWNER));
    assert_eq!(table.code(job), Some(Code::Cancelled));
}

#[test]
fn a_lost_clients_job_goes_on_for_the_grace_and_no_longer() {
    let mut table = Table::new();
    let job = table.submit(OWNER, "", 0);
    table.step(Event::ClientLost(OWNER));
    table.wait_ms(GRACE_MS - 1);
    assert_eq!(table.code(job), None);
    assert_eq!(table.control.next_timer(), Some(table.now.plus_ms(1)));
    table.wait_ms(1);
    assert_eq!(table.code(job), Some(Code::Cancelled));
}

#[test]
fn a_deadline_within_the_grace_is_the_jobs_end() {
    let mut table = Table::new();
    let job = table.submit(OWNER, "", GRACE_MS / 2);
    table.step(Event::ClientLost(OWNER));
    table.wait_ms(GRACE_MS / 2);
    assert_eq!(table.code(job), Some(Code::DeadlineExceeded));
}

#[test]
fn whoever_watches_within_the_grace_has_the_job_from_then_on() {
    let mut table = Table::new();
    let job = table.submit(OWNER, "", 0);
    table.step(Event::ClientLost(OWNER));
    table.wait_ms(GRACE_MS - 1);
    table.watch(job, OTHER);
    table.wait_ms(10 * GRACE_MS);
    assert_eq!(table.code(job), None);
    table.step(Event::ClientGone(OTHER));
    assert_eq!(table.code(job), Some(Code::Cancelled));
}

#[test]
fn a_client_may_be_back_before_its_old_connection_is_seen_to_be_broken() {
    let mut table = Table::new();
    let job = table.submit(OWNER, "", 0);
    table.watch(job, OTHER);
    table.step(Event::ClientLost(OWNER));
    table.wait_ms(10 * GRACE_MS);
    assert_eq!(table.code(job), None);
    table.step(Event::ClientLost(OTHER));
    table.wait_ms(GRACE_MS);
    assert_eq!(table.code(job), Some(Code::Cancelled));
}

#[test]
fn a_submit_under_the_same_key_takes_the_job_over() {
    let mut table = Table::new();
    let job = table.submit(OWNER, "key", 0);
    table.step(Event::ClientLost(OWNER));
    assert_eq!(table.submit(OTHER, "key", 0), job);
    table.wait_ms(10 * GRACE_MS);
    assert_eq!(table.code(job), None);
}

#[test]
fn a_watcher_that_goes_takes_nothing_with_it() {
    let mut table = Table::new();
    let job = table.submit(OWNER, "", 0);
    table.watch(job, OTHER);
    table.step(Event::ClientGone(OTHER));
    table.wait_ms(10 * GRACE_MS);
    assert_eq!(table.code(job), None);
}

#[test]
fn what_a_draining_worker_has_not_finished_in_its_time_goes_on_elsewhere() {
    let mut table = Table::new();
    let job = table.submit(OWNER, "", 0);
    table.up(2);
    table.step(Event::DrainWithin {
        worker: WorkerId(1),
        within_ms: 100,
    });
    assert!(table.wait_ms(99).is_empty());
    let effects = table.wait_ms(1);
    assert!(matches!(
        effects.first(),
        Some(Effect::Release { workers, .. }) if workers[..] == [WorkerId(1)]
    ));
    let attempt = table.control.job(job).unwrap().current(0).unwrap();
    assert_eq!((attempt.worker, attempt.epoch), (WorkerId(2), 2));
    assert_eq!(table.code(job), None);
}

#[test]
fn what_an_ended_job_has_left_is_kept_for_as_long_again_when_somebody_reads_on() {
    let ttl = Limits::default().result_ttl_ms;
    let mut table = Table::new();
    let job = table.submit(OWNER, "k", 0);
    table.step(Event::Read { job });
    let reason = String::new();
    table.step(Event::Cancel { job, reason });
    for _ in 0..3 {
        table.wait_ms(ttl - 1);
        table.step(Event::Read { job });
    }
    table.wait_ms(ttl - 1);
    assert!(table.control.job(job).is_some());
    table.wait_ms(1);
    assert!(table.control.job(job).is_none());
}
