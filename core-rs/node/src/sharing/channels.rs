//! The I/O of arena channels, on the thread that does all I/O.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use omniflow_arena::{Address, ArenaError, Channel};
use omniflow_wire::v1;
use prost::Message;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::io::{PATIENCE, Shared};
use crate::sharing::lender::ReaderId;
use crate::sharing::source::Source;

/// After a refusal to accept, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// What the poller watches, and this module reads.
struct Watched<T>(T);

impl<T: AsFd> AsRawFd for Watched<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// A channel, shared with those that send on it.
struct Ear(Arc<Channel>);

impl AsFd for Ear {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

type Listening = AsyncFd<Watched<Ear>>;

fn hear(channel: &Arc<Channel>) -> Option<Listening> {
    watch(Ear(Arc::clone(channel)))
}

fn watch<T: AsFd>(socket: T) -> Option<AsyncFd<Watched<T>>> {
    // SAFETY: what is watched owns its descriptor, shares it at most, and never exchanges it for another one: it is open
    // and the same until the poller has let go of it.
    let watched = unsafe { AsyncFd::register_with_interest(Watched(socket), Interest::READABLE) };
    watched.ok()
}

/// The next message. None: the other end is closed, or what came is none.
async fn next(ear: &Listening) -> Option<Vec<u8>> {
    loop {
        let mut ready = ear.readable().await.ok()?;
        match ear.get_ref().0.0.receive(Some(Duration::ZERO)) {
            Ok(message) => return Some(message.payload),
            Err(ArenaError::TimedOut) => ready.clear_ready(),
            Err(_) => return None,
        }
    }
}

// --- the lender's side ------------------------------------------------------------------------------------------------

/// Serves readers for as long as the node runs.
pub(crate) async fn listen(shared: Arc<Shared>) {
    let Some(listener) = shared.sharing.listener.lock().take() else {
        return;
    };
    let Some(listener) = watch(listener) else {
        return;
    };
    loop {
        let Ok(mut ready) = listener.readable().await else {
            return;
        };
        match listener.get_ref().0.accept(Some(Duration::ZERO)) {
            Ok(channel) => {
                tokio::spawn(serve(Arc::clone(&shared), Arc::new(channel)));
            }
            Err(ArenaError::TimedOut) => ready.clear_ready(),
            // Somebody of another user.
            Err(ArenaError::OtherUser { .. }) => {}
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn serve(shared: Arc<Shared>, channel: Arc<Channel>) {
    let Some(ear) = hear(&channel) else {
        return;
    };
    let Ok(Some(first)) = timeout(PATIENCE, next(&ear)).await else {
        return;
    };
    let greeting = v1::ArenaGreeting::decode(&first[..]).unwrap_or_default();
    let me = &shared.identity;
    let wanted = (&greeting.cluster, &greeting.to, &greeting.to_incarnation);
    if wanted != (&me.cluster, &me.name, &me.incarnation) {
        return;
    }
    let reader = Admitted {
        id: shared.sharing.lender.admit(greeting, channel),
        shared,
    };
    while let Some(message) = next(&ear).await {
        let Ok(words) = v1::ArenaWords::decode(&message[..]) else {
            return;
        };
        let lender = &reader.shared.sharing.lender;
        lender.hear(reader.id, &words, Instant::now());
    }
}

/// By whatever way its task ends, what the reader holds is over then.
struct Admitted {
    id: ReaderId,
    shared: Arc<Shared>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.shared.sharing.lender.hung_up(self.id);
    }
}

// --- the reader's side ------------------------------------------------------------------------------------------------

/// The lender that says Hello, if it is of this host and lends: connected now, or before.
pub(crate) async fn connect(shared: &Arc<Shared>, hello: &v1::Hello) -> Option<Arc<Source>> {
    let me = &shared.identity;
    if hello.arena.is_empty() || hello.host.is_empty() || hello.host != me.host {
        return None;
    }
    let lender = (hello.from.clone(), hello.from_incarnation.clone());
    let known = shared.sharing.sources.lock().get(&lender).cloned();
    if let Some(source) = known.filter(|source| !source.is_over()) {
        return Some(source);
    }
    let address = Address::Abstract(hello.arena.clone());
    // It waits when too many others connect.
    let connected = tokio::task::spawn_blocking(move || Channel::connect(&address)).await;
    let channel = Arc::new(connected.ok()?.ok()?);
    let greeting = v1::ArenaGreeting {
        cluster: me.cluster.clone(),
        from: me.name.clone(),
        from_incarnation: me.incarnation.clone(),
        to: lender.0.clone(),
        to_incarnation: lender.1.clone(),
    };
    channel
        .send(&greeting.encode_to_vec(), &[], Some(Duration::ZERO))
        .ok()?;
    let ear = hear(&channel)?;
    let source = Arc::new(Source::new(
        channel,
        shared.sharing.lease,
        Arc::clone(&shared.sharing.holds),
    ));
    let mut sources = shared.sharing.sources.lock();
    sources.insert(lender.clone(), Arc::clone(&source));
    drop(sources);
    tokio::spawn(attend(Arc::clone(shared), lender, Arc::clone(&source), ear));
    Some(source)
}

/// Renews and releases, until the lender is gone.
async fn attend(
    shared: Arc<Shared>,
    lender: (String, String),
    source: Arc<Source>,
    ear: Listening,
) {
    let mut renewals = interval(source.renew_every());
    renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let said = tokio::select! {
            ready = ear.readable() => match ready {
                Ok(mut ready) => match source.take_arenas() {
                    Ok(()) => { ready.clear_ready(); Ok(()) }
                    Err(error) => Err(error),
                },
                Err(_) => Err(ArenaError::HungUp),
            },
            () = source.words.notified() => say(&source, false),
            _ = renewals.tick() => say(&source, true),
        };
        if said.is_err() {
            break;
        }
    }
    source.end();
    let mut sources = shared.sharing.sources.lock();
    let mine = sources.get(&lender);
    if mine.is_some_and(|known| Arc::ptr_eq(known, &source)) {
        sources.remove(&lender);
    }
}

fn say(source: &Source, renew: bool) -> Result<(), ArenaError> {
    for words in source.words_to_say(renew) {
        let said = source
            .channel()
            .send(&words.encode_to_vec(), &[], Some(Duration::ZERO));
        match said {
            // Its lender is behind by hundreds of messages: what is not said now ends with the lease.
            Err(ArenaError::TimedOut) | Ok(()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
