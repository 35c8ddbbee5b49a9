//! A lender as one of its readers sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use bytes::Bytes;
use omniflow_arena::{Access, ArenaError, ArenaId, Channel, Content, HostArena, View, take_offers};
use omniflow_pages::{Generation, PageId, Stamped};
use omniflow_wire::v1;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use tokio::sync::Notify;

use crate::sharing::error::BorrowError;
use crate::sharing::holds::Holds;

/// A lender passes on one arena in its life; one that offers more than a few is not to fill up this process.
const MAX_ARENAS: usize = 4;

/// A lease is renewed so many times before it would end.
const RENEWALS: u32 = 4;

#[derive(Default)]
struct Leases {
    held: FxHashSet<u64>,
    /// To be said.
    released: Vec<u64>,
}

/// See the module.
pub(crate) struct Source {
    channel: Arc<Channel>,
    arenas: Mutex<Vec<HostArena>>,
    leases: Mutex<Leases>,
    holds: Arc<Holds>,
    /// Something was released.
    pub(crate) words: Notify,
    over: AtomicBool,
    renew_every: Duration,
}

/// What the `Bytes` of a borrowed payload own.
struct Borrowed {
    view: View,
    lease: u64,
    /// Whether `Holds` knows it.
    known: bool,
    source: Arc<Source>,
}

impl Source {
    /// Over a channel on which the greeting was said. Leases last for `lease`.
    pub(crate) fn new(channel: Arc<Channel>, lease: Duration, holds: Arc<Holds>) -> Self {
        Self {
            channel,
            arenas: Mutex::default(),
            leases: Mutex::default(),
            holds,
            words: Notify::new(),
            over: AtomicBool::new(false),
            renew_every: lease / RENEWALS,
        }
    }

    pub(crate) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// How often to say what is held.
    pub(crate) fn renew_every(&self) -> Duration {
        self.renew_every
    }

    /// Whether its process has ended, or let go of the channel. What was borrowed stays mapped.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// The payload of a lent frame, where it lies. Every number of the place is checked before anything is read.
    pub(crate) fn borrow(self: &Arc<Self>, lent: &v1::LentFrame) -> Result<Bytes, BorrowError> {
        let arena = self.arena(&lent.arena)?;
        if lent.bytes == 0 {
            return Err(BorrowError::Empty);
        }
        let view = arena.view(lent.offset, lent.bytes)?;
        let page = lent.offset / arena.layout().page_bytes();
        let stamped = Stamped {
            page: PageId(u32::try_from(page).unwrap_or(u32::MAX)),
            generation: Generation(lent.generation),
        };
        arena.verify(stamped)?;
        if !self.leases.lock().held.insert(lent.lease) {
            return Err(BorrowError::LeaseTwice(lent.lease));
        }
        let start = view.as_ptr() as usize;
        let known = self.holds.add(start, lent.bytes, (arena.clone(), stamped));
        let payload = Bytes::from_owner(Borrowed {
            view,
            lease: lent.lease,
            known,
            source: Arc::clone(self),
        });
        if known {
            return Ok(payload);
        }
        // Somebody still reads what was taken back there: what lies there now would be mistaken for it.
        let copy = Bytes::copy_from_slice(&payload);
        fence(Ordering::Acquire);
        arena.verify(stamped)?;
        Ok(copy)
    }

    fn arena(&self, id: &[u8]) -> Result<HostArena, BorrowError> {
        let known = |arenas: &[HostArena]| {
            let found = arenas.iter().find(|arena| arena.id().0 == *id);
            found.cloned()
        };
        let mut arenas = self.arenas.lock();
        if let Some(arena) = known(&arenas) {
            return Ok(arena);
        }
        // Its descriptor was sent before the frame was.
        self.take(&mut arenas)?;
        known(&arenas).ok_or_else(|| {
            let id: Option<[u8; 16]> = id.try_into().ok();
            let told = id.map_or_else(|| "?".to_owned(), |id| ArenaId(id).to_string());
            BorrowError::UnknownArena(told)
        })
    }

    /// Maps what was passed on and has not been looked at.
    pub(crate) fn take_arenas(&self) -> Result<(), ArenaError> {
        self.take(&mut self.arenas.lock())
    }

    fn take(&self, arenas: &mut Vec<HostArena>) -> Result<(), ArenaError> {
        loop {
            let offered = match take_offers(&self.channel, Some(Duration::ZERO)) {
                Ok(offered) => offered,
                Err(ArenaError::TimedOut) => return Ok(()),
                Err(error) => return Err(error),
            };
            for arena in offered {
                let fits = arena.layout().content() == Content::Blobs;
                if !fits || arenas.len() == MAX_ARENAS {
                    return Err(ArenaError::BadMessage {
                        why: "it passes on an arena that frames cannot lie in, or too many".into(),
                    });
                }
                // For reading only: a role that writes where it must not ends itself, and nobody else.
                arenas.push(arena.open(Access::Read)?.0);
            }
        }
    }

    /// What there is to say to the lender now. `renew`: all that is held, else what was released.
    pub(crate) fn words_to_say(&self, renew: bool) -> Vec<v1::ArenaWords> {
        let mut leases = self.leases.lock();
        let held: Vec<u64> = match renew {
            true => leases.held.iter().copied().collect(),
            false => Vec::new(),
        };
        let released = std::mem::take(&mut leases.released);
        drop(leases);
        words(&held, &released)
    }

    fn release(&self, lease: u64) {
        let mut leases = self.leases.lock();
        leases.held.remove(&lease);
        if self.is_over() {
            return;
        }
        leases.released.push(lease);
        drop(leases);
        self.words.notify_one();
    }
}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the lender writes no block of a blob that is lent, and nobody else maps the arena for writing. It was
        // found to be as told when it was borrowed; output that was made of it leaves only after `Reads::check`.
        unsafe { self.view.as_slice() }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if self.known {
            let (start, bytes) = (self.view.as_ptr() as usize, self.view.len() as u64);
            self.source.holds.remove(start, bytes);
        }
        self.source.release(self.lease);
    }
}

/// As many messages as it takes: each has at most so many numbers, of ten bytes at most.
fn words(held: &[u64], released: &[u64]) -> Vec<v1::ArenaWords> {
    const NUMBERS: usize = 700;
    let held = held.chunks(NUMBERS).map(|held| v1::ArenaWords {
        held: held.to_vec(),
        released: Vec::new(),
    });
    let released = released.chunks(NUMBERS).map(|released| v1::ArenaWords {
        held: Vec::new(),
        released: released.to_vec(),
    });
    held.chain(released).collect()
}
