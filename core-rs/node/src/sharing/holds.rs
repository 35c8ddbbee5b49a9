//! What this worker reads of what others lend, and whether it is still as it was (rule 19).
//!
//! A lease can end without its reader's fault: its lender stood still and then ends leases, or their channel broke. So
//! each place is looked at when its last reader lets go of it, and before output leaves of an activation that has read it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

use bytes::Bytes;
use omniflow_arena::{ArenaError, HostArena};
use omniflow_pages::Stamped;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use thiserror::Error;

/// What an activation has read does not count.
#[derive(Debug, Error)]
pub(crate) enum StaleError {
    /// One of its own inputs.
    #[error(transparent)]
    Input(#[from] ArenaError),
    /// It ran when that was found; who knows whether its role has made use of it.
    #[error("a value that was kept after its activation has been taken back by its lender")]
    Kept,
}

/// A place in a lender's arena, for as long as it is read here, under however many leases.
pub(crate) struct Hold {
    arena: HostArena,
    stamped: Stamped,
    /// Nobody reads it any more, and until then it was as told.
    let_go: AtomicBool,
    /// It outlives an activation that read it.
    kept: AtomicBool,
}

impl Hold {
    fn is_let_go(&self) -> bool {
        self.let_go.load(Ordering::Acquire)
    }

    /// That it is as told, or was for as long as it was read.
    fn check(&self) -> Result<(), ArenaError> {
        if self.is_let_go() {
            return Ok(());
        }
        match self.look() {
            // Its lender frees it only after that.
            Err(_) if self.is_let_go() => Ok(()),
            found => found,
        }
    }

    fn look(&self) -> Result<(), ArenaError> {
        // All that was read of it was read before its generation is.
        fence(Ordering::Acquire);
        self.arena.verify(self.stamped)
    }
}

struct Place {
    hold: Arc<Hold>,
    leases: usize,
}

#[derive(Default)]
struct Book {
    /// By where they begin in this process.
    places: FxHashMap<usize, Place>,
    bytes: u64,
}

/// See the module. Of all lenders, connected or not.
#[derive(Default)]
pub(crate) struct Holds {
    book: Mutex<Book>,
    leases: AtomicUsize,
    kept: Mutex<Vec<Arc<Hold>>>,
    kept_count: AtomicUsize,
    /// How many of those were found to have changed.
    lost: AtomicU64,
}

impl Holds {
    /// One more lease of a place that has just been found as told. False: what lay there before is still read.
    pub(crate) fn add(
        &self,
        start: usize,
        bytes: u64,
        (arena, stamped): (HostArena, Stamped),
    ) -> bool {
        let mut book = self.book.lock();
        let place = book.places.entry(start).or_insert_with(|| Place {
            hold: Arc::new(Hold {
                arena,
                stamped,
                let_go: AtomicBool::new(false),
                kept: AtomicBool::new(false),
            }),
            leases: 0,
        });
        if place.hold.stamped != stamped {
            return false;
        }
        place.leases += 1;
        book.bytes += bytes;
        self.leases.fetch_add(1, Ordering::Release);
        true
    }

    /// Before its lender hears of it.
    pub(crate) fn remove(&self, start: usize, bytes: u64) {
        let mut book = self.book.lock();
        book.bytes -= bytes;
        self.leases.fetch_sub(1, Ordering::Release);
        let Some(place) = book.places.get_mut(&start) else {
            return;
        };
        place.leases -= 1;
        if place.leases == 0
            && let Some(place) = book.places.remove(&start)
            && place.hold.look().is_ok()
        {
            place.hold.let_go.store(true, Ordering::Release);
        }
    }

    /// Leases that are held, and bytes under them.
    pub(crate) fn held(&self) -> (u64, u64) {
        let bytes = self.book.lock().bytes;
        (self.leases.load(Ordering::Acquire) as u64, bytes)
    }

    /// An activation is given these payloads: those that are lent are its to check.
    fn note<'a>(&self, payloads: impl IntoIterator<Item = &'a Bytes>, reads: &Reads) {
        if self.leases.load(Ordering::Acquire) == 0 {
            return;
        }
        let book = self.book.lock();
        let places = payloads
            .into_iter()
            .filter_map(|payload| book.places.get(&(payload.as_ptr() as usize)));
        for place in places {
            reads.add(&place.hold);
        }
    }

    /// An activation is over. What it read and is read on, a role may have kept for later ones.
    fn keep(&self, holds: Vec<Arc<Hold>>) {
        let is_kept = |hold: &Arc<Hold>| {
            !hold.is_let_go() && hold.look().is_ok() && !hold.kept.swap(true, Ordering::AcqRel)
        };
        let holds: Vec<_> = holds.into_iter().filter(is_kept).collect();
        if !holds.is_empty() {
            let mut kept = self.kept.lock();
            kept.extend(holds);
            self.kept_count.store(kept.len(), Ordering::Release);
        }
    }

