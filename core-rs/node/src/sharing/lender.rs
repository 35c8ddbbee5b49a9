//! What is lent: to whom, and until when.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use omniflow_arena::{Channel, HostArena, Offer, offer};
use omniflow_wire::v1;
use parking_lot::Mutex;
use prost::Message as _;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::Notify;

/// What both sides call the arena.
const ARENA: &str = "frames";

/// More than a channel's queue takes: who says more while it is heard waits for the next time.
const MANY_WORDS: usize = 1024;

/// One connection of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReaderId(u64);

struct Reader {
    name: String,
    incarnation: String,
    channel: Arc<Channel>,
    /// Whether it has the arena's descriptor.
    offered: bool,
}

/// A payload that a reader may be reading.
struct Lease {
    payload: Bytes,
    reader: ReaderId,
    until: Instant,
}

#[derive(Default)]
struct Book {
    readers: FxHashMap<ReaderId, Reader>,
    leases: FxHashMap<u64, Lease>,
    last_reader: u64,
    last_lease: u64,
}

/// See the module.
pub(crate) struct Lender {
    book: Mutex<Book>,
    lease: Duration,
    came: Notify,
}

impl Lender {
    /// A lease that is not renewed ends after `lease`.
    pub(crate) fn new(lease: Duration) -> Self {
        Self {
            book: Mutex::default(),
            lease,
            came: Notify::new(),
        }
    }

    /// Somebody has connected, and said who it is.
    pub(crate) fn admit(&self, greeting: v1::ArenaGreeting, channel: Arc<Channel>) -> ReaderId {
        let mut book = self.book.lock();
        book.last_reader += 1;
        let id = ReaderId(book.last_reader);
        let reader = Reader {
            name: greeting.from,
            incarnation: greeting.from_incarnation,
            channel,
            offered: false,
        };
        book.readers.insert(id, reader);
        drop(book);
        self.came.notify_waiters();
        id
    }

    /// The reader's connection, if it comes within `patience`.
    pub(crate) async fn reader(
        &self,
        name: &str,
        incarnation: &str,
        patience: Duration,
    ) -> Option<ReaderId> {
        let comes = async {
            loop {
                let came = self.came.notified();
                tokio::pin!(came);
                // Before looking, so that nobody comes in between unnoticed.
                came.as_mut().enable();
                if let Some(reader) = self.find(name, incarnation) {
                    return reader;
                }
                came.await;
            }
        };
        tokio::time::timeout(patience, comes).await.ok()
    }

    fn find(&self, name: &str, incarnation: &str) -> Option<ReaderId> {
        let book = self.book.lock();
        let same = |reader: &Reader| reader.name == name && reader.incarnation == incarnation;
        let found = book.readers.iter().filter(|(_, reader)| same(reader));
        // The newest, if an old connection has not been noticed to be closed.
        found.map(|(id, _)| *id).max_by_key(|id| id.0)
    }

    /// Lends a payload of this arena; the lease's number. `None`: the reader is gone, or does not take its descriptor.
    pub(crate) fn lend(&self, reader: ReaderId, arena: &HostArena, payload: &Bytes) -> Option<u64> {
        let mut book = self.book.lock();
        let known = book.readers.get_mut(&reader)?;
        if !known.offered {
            let arena = Offer {
                name: ARENA,
                arena,
                elsewhere: None,
            };
            offer(&known.channel, &[arena], Some(Duration::ZERO)).ok()?;
            known.offered = true;
        }
        book.last_lease += 1;
        let number = book.last_lease;
        let lease = Lease {
            payload: payload.clone(),
            reader,
            until: Instant::now() + self.lease,
        };
        book.leases.insert(number, lease);
        Some(number)
    }

