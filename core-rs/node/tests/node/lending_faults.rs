//! What becomes of big payloads when a reader dies, stands still or is silent, and when a lender lies (rule 19).

use std::time::Duration;

use bytes::Bytes;
use omniflow_arena::{
    Address as Door, Channel, Content, DeviceName, Fingerprint, HostArena, HostOptions, Layout,
    Listener, Offer, offer,
};
use omniflow_link::{Address, Endpoint, LinkConfig, LinkReader, LinkSender, Message, Received};
use omniflow_wire::{LinkMessage, v1};
use prost::Message as _;
use tempfile::TempDir;

use crate::lending::{MEMORY, at_base_line, settled, written};
use crate::support::{PATIENCE, Scheduler, Worker, chain, worker, worker_with};

/// A reader that the test plays: it greets a lender, and then says what the test has it say.
struct Played {
    reader: LinkReader,
    waiting: Vec<Received>,
    door: Channel,
    _link: LinkSender,
    _folder: TempDir,
}

impl Played {
    /// As worker `w2`, to which `one` sends what `a` makes.
    async fn of(one: &Worker) -> (Self, Scheduler) {
        let folder = tempfile::tempdir().expect("a folder");
        let address = Address::Unix(folder.path().join("played.sock"));
        let endpoint = Endpoint::new(LinkConfig::default());
        let listener = endpoint.bind(&address).await.expect("binds");
        let peer = v1::Peer {
            id: 2,
            name: "w2".into(),
            incarnation: "first".into(),
            addresses: vec![address.to_string()],
            host: "here".into(),
        };
        let scheduler = Scheduler::lead(one, &[&one.peer, &peer], chain(false)).await;
        scheduler.bind(5, &[(0, 1, 1), (1, 2, 1), (2, 2, 1)]);
        scheduler.input(5, "go");
        let producer = one.take("a").await;
        let value = written(&producer, 7);
        producer.emit("text", vec![value]).expect("taken");
        producer.finish([].into()).expect("finished");
        let (link, mut reader) = listener.accept().await.expect("it dials");
        let mut waiting = Vec::new();
        let LinkMessage::Hello(hello) = next(&mut reader, &mut waiting).await else {
            panic!("no Hello")
        };
        let door = Channel::connect(&Door::Abstract(hello.arena)).expect("it lends");
        let greeting = v1::ArenaGreeting {
            cluster: "test".into(),
            from: "w2".into(),
            from_incarnation: "first".into(),
            to: "w1".into(),
            to_incarnation: "first".into(),
        };
        let greeting = greeting.encode_to_vec();
        door.send(&greeting, &[], None).expect("open");
        let welcome = v1::Welcome {
            protocol: omniflow_wire::PROTOCOL,
            borrows: true,
            ..Default::default()
        };
        link.send(packed(welcome)).expect("open");
        let played = Self {
            reader,
            waiting,
            door,
            _link: link,
            _folder: folder,
        };
        (played, scheduler)
    }

    async fn lent(&mut self) -> v1::LentFrame {
        match next(&mut self.reader, &mut self.waiting).await {
            LinkMessage::LentFrame(lent) => lent,
            other => panic!("{}", other.name()),
        }
    }

    fn say(&self, held: &[u64], released: &[u64]) {
        let words = v1::ArenaWords {
            held: held.to_vec(),
            released: released.to_vec(),
        };
        let said = self.door.send(&words.encode_to_vec(), &[], None);
        said.expect("open");
    }
}

fn packed(message: impl Into<LinkMessage>) -> Message {
    let (kind, head, body) = message.into().encode();
    Message {
        kind,
        stream: 0,
        head,
        body,
    }
}

async fn next(reader: &mut LinkReader, waiting: &mut Vec<Received>) -> LinkMessage {
    if waiting.is_empty() {
        let came = tokio::time::timeout(PATIENCE, reader.read(waiting)).await;
        came.expect("in time").expect("open");
    }
    let first = waiting.remove(0);
    LinkMessage::decode(first.kind, first.body).expect("well formed")
}

#[tokio::test]
async fn rule_19_what_a_reader_holds_is_free_when_it_hangs_up() {
    let one = worker(1, MEMORY);
    let (mut reader, scheduler) = Played::of(&one).await;
    reader.lent().await;
    scheduler.release(5);
    settled(&one, "jobs", 0).await;
    assert_eq!((one.stat("lent"), one.stat("arena_blobs")), (1, 1));
    drop(reader);
    at_base_line(&one).await;
}

#[tokio::test]
async fn rule_19_a_lease_that_nobody_renews_ends_and_raises_the_generation() {
    let one = worker_with(1, |_, config| config.lease = Duration::from_secs(1));
    let (mut reader, scheduler) = Played::of(&one).await;
    let lent = reader.lent().await;
    let offered = omniflow_arena::take_offers(&reader.door, Some(PATIENCE)).expect("passed on");
    let offered = offered.into_iter().next().expect("one");
    let (arena, _) = offered.open(omniflow_arena::Access::Read).expect("as told");
    let block = omniflow_pages::PageId((lent.offset / arena.layout().page_bytes()) as u32);
    let generation = || arena.generation(block).expect("inside").0;
    assert_eq!(generation(), lent.generation);
    scheduler.release(5);
    // Words about leases of others, or of nobody, change nothing.
    reader.say(&[lent.lease + 1], &[lent.lease + 2]);
    at_base_line(&one).await;
    assert!(generation() > lent.generation);
    reader.say(&[lent.lease], &[lent.lease]);
    assert_eq!(one.stat("lent"), 0);
}