    /// Looks at what is kept. Each that has changed counts once, for all activations that run then.
    fn lost(&self) -> u64 {
        if self.kept_count.load(Ordering::Acquire) > 0 {
            let mut kept = self.kept.lock();
            kept.retain(|hold| {
                let changed = hold.check().is_err();
                if changed {
                    self.lost.fetch_add(1, Ordering::AcqRel);
                }
                !changed && !hold.is_let_go()
            });
            self.kept_count.store(kept.len(), Ordering::Release);
        }
        self.lost.load(Ordering::Acquire)
    }
}

/// What one activation has been given to read in place.
pub(crate) struct Reads {
    book: Arc<Holds>,
    /// `Holds::lost` when it began.
    lost: u64,
    any: AtomicBool,
    holds: Mutex<Vec<Arc<Hold>>>,
}

/// So many of them are looked through before more are noted.
const MANY: usize = 64;

impl Reads {
    pub(crate) fn new(book: &Arc<Holds>) -> Self {
        Self {
            book: Arc::clone(book),
            lost: book.lost.load(Ordering::Acquire),
            any: AtomicBool::new(false),
            holds: Mutex::default(),
        }
    }

    pub(crate) fn note<'a>(&self, payloads: impl IntoIterator<Item = &'a Bytes>) {
        self.book.note(payloads, self);
    }

    fn add(&self, hold: &Arc<Hold>) {
        let mut holds = self.holds.lock();
        if holds.len() >= MANY {
            holds.retain(|hold| !hold.is_let_go());
        }
        holds.push(Arc::clone(hold));
        self.any.store(true, Ordering::Release);
    }

    /// That all of it is as it was, or was for as long as it was read. Asked before output leaves.
    pub(crate) fn check(&self) -> Result<(), StaleError> {
        if self.book.lost() != self.lost {
            return Err(StaleError::Kept);
        }
        if self.any.load(Ordering::Acquire) {
            let mut holds = self.holds.lock();
            holds.retain(|hold| !hold.is_let_go());
            holds.iter().try_for_each(|hold| hold.check())?;
        }
        Ok(())
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        if *self.any.get_mut() {
            self.book.keep(std::mem::take(self.holds.get_mut()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::store::{BIG_BYTES, Store};

    /// A lender's payload, read by one activation under one lease.
    struct Scene {
        store: Store,
        holds: Arc<Holds>,
        payload: Bytes,
        reads: Reads,
    }

    impl Scene {
        fn new() -> Self {
            let store = Store::new(16 * BIG_BYTES as u64);
            let payload = store.put(&[&vec![7; 2 * BIG_BYTES]]);
            let holds = Arc::<Holds>::default();
            let reads = Reads::new(&holds);
            let scene = Self {
                store,
                holds,
                payload,
                reads,
            };
            assert!(scene.lease(&scene.payload));
            scene.reads.note([&scene.payload]);
            scene
        }

        fn lease(&self, payload: &Bytes) -> bool {
            let (arena, place) = self.store.find(payload).expect("in the arena");
            let told = (arena.clone(), place.first);
            self.holds.add(start(payload), place.bytes, told)
        }
    }

    fn start(payload: &Bytes) -> usize {
        payload.as_ptr() as usize
    }

    #[test]
    fn rule_19_letting_go_of_a_value_does_not_hide_that_it_was_taken_back() {
        let scene = Scene::new();
        let (at, bytes) = (start(&scene.payload), scene.payload.len() as u64);
        drop(scene.payload);
        scene.holds.remove(at, bytes);
        assert_eq!(scene.holds.held(), (0, 0));
        for _ in 0..2 {
            assert!(scene.reads.check().is_err());
        }
        let other = Reads::new(&scene.holds);
        assert!(other.check().is_ok(), "it is nothing to others");
    }

    #[test]
    fn rule_19_what_was_let_go_of_before_may_be_taken_back() {
        let scene = Scene::new();
        let (at, bytes) = (start(&scene.payload), scene.payload.len() as u64);
        assert!(scene.lease(&scene.payload), "once more");
        scene.holds.remove(at, bytes);
        assert!(scene.reads.check().is_ok());
        scene.holds.remove(at, bytes);
        drop(scene.payload);
        assert!(scene.reads.check().is_ok());
    }

    #[test]
    fn rule_19_what_lies_where_something_is_read_that_was_taken_back_is_not_mistaken_for_it() {
        let scene = Scene::new();
        let at = start(&scene.payload);
        drop(scene.payload);
        let next = scene.store.put(&[&vec![8; 2 * BIG_BYTES]]);
        assert_eq!(start(&next), at, "the arena gives the same place");
        let (arena, place) = scene.store.find(&next).expect("in the arena");
        let told = (arena.clone(), place.first);
        assert!(!scene.holds.add(at, place.bytes, told));
        assert!(scene.reads.check().is_err());
    }
}
