//! What each client still has to be told. No frames are queued here: subscriptions hold cursors into the jobs' results,
//! so that a slow client costs no memory.

use std::collections::VecDeque;
use std::time::Duration;

use omniflow_control::{JobId, Micros};
use omniflow_grpc::News;
use omniflow_wire::v1;
use rustc_hash::{FxHashMap, FxHashSet};
use slab::Slab;

use crate::connect::Told;
use crate::rooms::Room;

/// How long the word that a job is accepted may wait for something else to travel with: the job itself does not wait.
pub(crate) const ACCEPTED_WITHIN: Duration = Duration::from_millis(2);

/// Whoever waits is woken at most once in this time: under load a message then tells of several jobs, and most of what one
/// costs at the edge is the message.
const PACE: Duration = Duration::from_millis(1);

/// When a client is to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// It is no news for it.
    #[default]
    None,
    /// With the next thing that cannot wait, or within `ACCEPTED_WITHIN`.
    Soon,
    /// As soon as `PACE` allows.
    Now,
}

/// One client's interest in one job.
pub(crate) struct Subscription {
    pub(crate) client: u64,
    pub(crate) tag: u64,
    pub(crate) job: JobId,
    /// `Accepted` still has to be sent; whether the job had existed before.
    pub(crate) accepted: Option<bool>,
    /// By result: the next sequence number.
    pub(crate) cursors: Box<[u64]>,
    /// By result: how far it may come; none: as far as the client's stream takes it.
    pub(crate) rooms: Option<Box<[Room]>>,
    /// Into the job's progress, for those who asked.
    pub(crate) progress: Option<usize>,
    /// It is in its client's queue.
    pub(crate) queued: bool,
    /// Nothing is told before the journal has this record.
    pub(crate) after: u64,
    /// It waits for that.
    pub(crate) held: bool,
    /// Of what it has not been told.
    pub(crate) urgency: Urgency,
}

/// Something that a client is to be told.
pub(crate) enum Entry {
    /// An event that belongs to no subscription.
    Event(Box<v1::JobEvent>),
    /// A subscription has news.
    News(usize),
}

#[derive(Default)]
struct Client {
    queue: VecDeque<Entry>,
    /// How many of the entries are events: what the queue holds in memory.
    events: usize,
    subscriptions: FxHashSet<usize>,
    /// It has been named by `ready`, or will be, and `take` has not emptied it since.
    announced: bool,
    /// Who serves it and is told by itself; it is not named by `ready`.
    news: Option<News>,
    /// What that was told since `take` has emptied the queue.
    told: Urgency,
}

/// All open clients.
#[derive(Default)]
pub(crate) struct Clients {
    open: FxHashMap<u64, Client>,
    subscriptions: Slab<Subscription>,
    last: u64,
    ready: Vec<u64>,
    /// Clients of which those who serve them are to be told at the end of the turn.
    untold: Vec<u64>,
    /// The most urgent of what those that are ready have to be told.
    urgency: Urgency,
    /// What whoever waits has been woken for.
    signalled: Urgency,
    /// When it last asked what there is.
    asked: Micros,
    /// The last record that the journal has.
    written: u64,
    /// Subscriptions whose news wait for a record, in about the order of the records.
    held: VecDeque<(u64, usize)>,
}

impl Clients {
    /// `news`: who serves it is told of what there is for it.
    pub(crate) fn open(&mut self, news: Option<News>) -> u64 {
        self.last += 1;
        let client = Client {
            news,
            ..Client::default()
        };
        self.open.insert(self.last, client);
        self.last
    }

    pub(crate) fn is_open(&self, client: u64) -> bool {
        self.open.contains_key(&client)
    }

    /// Forgets the client; returns its subscriptions, which no longer exist, with their jobs.
    pub(crate) fn close(&mut self, client: u64) -> Vec<(JobId, usize)> {
        let Some(client) = self.open.remove(&client) else {
            return Vec::new();
        };
        client
            .subscriptions
            .into_iter()
            .map(|id| (self.subscriptions.remove(id).job, id))
            .collect()
    }

    pub(crate) fn subscribe(&mut self, subscription: Subscription) -> usize {
        let client = subscription.client;
        let id = self.subscriptions.insert(subscription);
        if let Some(client) = self.open.get_mut(&client) {
            client.subscriptions.insert(id);
        }
        id
    }

    pub(crate) fn unsubscribe(&mut self, id: usize) {
        let subscription = self.subscriptions.remove(id);
        if let Some(client) = self.open.get_mut(&subscription.client) {
            client.subscriptions.remove(&id);
        }
    }

    pub(crate) fn subscription(&mut self, id: usize) -> Option<&mut Subscription> {
        self.subscriptions.get_mut(id)
    }

    /// Whether that is what the client calls by this tag.
    pub(crate) fn is_at(&self, id: usize, client: u64, tag: u64) -> bool {
        let subscription = self.subscriptions.get(id);
        subscription.is_some_and(|found| found.client == client && found.tag == tag)
    }

    /// Whether its client reads that result, as far as is known.
    pub(crate) fn reads(&self, id: usize, port: usize) -> bool {
        let rooms = self
            .subscriptions
            .get(id)
            .and_then(|found| found.rooms.as_ref());
        let room = rooms.and_then(|rooms| rooms.get(port));
        room.is_none_or(|room| !room.is_unread())
    }

