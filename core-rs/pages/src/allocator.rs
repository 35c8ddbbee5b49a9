//! The shared door to the pages that one process allocates.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::counters::Counters;
use crate::error::{Corrupt, PageError};
use crate::generations::{self, Generations, PrivateGenerations};
use crate::id::{Generation, LeaseId, Moment, OwnerId, PageId, Stamped};
use crate::lease::{Lease, LeaseTable};
use crate::run::{Page, Run};
use crate::table::PageTable;
use crate::tenants::TenantUsage;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) table: PageTable,
    pub(crate) leases: LeaseTable,
}

#[derive(Debug)]
struct Shared {
    /// Held for the length of one operation only, never while anything else is locked after it.
    state: Mutex<State>,
    /// Read without the lock: that is how readers in other processes read them, too.
    generations: Arc<dyn Generations>,
    pages: u32,
    reserved: u32,
}

/// Hands out pages of one pool. Clones are the same allocator; it lives as long as any handle over its pages.
///
/// A pool of one process is handed out whole ([`PageAllocator::new`]). Of a pool that several processes map, each hands
/// out its own extents ([`PageAllocator::in_pool`], [`PageAllocator::adopt`]) and leases pages of the others.
#[derive(Clone, Debug)]
pub struct PageAllocator {
    shared: Arc<Shared>,
}

impl PageAllocator {
    /// Pages `0..pages`, of which the first `reserved` are never handed out (page 0 serves as padding).
    pub fn new(pages: u32, reserved: u32) -> Result<Self, PageError> {
        if pages <= reserved {
            return Err(PageError::EmptyPool { pages, reserved });
        }
        let generations = Arc::new(PrivateGenerations::new(pages));
        let allocator = Self::in_pool(generations, reserved);
        let mut state = allocator.shared.state.lock();
        state.table.adopt((reserved..pages).map(PageId), false)?;
        drop(state);
        Ok(allocator)
    }

