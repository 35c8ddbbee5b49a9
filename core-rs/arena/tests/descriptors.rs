//! Arenas that travel over a socket: whatever goes wrong, no descriptor is left over.
#![allow(clippy::unwrap_used)] // A test file: clippy exempts only the test functions themselves.

mod common;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

use common::{arena, layout, layout_of_model, mappings};
use omniflow_arena::{
    Access, Address, ArenaError, Channel, Content, HostArena, Listener, MAX_DESCRIPTORS,
    MAX_PAYLOAD, Offer, check_peer, offer, take_offers,
};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

/// Descriptors belong to the process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Long enough on any machine; nothing here waits for it unless it fails.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Runs a test on a pair of channels, and checks that it leaves no descriptor and no mapping.
fn leaves_nothing(name: &str, test: impl FnOnce(&str, &Channel, &Channel)) {
    let _alone = ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let before = open_descriptors();
    let (one, other) = Channel::pair().unwrap();
    test(name, &one, &other);
    drop((one, other));
    assert_eq!(open_descriptors(), before);
    assert_eq!(mappings(name), 0);
}

fn offer_of<'a>(name: &'a str, arena: &'a HostArena) -> Offer<'a> {
    Offer {
        name,
        arena,
        elsewhere: None,
    }
}

/// The payload of an offer, to be told about another descriptor.
fn payload_of(arena: &HostArena) -> Vec<u8> {
    let (from, to) = Channel::pair().unwrap();
    offer(&from, &[offer_of("kv", arena)], PATIENCE).unwrap();
    to.receive(PATIENCE).unwrap().payload
}

#[test]
fn an_arena_travels_and_both_sides_see_one_memory() {
    leaves_nothing("travels", |name, one, other| {
        let layout = layout(Content::Pages, 4096, 8);
        let ours = arena(name, &layout);
        let device_memory = tempfile::tempfile().unwrap();
        let elsewhere = Some(device_memory.as_fd());
        let second = Offer {
            elsewhere,
            ..offer_of("blobs", &ours)
        };
        offer(one, &[offer_of("kv", &ours), second], PATIENCE).unwrap();
        let mut offered = take_offers(other, PATIENCE).unwrap();
        assert_eq!(offered.len(), 2);
        let (second, first) = (offered.pop().unwrap(), offered.pop().unwrap());
        assert_eq!((first.name.as_str(), second.name.as_str()), ("kv", "blobs"));
        let (theirs, none) = first.open_as(&layout, Access::Read).unwrap();
        assert!(none.is_none());
        assert!(second.open(Access::Write).unwrap().1.is_some());
        ours.pages().unwrap().write(b"seen").unwrap();
        let mut seen = [0; 4];
        theirs.pages().unwrap().read(&mut seen).unwrap();
        assert_eq!(&seen, b"seen");
    });
}

#[test]
fn an_offer_that_is_not_wanted_costs_nothing() {
    leaves_nothing("unwanted", |name, one, other| {
        let layout = layout_of_model(1, Content::Pages, 4096, 8);
        let ours = arena(name, &layout);
        offer(one, &[offer_of("kv", &ours)], PATIENCE).unwrap();
        let offered = take_offers(other, PATIENCE).unwrap().pop().unwrap();
        let wanted = layout_of_model(2, Content::Pages, 4096, 8);
        let refused = offered.open_as(&wanted, Access::Read).unwrap_err();
        assert!(matches!(refused, ArenaError::Mismatch { .. }), "{refused}");
    });
}

#[test]
fn a_peer_that_lies_about_what_it_sends_is_found_out() {
    leaves_nothing("lies", |name, one, other| {
        let honest = arena(name, &layout(Content::Pages, 4096, 8));
        let payload = payload_of(&honest);
        let small = memfd_create("lies-small", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&small, 4096).unwrap();
        let another = arena(name, &layout(Content::Pages, 4096, 8));
        let file: OwnedFd = tempfile::tempfile().unwrap().into();
        for lie in [small.as_fd(), another.descriptor(), file.as_fd()] {
            one.send(&payload, &[lie], PATIENCE).unwrap();
            let offered = take_offers(other, PATIENCE).unwrap().pop().unwrap();
            let error = offered.open(Access::Write).unwrap_err();
            assert!(
                matches!(
                    error,
                    ArenaError::Damaged { .. } | ArenaError::Mismatch { field: "id", .. }
                ),
                "{error}"
            );
        }
        assert_eq!(mappings("lies-small"), 0);
    });
}

#[test]
fn a_message_that_is_cut_short_or_too_long_or_short_of_descriptors_is_refused() {
    leaves_nothing("shapes", |name, one, other| {
        let ours = arena(name, &layout(Content::Pages, 4096, 8));
        let payload = payload_of(&ours);
        let descriptor = ours.descriptor();
        let refused = |payload: &[u8], descriptors: &[_]| {
            one.send(payload, descriptors, PATIENCE).unwrap();
            let error = take_offers(other, PATIENCE).unwrap_err();
            assert!(
                matches!(
                    error,
                    ArenaError::BadMessage { .. } | ArenaError::Damaged { .. }
                ),
                "{error}"
            );
        };
        for end in 1..payload.len() {
            refused(&payload[..end], &[descriptor]);
        }
        refused(&payload, &[]);
        refused(&payload, &[descriptor, descriptor]);
        refused(&[&payload[..], b"more"].concat(), &[descriptor]);
        let mut many = payload.clone();
        many[0] = u8::MAX;
        refused(&many, &[descriptor]);
        let mut nameless = payload;
        nameless[3] = 0xff;
        refused(&nameless, &[descriptor]);
    });
}