    /// What a reader says of its leases. Of those of others, or that are over, nothing is changed.
    pub(crate) fn hear(&self, reader: ReaderId, words: &v1::ArenaWords, now: Instant) {
        let mut over = Vec::new();
        let mut book = self.book.lock();
        for number in &words.held {
            let lease = book.leases.get_mut(number);
            if let Some(lease) = lease.filter(|lease| lease.reader == reader) {
                lease.until = now + self.lease;
            }
        }
        for number in &words.released {
            if (book.leases.get(number)).is_some_and(|lease| lease.reader == reader) {
                over.extend(book.leases.remove(number));
            }
        }
        drop(book);
        // Payloads free their blocks without the lock.
        drop(over);
    }

    /// Its process has ended, or let go of everything.
    pub(crate) fn hung_up(&self, reader: ReaderId) {
        self.book.lock().readers.remove(&reader);
        self.end(|lease| lease.reader == reader);
    }

    /// Ends leases that were not renewed in time: of frames that were lost with their link, and of readers that stand still.
    /// What readers have said counts first: this worker may have stood still, and not have heard it yet.
    pub(crate) fn expire(&self, now: Instant) {
        for (reader, channel) in self.late_readers(now) {
            self.hear_all(reader, &channel, now);
        }
        self.end(|lease| lease.until < now);
    }

    fn late_readers(&self, now: Instant) -> Vec<(ReaderId, Arc<Channel>)> {
        let book = self.book.lock();
        let late = book.leases.values().filter(|lease| lease.until < now);
        let late: FxHashSet<ReaderId> = late.map(|lease| lease.reader).collect();
        let readers = late.into_iter();
        readers
            .filter_map(|id| Some((id, Arc::clone(&book.readers.get(&id)?.channel))))
            .collect()
    }

    fn hear_all(&self, reader: ReaderId, channel: &Channel, now: Instant) {
        for _ in 0..MANY_WORDS {
            // Hang-ups are for the channel's own task to find.
            let Ok(message) = channel.receive(Some(Duration::ZERO)) else {
                return;
            };
            match v1::ArenaWords::decode(&message.payload[..]) {
                Ok(words) => self.hear(reader, &words, now),
                Err(_) => return self.hung_up(reader),
            }
        }
    }

    fn end(&self, ends: impl Fn(&Lease) -> bool) {
        let mut book = self.book.lock();
        let over: Vec<u64> = book
            .leases
            .iter()
            .filter(|(_, lease)| ends(lease))
            .map(|(number, _)| *number)
            .collect();
        let over: Vec<Lease> = over
            .iter()
            .filter_map(|number| book.leases.remove(number))
            .collect();
        drop(book);
        drop(over);
    }

    /// Leases that last, and bytes under them.
    pub(crate) fn lent(&self) -> (u64, u64) {
        let book = self.book.lock();
        let bytes = book.leases.values().map(|lease| lease.payload.len() as u64);
        (book.leases.len() as u64, bytes.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::store::{BIG_BYTES, Store};

    #[test]
    fn rule_19_a_lender_that_stood_still_hears_what_was_said_before_it_ends_a_lease() {
        let lease = Duration::from_secs(20);
        let (lender, store) = (Lender::new(lease), Store::new(64 * BIG_BYTES as u64));
        let (here, there) = Channel::pair().expect("sockets");
        let reader = lender.admit(v1::ArenaGreeting::default(), Arc::new(here));
        let payload = store.put(&[&vec![7; 2 * BIG_BYTES]]);
        let (arena, _) = store.find(&payload).expect("in the arena");
        let held = lender.lend(reader, arena, &payload).expect("there");
        let released = lender.lend(reader, arena, &payload).expect("there");
        lender.lend(reader, arena, &payload).expect("there");
        let words = v1::ArenaWords {
            held: vec![held],
            released: vec![released],
        };
        there
            .send(&words.encode_to_vec(), &[], None)
            .expect("room for it");
        let late = Instant::now() + 2 * lease;
        lender.expire(late);
        assert_eq!(lender.lent().0, 1, "the one that was renewed");
        lender.expire(late + lease);
        assert_eq!(lender.lent().0, 1, "for a whole lease from then on");
        lender.expire(late + 2 * lease);
        assert_eq!(lender.lent().0, 0);
    }
}