    /// Hands out nothing yet: adopt extents of the pool whose generations these are. No more than 2^32 - 1 pages.
    pub fn in_pool(generations: Arc<dyn Generations>, reserved: u32) -> Self {
        let pages = u32::try_from(generations.words().len()).unwrap_or(u32::MAX);
        let table = PageTable::new(pages, reserved, generations.clone());
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    table,
                    leases: LeaseTable::default(),
                }),
                generations,
                pages,
                reserved,
            }),
        }
    }

    /// Hands out these pages, too, from now on. Their generations are raised first: whoever noted one under an earlier
    /// owner finds it stale. Refused when one of them is handed out already.
    pub fn adopt(
        &self,
        pages: impl IntoIterator<Item = PageId, IntoIter: Clone>,
    ) -> Result<(), PageError> {
        self.shared
            .state
            .lock()
            .table
            .adopt(pages.into_iter(), true)
    }

    /// Hands out none of `pages` any more, so that their extent can be given back; refused while one of them is held.
    pub fn retire(&self, pages: Range<u32>) -> Result<(), PageError> {
        self.shared.state.lock().table.retire(pages)
    }

    /// A run of `wanted` pages, consecutive where the pool has room for that. All or nothing.
    pub fn allocate(&self, wanted: usize) -> Result<Run, PageError> {
        self.allocate_for("", wanted)
    }

    /// The same, charged to a tenant until the pages are free. What the run grows by is charged to it, too.
    pub fn allocate_for(&self, tenant: &str, wanted: usize) -> Result<Run, PageError> {
        let mut run = Run::empty(self.clone(), tenant);
        run.extend(wanted)?;
        Ok(run)
    }

    /// Holds the tenant to `quota` pages; what it uses already, it keeps. None: as many as there are.
    pub fn set_quota(&self, tenant: &str, quota: Option<usize>) {
        self.shared.state.lock().table.set_quota(tenant, quota);
    }

    /// The tenants that use pages or have a quota, by name.
    pub fn tenants(&self) -> Vec<TenantUsage> {
        self.shared.state.lock().table.tenants()
    }

    /// A run over pages that others hold, in the given order: the start of a sequence whose prefix is known. What it grows
    /// by is charged to nobody until [`Run::charge_to`] says to whom.
    pub fn run_of<'a>(&self, pages: impl IntoIterator<Item = &'a Page>) -> Result<Run, PageError> {
        let mut ids = Vec::new();
        for page in pages {
            if !self.is_same(page.allocator()) {
                return Err(PageError::Foreign);
            }
            ids.push(page.id());
        }
        Ok(Run::share_of(self.clone(), "".into(), ids))
    }

    /// Lets another process read pages that somebody here holds, until `until`. They aren't free before that, whoever
    /// else lets go of them. `StalePage` when one of them has been freed since its generation was noted.
    pub fn lease(
        &self,
        pages: &[Stamped],
        holder: OwnerId,
        until: Moment,
    ) -> Result<LeaseId, PageError> {
        let mut state = self.shared.state.lock();
        for stamped in pages {
            self.verify(stamped.page, stamped.generation)?;
        }
        let ids: Box<[PageId]> = pages.iter().map(|stamped| stamped.page).collect();
        state.table.lease(&ids)?;
        Ok(state.leases.grant(holder, ids, until))
    }

    /// Moves the end of a lease. `UnknownLease` when it has ended, at `now` or before.
    pub fn renew(&self, lease: LeaseId, now: Moment, until: Moment) -> Result<(), PageError> {
        let mut state = self.shared.state.lock();
        let lives = |lease: &Lease| lease.until > now;
        if state.leases.get(lease).is_some_and(lives) && state.leases.renew(lease, until) {
            return Ok(());
        }
        Err(PageError::UnknownLease { lease })
    }

    /// Ends a lease ahead of its time, by whoever wishes. `UnknownLease` when it has ended already.
    pub fn end_lease(&self, lease: LeaseId) -> Result<(), PageError> {
        let mut state = self.shared.state.lock();
        let ended = state.leases.end(lease);
        state.give_back(ended.ok_or(PageError::UnknownLease { lease })?);
        Ok(())
    }

    /// Drops the holds of leases that are over at `now`, and no other hold on their pages; says which leases.
    pub fn expire(&self, now: Moment) -> Vec<LeaseId> {
        let mut state = self.shared.state.lock();
        let mut ended = Vec::new();
        while let Some(lease) = state.leases.end_expired(now) {
            ended.push(lease.id);
            state.give_back(lease);
        }
        ended
    }

    /// When [`PageAllocator::expire`] has something to do next.
    pub fn next_expiry(&self) -> Option<Moment> {
        self.shared.state.lock().leases.next_end()
    }

    /// The holder is dead, or gone: its leases end. Says how many.
    pub fn drop_holder(&self, holder: OwnerId) -> usize {
        let mut state = self.shared.state.lock();
        let mut ended = 0;
        while let Some(lease) = state.leases.end_held_by(holder) {
            state.give_back(lease);
            ended += 1;
        }
        ended
    }

    /// Pages of the pool, the reserved ones and those of other owners included.
    pub fn total(&self) -> usize {
        self.shared.pages as usize
    }

    /// Pages that are never handed out.
    pub fn reserved(&self) -> usize {
        self.shared.reserved as usize
    }

    /// Own pages that nobody holds.
    pub fn free(&self) -> usize {
        self.counters().free
    }

    /// What the pages are doing.
    pub fn counters(&self) -> Counters {
        let state = self.shared.state.lock();
        Counters {
            leases: state.leases.len(),
            ..state.table.counters()
        }
    }

    /// How often the page of the pool, of whatever owner, has been freed.
    pub fn generation(&self, page: PageId) -> Result<Generation, PageError> {
        let handed_out = (self.shared.reserved..self.shared.pages).contains(&page.0);
        let generation = generations::current(self.shared.generations.words(), page);
        generation
            .filter(|_| handed_out)
            .ok_or(PageError::UnknownPage {
                page,
                first: self.shared.reserved,
                end: self.shared.pages,
            })
    }

    /// [`PageError::StalePage`] if the page has been freed since `generation` was noted.
    pub fn verify(&self, page: PageId, generation: Generation) -> Result<(), PageError> {
        let current = self.generation(page)?;
        if current == generation {
            Ok(())
        } else {
            Err(PageError::StalePage {
                page,
                generation,
                current,
            })
        }
    }

    /// Whether `other` hands out the same pages.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Verifies every invariant, in time linear in the pool.
    pub fn check(&self) -> Result<(), Corrupt> {
        let state = self.shared.state.lock();
        state.leases.check().map_err(Corrupt)?;
        let mut leased = vec![0; self.total()];
        for page in state.leases.iter().flat_map(|lease| lease.pages.iter()) {
            leased[page.index()] += 1;
        }
        state.table.check(&leased)
    }

    /// One operation on the table, under its lock.
    pub(crate) fn on_table<T>(&self, work: impl FnOnce(&mut PageTable) -> T) -> T {
        work(&mut self.shared.state.lock().table)
    }
}

impl State {
    fn give_back(&mut self, ended: Lease) {
        self.table.end_lease(&ended.pages);
    }
}
