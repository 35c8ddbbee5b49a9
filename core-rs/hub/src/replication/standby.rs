//! A scheduler that does not lead: it dials the leader and keeps its journal a copy of the leader's, in a thread of its own.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use omniflow_link::{Address, Endpoint, LinkReader, LinkSender, Tls};
use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::timeout;

use super::copying::Copying;
use super::leader::endpoint;
use super::messages::{self, ACK, Ack, FOLLOW, Follow, PROTOCOL};
use crate::error::HubError;
use crate::journal::JournalConfig;
use crate::journal::copy::JournalCopy;

/// How long an address may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long a closing standby says that it goes.
const FAREWELL: Duration = Duration::from_millis(500);

/// What a standby is told once.
#[derive(Clone, Debug)]
pub struct StandbyConfig {
    /// The cluster's name: the leader of another one refuses.
    pub cluster: String,
    /// This process's name, for people.
    pub name: String,
    /// What etcd knows its journal by.
    pub journal_id: String,
    /// Its own journal.
    pub journal: JournalConfig,
    /// How often the leader is asked whether it is there.
    pub heartbeat: Duration,
    /// A leader that is silent for longer is dialled anew.
    pub heartbeat_limit: Duration,
    /// How long a broken link is waited for.
    pub limit: Duration,
    /// This scheduler's certificate, for a link over TCP; none: it is plain.
    pub tls: Option<Tls>,
}

/// Whom to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    term: u64,
    address: Address,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Orders {
    target: Option<Target>,
    stop: bool,
}

/// Follows whoever leads. Its journal is locked until it is closed, and then ready for a hub.
pub struct Standby {
    orders: watch::Sender<Orders>,
    news: Mutex<Receiver<String>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Standby {
    /// Opens the journal and starts the thread, which waits for `follow`.
    pub fn new(config: StandbyConfig) -> Result<Self, HubError> {
        let copy = JournalCopy::open(&config.journal)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(HubError::io("starting the standby's event loop"))?;
        let (orders, ordered) = watch::channel(Orders::default());
        let (tell, news) = channel();
        let builder = thread::Builder::new().name("omniflow-standby".to_owned());
        let thread = builder
            .spawn(move || {
                runtime.block_on(Follower { config, copy, tell }.run(ordered));
            })
            .map_err(HubError::io("starting the standby's thread"))?;
        Ok(Self {
            orders,
            news: Mutex::new(news),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The leader of this term lets standbys follow at that address.
    pub fn follow(&self, term: u64, address: Address) {
        let target = Some(Target { term, address });
        self.orders.send_if_modified(|orders| {
            let changed = orders.target != target;
            orders.target = target;
            changed
        });
    }

    /// What has happened, for its log; none when nothing does in that time.
    pub fn news(&self, patience: Duration) -> Option<String> {
        self.news.lock().recv_timeout(patience).ok()
    }

    /// Says goodbye to the leader, and lets go of the journal. Harmless when done before.
    pub fn close(&self) {
        self.orders.send_modify(|orders| orders.stop = true);
        if let Some(thread) = self.thread.lock().take() {
            // It ends by itself; if it panicked the lock is gone too.
            let _ = thread.join();
        }
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.close();
    }
}

struct Follower {
    config: StandbyConfig,
    copy: JournalCopy,
    tell: Sender<String>,
}

/// Ends the link when whoever serves it stops, however that comes.
struct Guard(LinkSender);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Follower {
    async fn run(mut self, mut orders: watch::Receiver<Orders>) {
        let of = &self.config;
        let endpoint = endpoint(of.heartbeat, of.heartbeat_limit, of.limit, of.tls.as_ref());
        let (mut pause, mut told) = (FIRST_PAUSE, String::new());
        loop {
            let Orders { target, stop } = orders.borrow_and_update().clone();
            if stop {
                return;
            }
            let Some(target) = target else {
                if orders.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let mut began = false;
            let outcome = self
                .session(&endpoint, &target, &mut orders, &mut began)
                .await;
            if began {
                pause = FIRST_PAUSE;
                told.clear();
            }
            if let Err(why) = outcome {
                if why != told {
                    self.say(format!("does not follow {}: {why}", target.address));
                    told = why;
                }
                let _ = timeout(pause, orders.changed()).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    fn say(&self, news: String) {
        // Nobody listens any more when it is being closed.
        let _ = self.tell.send(news);
    }

    /// Follows until there are other orders (`Ok`), or it cannot.
    async fn session(
        &mut self,
        endpoint: &Endpoint,
        target: &Target,
        orders: &mut watch::Receiver<Orders>,
        began: &mut bool,
    ) -> Result<(), String> {
        let newest = self.copy.extent().newest_term();
        if newest > target.term {
            return Err(format!(
                "it leads with term {}, and this journal ends in term {newest}: it does not know yet that it leads no longer; \
                 if etcd has lost its data, move this journal away",
                target.term
            ));
        }
        let dialled = endpoint.dial(std::slice::from_ref(&target.address), PATIENCE);
        let (sender, reader) = tokio::select! {
            dialled = dialled => dialled.map_err(|error| error.to_string())?,
            _ = orders.changed() => return Ok(()),
        };
        let guard = Guard(sender);
        let extent = self.copy.extent();
        let follow = Follow {
            protocol: PROTOCOL,
            cluster: self.config.cluster.clone(),
            name: self.config.name.clone(),
            journal: self.config.journal_id.clone(),
            term: target.term,
            base: extent.base,
            last: extent.last,
            runs: extent
                .runs
                .iter()
                .copied()
                .map(messages::Run::from)
                .collect(),
        };
        let before = extent.last;
        let sent = guard.0.send(messages::message(FOLLOW, &follow));
        sent.map_err(|error| error.to_string())?;
        let tell = self.tell.clone();
        let copying = Copying::new(&mut self.copy);
        let copied = copy(copying, &guard.0, reader, |ack: &Ack| {
            *began = true;
            let _ = tell.send(format!(
                "follows term {} at {}: its journal had {before} records, and has {} with the leader's",
                target.term, target.address, ack.last
            ));
        });
        tokio::select! {
            outcome = copied => outcome,
            _ = orders.changed() => {
                guard.0.close();
                let _ = timeout(FAREWELL, guard.0.ended()).await;
                Ok(())
            }
        }
    }
}

/// Writes what comes and says so, until the link ends.
async fn copy(
    mut copying: Copying<'_>,
    sender: &LinkSender,
    mut reader: LinkReader,
    mut begun: impl FnMut(&Ack),
) -> Result<(), String> {
    let mut received = Vec::new();
    let mut first = true;
    loop {
        match reader.read(&mut received).await {
            Ok(true) => {}
            Ok(false) => return Err("the leader closed the link".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
        let ack = copying.take(received.drain(..))?;
        if std::mem::take(&mut first) {
            begun(&ack);
        }
        let told = sender.send(messages::message(ACK, &ack));
        told.map_err(|error| error.to_string())?;
    }
}
