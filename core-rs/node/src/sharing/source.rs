//! A lender as one of its readers sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use omniflow_arena::{Access, ArenaError, ArenaId, Channel, Content, HostArena, View, take_offers};
use omniflow_pages::{Generation, PageId, Stamped};
use omniflow_wire::v1;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use crate::sharing::check::Renewals;
use crate::sharing::error::BorrowError;

/// A lender passes on one arena in its life; one that offers more than a few is not to fill up this process.
const MAX_ARENAS: usize = 4;

/// What is read of it here.
struct Hold {
    arena: HostArena,
    stamped: Stamped,
    bytes: u64,
}

#[derive(Default)]
struct Holds {
    by_lease: FxHashMap<u64, Hold>,
    /// To be said.
    released: Vec<u64>,
}

/// See the module.
pub(crate) struct Source {
    channel: Arc<Channel>,
    arenas: Mutex<Vec<HostArena>>,
    holds: Mutex<Holds>,
    /// Something was released.
    pub(crate) words: Notify,
    over: AtomicBool,
    renewals: Renewals,
}

/// What the `Bytes` of a borrowed payload own.
struct Borrowed {
    view: View,
    lease: u64,
    source: Arc<Source>,
}

impl Source {
    /// Over a channel on which the greeting was said. Leases last for `lease`.
    pub(crate) fn new(channel: Arc<Channel>, lease: Duration) -> Self {
        Self {
            channel,
            arenas: Mutex::default(),
            holds: Mutex::default(),
            words: Notify::new(),
            over: AtomicBool::new(false),
            renewals: Renewals::new(lease, Instant::now()),
        }
    }

    pub(crate) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// How often to say what is held.
    pub(crate) fn renew_every(&self) -> Duration {
        self.renewals.every()
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
        let hold = Hold {
            arena,
            stamped,
            bytes: lent.bytes,
        };
        let mut holds = self.holds.lock();
        if holds.by_lease.contains_key(&lent.lease) {
            return Err(BorrowError::LeaseTwice(lent.lease));
        }
        holds.by_lease.insert(lent.lease, hold);
        drop(holds);
        Ok(Bytes::from_owner(Borrowed {
            view,
            lease: lent.lease,
            source: Arc::clone(self),
        }))
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
    pub(crate) fn words_to_say(&self, renew: bool, now: Instant) -> Vec<v1::ArenaWords> {
        let mut holds = self.holds.lock();
        let held: Vec<u64> = match renew {
            true => holds.by_lease.keys().copied().collect(),
            false => Vec::new(),
        };
        let released = std::mem::take(&mut holds.released);
        drop(holds);
        if renew {
            self.renewals.renewed(now);
        }
        words(&held, &released)
    }

    /// That what is held is as it was, if a renewal came too late, or is about to. `StalePage`.
    pub(crate) fn check(&self, always: bool) -> Result<(), BorrowError> {
        if !always && !self.renewals.are_late(Instant::now()) {
            return Ok(());
        }
        let holds = self.holds.lock();
        for hold in holds.by_lease.values() {
            hold.arena.verify(hold.stamped)?;
        }
        self.renewals.found_good();
        Ok(())
    }

    /// Payloads that are held here, and their bytes.
    pub(crate) fn held(&self) -> (u64, u64) {
        let holds = self.holds.lock();
        let bytes = holds.by_lease.values().map(|hold| hold.bytes);
        (holds.by_lease.len() as u64, bytes.sum())
    }

    fn release(&self, lease: u64) {
        let mut holds = self.holds.lock();
        holds.by_lease.remove(&lease);
        holds.released.push(lease);
        drop(holds);
        self.words.notify_one();
    }
}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the lender writes no block of a blob that is lent, and nobody else maps the arena for writing. It was
        // found to be as told when it was borrowed; output that was made of it leaves only after `Source::check`.
        unsafe { self.view.as_slice() }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
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
