//! Big payloads in memory that workers of one host share: each is written once, and read where it lies.
//!
//! - [`Store`] is this worker's arena. What an activation emits is put there, and from then on is `Bytes` like any other:
//!   retention, fan-out, credits and quotas need not know. The last clone that is dropped frees its blocks.
//! - [`Lender`] lends such payloads: a link message says where one lies, and the lender keeps a clone until its reader has let
//!   go of it, hangs up, or is silent for too long (rule 19).
//! - [`Source`] is a lender as its reader sees it. It checks every place that it is told, and makes `Bytes` of it; dropping
//!   the last clone says that it is released.
//! - [`Holds`] are all places that are read here. They are looked at before output of who read them leaves.
//! - `channels` moves their words: a reader connects to the lender's arena channel, over which the arena's descriptor comes.
//!   The kernel closes it when one of them dies, and with it go all holds.
//!
//! Elsewhere (on another host, without an arena, with a full one, to the scheduler) payloads go inline.

mod channels;
mod error;
mod holds;
mod lender;
mod source;
mod store;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use omniflow_arena::{Address, Listener};
use omniflow_wire::{Frame, LinkMessage, v1};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::io::Identity;
pub(crate) use channels::{connect, listen};
pub(crate) use error::BorrowError;
pub(crate) use holds::{Holds, Reads};
pub(crate) use lender::{Lender, ReaderId};
pub(crate) use source::Source;
pub(crate) use store::Store;
pub use store::{BIG_BYTES, Draft};

/// Listeners of one process, so that each has a name of its own.
static LISTENERS: AtomicU64 = AtomicU64::new(0);

/// Where a listener's name may be taken already, by a process of the same number in another container.
const ADDRESSES: u64 = 16;

/// Big payloads since the start. Those that went inline were copied on their way.
#[derive(Debug, Default)]
struct Counts {
    sent_in_place: AtomicU64,
    sent_inline: AtomicU64,
    received_inline: AtomicU64,
}

/// See the module.
pub(crate) struct Sharing {
    pub(crate) store: Store,
    pub(crate) lender: Lender,
    /// Taken by the task that accepts.
    listener: Mutex<Option<Listener>>,
    address: String,
    sources: Mutex<FxHashMap<(String, String), Arc<Source>>>,
    pub(crate) holds: Arc<Holds>,
    lease: Duration,
    counts: Counts,
}

impl Sharing {
    /// For a worker that lends at most `bytes` at once, each for `lease` after its reader's last word. 0: it lends nothing.
    pub(crate) fn new(identity: &Identity, bytes: u64, lease: Duration) -> Self {
        let listener = (bytes > 0).then(|| bind(identity)).flatten();
        let address = listener.as_ref().map(|listener| listener.address().clone());
        Self {
            store: Store::new(bytes),
            lender: Lender::new(lease),
            listener: Mutex::new(listener),
            address: match address {
                Some(Address::Abstract(name)) => name,
                _ => String::new(),
            },
            sources: Mutex::default(),
            holds: Arc::default(),
            lease,
            counts: Counts::default(),
        }
    }

    /// How long a reader may be silent.
    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    /// Nothing is read or lent any more, but what somebody holds.
    pub(crate) fn close(&self) {
        self.sources.lock().clear();
    }

    /// Where readers of this host connect to; empty: nothing is lent.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The message by which a frame goes to a peer: without its payload, if that can be lent.
    pub(crate) fn outgoing(&self, frame: &Frame, reader: Option<ReaderId>) -> Option<LinkMessage> {
        if frame.payload.len() <= BIG_BYTES {
            return None;
        }
        let lent = reader.and_then(|reader| self.lend(frame, reader));
        let count = match lent {
            Some(_) => &self.counts.sent_in_place,
            None => &self.counts.sent_inline,
        };
        count.fetch_add(1, Ordering::Relaxed);
        lent.map(LinkMessage::from)
    }

    fn lend(&self, frame: &Frame, reader: ReaderId) -> Option<v1::LentFrame> {
        let (arena, place) = self.store.find(&frame.payload)?;
        let lease = self.lender.lend(reader, arena, &frame.payload)?;
        Some(v1::LentFrame {
            header: Some(frame.header.clone()),
            arena: Bytes::copy_from_slice(&arena.id().0),
            offset: place.offset,
            bytes: place.bytes,
            generation: place.first.generation.0,
            lease,
        })
    }

    /// The frame that was lent.
    pub(crate) fn incoming(
        &self,
        source: Option<&Arc<Source>>,
        lent: v1::LentFrame,
    ) -> Result<Frame, BorrowError> {
        let source = source.ok_or(BorrowError::NotConnected)?;
        let payload = source.borrow(&lent)?;
        let header = lent.header.unwrap_or_default();
        if header.mark != i32::from(v1::Mark::None) {
            return Err(BorrowError::Mark);
        }
        Ok(Frame { header, payload })
    }

    /// A frame came with its payload.
    pub(crate) fn note_inline(&self, payload: &Bytes) {
        if payload.len() > BIG_BYTES {
            self.counts.received_inline.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Now and then: forgets leases that nobody renews.
    pub(crate) fn housekeeping(&self) {
        self.lender.expire(Instant::now());
    }

    /// Counters and gauges, by name.
    pub(crate) fn stats(&self) -> Vec<(&'static str, u64)> {
        let (lent, lent_bytes) = self.lender.lent();
        let (borrowed, borrowed_bytes) = self.holds.held();
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        vec![
            ("arena_blobs", self.store.blobs()),
            ("arena_bytes", self.store.bytes()),
            ("arena_capacity", self.store.capacity()),
            ("arena_writes", self.store.writes()),
            ("arena_full", self.store.refused()),
            ("lent", lent),
            ("lent_bytes", lent_bytes),
            ("borrowed", borrowed),
            ("borrowed_bytes", borrowed_bytes),
            ("sent_in_place", count(&self.counts.sent_in_place)),
            ("sent_inline", count(&self.counts.sent_inline)),
            ("received_inline", count(&self.counts.received_inline)),
        ]
    }
}

fn bind(identity: &Identity) -> Option<Listener> {
    (0..ADDRESSES).find_map(|_| {
        let number = LISTENERS.fetch_add(1, Ordering::Relaxed);
        let life: String = identity.incarnation.chars().take(32).collect();
        let name = format!("omniflow-blobs-{}-{number}-{life}", std::process::id());
        Listener::bind(&Address::Abstract(name)).ok()
    })
}