#[tokio::test]
async fn rule_19_a_reader_that_says_that_it_has_let_go_of_something_frees_it_once() {
    let one = worker(1, MEMORY);
    let (mut reader, scheduler) = Played::of(&one).await;
    let lent = reader.lent().await;
    reader.say(&[lent.lease], &[]);
    reader.say(&[], &[lent.lease]);
    reader.say(&[], &[lent.lease]);
    settled(&one, "lent", 0).await;
    assert_eq!(one.stat("arena_blobs"), 1, "the job still has it");
    scheduler.release(5);
    at_base_line(&one).await;
}

/// A lender, as the test plays it.
struct Lender {
    link: LinkSender,
    reader: LinkReader,
    channel: Channel,
    arena: HostArena,
}

impl Lender {
    /// Whom `two` connects to, to read what it lends.
    async fn to(two: &Worker) -> Self {
        let name = format!("omniflow-test-{}-{}", std::process::id(), two.peer.id);
        let listener = Listener::bind(&Door::Abstract(name.clone())).expect("free");
        let (link, reader, channel) = loop {
            let (link, reader) = Self::greeted(two, &name).await;
            // Not before it has noticed that an earlier channel is closed.
            match listener.accept(Some(Duration::from_millis(100))) {
                Ok(channel) => break (link, reader, channel),
                Err(_) => link.abort(),
            }
        };
        let (fingerprint, device) = (Fingerprint::default(), DeviceName::host());
        let layout = Layout::new(Content::Blobs, 4096, 64, fingerprint, device).expect("sound");
        let arena = HostArena::create(&layout, &HostOptions::default()).expect("memory");
        let offered = Offer {
            name: "frames",
            arena: &arena,
            elsewhere: None,
        };
        offer(&channel, &[offered], Some(PATIENCE)).expect("open");
        Self {
            link,
            reader,
            channel,
            arena,
        }
    }

    async fn greeted(two: &Worker, arena: &str) -> (LinkSender, LinkReader) {
        let addresses = two.peer.addresses.iter();
        let addresses: Vec<Address> = addresses.flat_map(|at| at.parse()).collect();
        let endpoint = Endpoint::new(LinkConfig::default());
        let (link, mut reader) = endpoint.dial(&addresses, PATIENCE).await.expect("there");
        let hello = v1::Hello {
            protocol: omniflow_wire::PROTOCOL,
            cluster: "test".into(),
            from: "w9".into(),
            to: two.peer.name.clone(),
            host: "here".into(),
            arena: arena.into(),
            ..Default::default()
        };
        link.send(packed(hello)).expect("open");
        let LinkMessage::Welcome(welcome) = next(&mut reader, &mut Vec::new()).await else {
            panic!("no Welcome")
        };
        assert!(welcome.borrows);
        (link, reader)
    }

    /// Told rightly: it is taken, and kept for a bind that may come.
    fn lend(&self, job: u64) -> v1::LentFrame {
        let lent = v1::LentFrame {
            header: Some(v1::FrameHeader {
                job,
                ..Default::default()
            }),
            arena: Bytes::copy_from_slice(&self.arena.id().0),
            offset: 4096,
            bytes: 8192,
            generation: 0,
            lease: 1,
        };
        self.link.send(packed(lent.clone())).expect("open");
        lent
    }
}

/// What `two` says to one that lends as it should, and then lies.
async fn lies(two: &Worker, lie: impl FnOnce(&mut v1::LentFrame)) -> v1::Error {
    let mut lender = Lender::to(two).await;
    let mut lent = lender.lend(77);
    settled(two, "borrowed", 1).await;
    lent.lease = 2;
    lie(&mut lent);
    lender.link.send(packed(lent)).expect("open");
    let LinkMessage::Welcome(refusal) = next(&mut lender.reader, &mut Vec::new()).await else {
        panic!("no answer")
    };
    assert_eq!(two.stat("borrowed"), 1);
    refusal.error.expect("it says why")
}

#[tokio::test]
async fn rule_19_what_is_held_of_a_lender_counts_after_its_channel_broke_and_another_came() {
    let two = worker(30, MEMORY);
    let first = Lender::to(&two).await;
    first.lend(77);
    settled(&two, "borrowed", 1).await;
    drop(first.channel);
    let second = Lender::to(&two).await;
    assert_eq!(two.stat("borrowed"), 1);
    second.lend(78);
    settled(&two, "borrowed", 2).await;
}

#[tokio::test]
async fn rule_19_a_place_that_cannot_be_is_refused_and_nothing_of_it_is_read() {
    type Lie = fn(&mut v1::LentFrame);
    let lies_told: [(Lie, &str); 8] = [
        (|lent| lent.bytes = 64 * 4096, "not inside"),
        (|lent| lent.bytes = u64::MAX, "not inside"),
        (|lent| lent.offset = u64::MAX, "not inside"),
        (|lent| lent.generation = 5, "generation"),
        (|lent| lent.bytes = 0, "0 bytes"),
        (
            |lent| lent.arena = Bytes::from_static(&[9; 16]),
            "arena 0909",
        ),
        (|lent| lent.arena = Bytes::new(), "arena ?"),
        (|lent| lent.lease = 1, "twice"),
    ];
    for (id, (lie, word)) in (10..).zip(lies_told) {
        let two = worker(id, MEMORY);
        let error = lies(&two, lie).await;
        assert_eq!(error.code, i32::from(v1::ErrorCode::InvalidArgument));
        assert!(error.message.contains(word), "{word}: {}", error.message);
    }
}