    /// The subscription has something for its client, to be told once the journal has the record of that number.
    pub(crate) fn news(&mut self, id: usize, after: u64, urgency: Urgency) {
        let Some(subscription) = self.subscriptions.get_mut(id) else {
            return;
        };
        subscription.after = subscription.after.max(after);
        subscription.urgency = subscription.urgency.max(urgency);
        if subscription.after > self.written {
            if !std::mem::replace(&mut subscription.held, true) {
                self.held.push_back((subscription.after, id));
            }
            return;
        }
        let (client, urgency) = (subscription.client, subscription.urgency);
        if std::mem::replace(&mut subscription.queued, true) {
            self.hurry(client, urgency);
        } else {
            self.push(client, Entry::News(id), urgency);
        }
    }

    /// The subscription was named to its client before the journal has all that it would be told.
    pub(crate) fn hold(&mut self, id: usize) -> bool {
        let early = self
            .subscriptions
            .get_mut(id)
            .filter(|subscription| subscription.after > self.written);
        let Some(subscription) = early else {
            return false;
        };
        subscription.queued = false;
        self.news(id, 0, Urgency::None);
        true
    }

    /// The journal has everything up to this record.
    pub(crate) fn written(&mut self, number: u64) {
        self.written = self.written.max(number);
        while let Some((after, id)) = self.held.front().copied()
            && after <= self.written
        {
            self.held.pop_front();
            if let Some(subscription) = self.subscriptions.get_mut(id) {
                subscription.held = false;
                self.news(id, 0, Urgency::None);
            }
        }
    }

    pub(crate) fn written_to(&self) -> u64 {
        self.written
    }

    /// Subscriptions that wait to be told that their new job is accepted: with client, tag and job.
    pub(crate) fn unaccepted(&self) -> Vec<(usize, u64, u64, JobId)> {
        let held = self.held.iter().filter_map(|(_, id)| {
            let subscription = self.subscriptions.get(*id)?;
            (subscription.accepted == Some(false)).then_some((
                *id,
                subscription.client,
                subscription.tag,
                subscription.job,
            ))
        });
        held.collect()
    }

    pub(crate) fn tell(&mut self, client: u64, event: v1::JobEvent) {
        self.push(client, Entry::Event(Box::new(event)), Urgency::Now);
    }

    fn push(&mut self, id: u64, entry: Entry, urgency: Urgency) {
        let Some(client) = self.open.get_mut(&id) else {
            return;
        };
        client.events += usize::from(matches!(entry, Entry::Event(_)));
        client.queue.push_back(entry);
        if client.news.is_none() && !std::mem::replace(&mut client.announced, true) {
            self.ready.push(id);
        }
        self.hurry(id, urgency);
    }

    /// There is something for the client that is so urgent.
    fn hurry(&mut self, id: u64, urgency: Urgency) {
        let Some(client) = self.open.get_mut(&id) else {
            return;
        };
        if client.news.is_none() {
            self.urgency = self.urgency.max(urgency);
        } else if urgency > client.told {
            client.told = urgency;
            self.untold.push(id);
        }
    }

    /// Whom to tell, and how urgently.
    pub(crate) fn untold(&mut self) -> Told {
        let news = |id: u64| {
            let client = self.open.get(&id)?;
            Some((client.news.clone()?, client.told.within()))
        };
        self.untold.drain(..).filter_map(news).collect()
    }

    /// The next thing for a client; none once it has been told everything.
    pub(crate) fn pop(&mut self, id: u64) -> Option<Entry> {
        let client = self.open.get_mut(&id)?;
        let entry = client.queue.pop_front();
        match &entry {
            None => (client.announced, client.told) = (false, Urgency::None),
            Some(Entry::Event(_)) => client.events -= 1,
            Some(Entry::News(_)) => {}
        }
        entry
    }

    /// Events that wait for the client to take them; subscriptions with news are not counted, for they hold nothing.
    pub(crate) fn unsent(&self, id: u64) -> usize {
        self.open.get(&id).map_or(0, |client| client.events)
    }

    /// There was no room for all of it: it goes behind what others of the same client have to say.
    pub(crate) fn put_back(&mut self, id: usize) {
        if let Some(client) = self
            .subscriptions
            .get(id)
            .and_then(|subscription| self.open.get_mut(&subscription.client))
        {
            client.queue.push_back(Entry::News(id));
        }
    }

    /// Clients with something to take; each once until it has been emptied.
    pub(crate) fn take_ready(&mut self, now: Micros) -> Vec<u64> {
        self.asked = now;
        (self.signalled, self.urgency) = (Urgency::None, Urgency::None);
        let mut ready = std::mem::take(&mut self.ready);
        ready.retain(|client| self.open.contains_key(client));
        ready
    }

    /// When whoever waits must be woken, if that is sooner than was said before; once until `take_ready`.
    pub(crate) fn must_signal(&mut self, now: Micros) -> Option<Duration> {
        if self.ready.is_empty() || self.urgency <= self.signalled {
            return None;
        }
        self.signalled = self.urgency;
        Some(match self.urgency {
            Urgency::Now => PACE.saturating_sub(Duration::from_micros(now.since(self.asked))),
            Urgency::Soon | Urgency::None => ACCEPTED_WITHIN,
        })
    }
}