#[test]
fn more_descriptors_than_one_message_carries_are_refused_on_both_sides() {
    leaves_nothing("many", |name, one, other| {
        let ours = arena(name, &layout(Content::Pages, 4096, 8));
        let descriptors = [ours.descriptor(); MAX_DESCRIPTORS + 1];
        assert!(one.send(b"x", &descriptors, PATIENCE).is_err());
        assert!(one.send(b"", &[], PATIENCE).is_err());
        assert!(one.send(&[0; MAX_PAYLOAD + 1], &[], PATIENCE).is_err());
        let offers = vec![offer_of("kv", &ours); MAX_DESCRIPTORS + 1];
        assert!(offer(one, &offers, PATIENCE).is_err());
        assert!(offer(one, &[offer_of("", &ours)], PATIENCE).is_err());
        // A peer that does not keep to it.
        send_raw(one, 3 * MAX_DESCRIPTORS, 1, &ours);
        assert!(other.receive(PATIENCE).is_err());
        send_raw(one, 1, MAX_PAYLOAD + 1, &ours);
        assert!(other.receive(PATIENCE).is_err());
        // The next message is not harmed.
        one.send(b"next", &[], PATIENCE).unwrap();
        assert_eq!(other.receive(PATIENCE).unwrap().payload, b"next");
    });
}

fn send_raw(channel: &Channel, descriptors: usize, bytes: usize, arena: &HostArena) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let descriptors = vec![arena.descriptor(); descriptors];
    let message = SendAncillaryMessage::ScmRights(&descriptors);
    let mut room = vec![std::mem::MaybeUninit::uninit(); message.size()];
    let mut control = SendAncillaryBuffer::new(&mut room);
    assert!(control.push(message));
    let payload = vec![1; bytes];
    let parts = [std::io::IoSlice::new(&payload)];
    sendmsg(channel, &parts, &mut control, SendFlags::NOSIGNAL).unwrap();
}

#[test]
fn descriptors_in_a_message_that_nobody_takes_are_closed_with_the_channel() {
    leaves_nothing("untaken", |name, one, _| {
        let ours = arena(name, &layout(Content::Pages, 4096, 8));
        offer(one, &[offer_of("kv", &ours)], PATIENCE).unwrap();
    });
}

#[test]
fn the_death_of_one_end_is_seen_at_the_other() {
    let _alone = ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let (one, other) = Channel::pair().unwrap();
    assert_eq!(other.hung_up(), Ok(false));
    let nothing = other.receive(Some(Duration::ZERO)).unwrap_err();
    assert_eq!(nothing, ArenaError::TimedOut);
    one.send(b"last words", &[], PATIENCE).unwrap();
    drop(one);
    assert_eq!(other.hung_up(), Ok(true));
    assert_eq!(other.receive(PATIENCE).unwrap().payload, b"last words");
    assert_eq!(other.receive(PATIENCE).unwrap_err(), ArenaError::HungUp);
    let refused = other.send(b"x", &[], PATIENCE).unwrap_err();
    assert_eq!(refused, ArenaError::HungUp);
}

#[test]
fn a_peer_that_takes_nothing_does_not_hold_up_the_sender_for_ever() {
    let _alone = ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let (one, _other) = Channel::pair().unwrap();
    let now = Some(Duration::ZERO);
    let mut sent = (0..1_000_000).map(|_| one.send(&[0; MAX_PAYLOAD], &[], now));
    let refused = sent.find_map(Result::err);
    assert_eq!(refused, Some(ArenaError::TimedOut));
}

#[test]
fn only_processes_of_the_same_user_are_let_in() {
    assert_eq!(check_peer(1000, 1000), Ok(()));
    let refused = ArenaError::OtherUser { peer: 1001, own: 0 };
    assert_eq!(check_peer(1001, 0), Err(refused));
    // Root is another user, too.
    assert!(check_peer(0, 1000).is_err());
}

#[test]
fn a_listener_is_found_by_a_file_or_by_a_name_without_one() {
    let _alone = ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let before = open_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("arenas");
    let name = format!("omniflow-test-{}", std::process::id());
    for address in [Address::File(file.clone()), Address::Abstract(name)] {
        let listener = Listener::bind(&address).unwrap();
        let taken = Listener::bind(&address).unwrap_err();
        assert!(matches!(taken, ArenaError::AddressInUse { .. }), "{taken}");
        let none = listener.accept(Some(Duration::ZERO)).unwrap_err();
        assert_eq!(none, ArenaError::TimedOut);
        let client = Channel::connect(&address).unwrap();
        let server = listener.accept(PATIENCE).unwrap();
        client.send(b"hello", &[], PATIENCE).unwrap();
        assert_eq!(server.receive(PATIENCE).unwrap().payload, b"hello");
    }
    assert!(!file.exists());
    assert!(Channel::connect(&Address::File(file)).is_err());
    drop(folder);
    assert_eq!(open_descriptors(), before);
}

#[test]
fn a_socket_that_mixes_messages_is_no_channel() {
    let _alone = ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let (stream, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    assert!(Channel::of(stream.into()).is_err());
    let file = tempfile::tempfile().unwrap();
    assert!(Channel::of(file.into()).is_err());
}
