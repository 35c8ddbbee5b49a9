//! Who uses which page: the one place where a page's state changes.

use std::ops::Range;
use std::sync::Arc;

use crate::counters::Counters;
use crate::error::{Corrupt, PageError};
use crate::free::FreeSet;
use crate::generations::{self, Generations};
use crate::id::PageId;
use crate::tenants::{Slot, TenantUsage, Tenants};

#[derive(Clone, Debug, Default)]
struct PageState {
    /// Holds on this page, pins and leases included; it is free at zero.
    references: u32,
    pins: u32,
    leases: u32,
    /// Who pays for it while it is held.
    tenant: Slot,
    /// Whether this table hands it out: it isn't reserved, nor of another owner's extent.
    own: bool,
}

/// Reference counts and tenants of all pages of a pool that one process allocates from.
#[derive(Debug)]
pub(crate) struct PageTable {
    pages: Vec<PageState>,
    free: FreeSet,
    generations: Arc<dyn Generations>,
    tenants: Tenants,
    reserved: u32,
    own: usize,
    /// Sum of all reference counts, kept apart so that `check` can tell a lost count.
    references: usize,
    pinned: usize,
    leased: usize,
    /// So many of the next releases are lost: shows that a leak is noticed.
    #[cfg(test)]
    pub(crate) lose_releases: u32,
}

impl PageTable {
    /// Hands out nothing until pages are adopted.
    pub(crate) fn new(pages: u32, reserved: u32, generations: Arc<dyn Generations>) -> Self {
        Self {
            pages: vec![PageState::default(); pages as usize],
            free: FreeSet::new(pages as usize),
            generations,
            tenants: Tenants::new(),
            reserved,
            own: 0,
            references: 0,
            pinned: 0,
            leased: 0,
            #[cfg(test)]
            lose_releases: 0,
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters {
            total: self.pages.len(),
            reserved: self.reserved as usize,
            own: self.own,
            free: self.free.len(),
            held: self.own - self.free.len(),
            pinned: self.pinned,
            leased: self.leased,
            references: self.references,
            leases: 0,
        }
    }

    pub(crate) fn tenants(&self) -> Vec<TenantUsage> {
        self.tenants.usage()
    }

    pub(crate) fn set_quota(&mut self, tenant: &str, quota: Option<usize>) {
        self.tenants.set_quota(tenant, quota);
    }

    /// Hands out `pages` from now on. With `raise` their generations are raised first: others may have noted them.
    pub(crate) fn adopt(
        &mut self,
        pages: impl Iterator<Item = PageId> + Clone,
        raise: bool,
    ) -> Result<(), PageError> {
        let fits = |page: PageId| {
            let known = self.pages.get(page.index());
            match known {
                Some(state) if page.0 >= self.reserved && !state.own => Ok(()),
                Some(_) => Err("is handed out already, or reserved"),
                None => Err("is not in the pool"),
            }
            .map_err(|why| PageError::NotMovable { page, why })
        };
        pages.clone().try_for_each(fits)?;
        let mut free = self.free.inserter();
        for page in pages {
            if raise {
                generations::raise(self.generations.words(), page);
            }
            self.pages[page.index()].own = true;
            self.own += 1;
            free.insert(page.index());
        }
        drop(free);
        generations::publish();
        Ok(())
    }

    /// Hands out `pages` no more. All of those that it does hand out must be free; the others are let be.
    pub(crate) fn retire(&mut self, pages: Range<u32>) -> Result<(), PageError> {
        let end = pages.end.min(self.pages.len() as u32);
        let own: Vec<usize> = (pages.start as usize..end as usize)
            .filter(|&page| self.pages[page].own)
            .collect();
        if let Some(&held) = own.iter().find(|&&page| !self.free.contains(page)) {
            return Err(PageError::NotMovable {
                page: PageId::from_index(held),
                why: "is still held: release what holds it first",
            });
        }
        for &page in &own {
            self.pages[page].own = false;
            self.free.take(page..page + 1);
        }
        self.own -= own.len();
        Ok(())
    }

    /// Appends `wanted` pages to `pages`: right behind its last one, else consecutive ones, else in few runs.
    pub(crate) fn allocate(
        &mut self,
        tenant: &str,
        wanted: usize,
        pages: &mut Vec<PageId>,
    ) -> Result<(), PageError> {
        let free = self.free.len();
        if wanted > free {
            return Err(PageError::OutOfPages { wanted, free });
        }
        if wanted == 0 {
            return Ok(());
        }
        let slot = self.tenants.charge(tenant, wanted)?;
        let first_new = pages.len();
        let behind = pages
            .last()
            .map(|last| last.index() + 1..last.index() + 1 + wanted);
        let start = match behind {
            Some(behind) if self.free.contains_all(behind.clone()) => {
                self.free.take(behind.clone());
                Some(behind.start)
            }
            _ => self.free.take_run(wanted),
        };
        pages.reserve(wanted);
        match start {
            Some(start) => pages.extend((start..start + wanted).map(PageId::from_index)),
            None => self.free.take_scattered(wanted, |run| {
                pages.extend(run.map(PageId::from_index));
            }),
        }
        for page in &pages[first_new..] {
            let state = &mut self.pages[page.index()];
            state.references = 1;
            state.tenant = slot;
        }
        self.references += wanted;
        Ok(())
    }

    /// Adds a reference to each of `pages`, all of which somebody holds.
    pub(crate) fn hold(&mut self, pages: &[PageId]) {
        for page in pages {
            let state = &mut self.pages[page.index()];
            debug_assert!(state.references > 0, "page {page} shared while free");
            state.references += 1;
        }
        self.references += pages.len();
    }

    /// Drops a reference to each of `pages`; at the last one the generation is raised and the page is free.
    pub(crate) fn give_back(&mut self, pages: &[PageId]) {
        #[cfg(test)]
        if self.lose_releases > 0 {
            self.lose_releases -= 1;
            return;
        }
        let words = self.generations.words();
        let mut free = self.free.inserter();
        // Pages of a run have one tenant: it is told once.
        let (mut payer, mut freed) = (0, 0);
        for page in pages {
            let state = &mut self.pages[page.index()];
            debug_assert!(state.references > 0, "page {page} given back while free");
            state.references -= 1;
            if state.references > 0 {
                continue;
            }
            if state.tenant != payer && freed > 0 {
                self.tenants.refund(payer, freed);
                freed = 0;
            }
            payer = state.tenant;
            freed += 1;
            generations::raise(words, *page);
            free.insert(page.index());
        }
        drop(free);
        if freed > 0 {
            self.tenants.refund(payer, freed);
            generations::publish();
        }
        self.references -= pages.len();
    }

    /// Holds `pages` where they are.
    pub(crate) fn pin(&mut self, pages: &[PageId]) {
        self.hold(pages);
        for page in pages {
            let state = &mut self.pages[page.index()];
            state.pins += 1;
            self.pinned += usize::from(state.pins == 1);
        }
    }

    /// Takes back one [`PageTable::pin`].
    pub(crate) fn unpin(&mut self, pages: &[PageId]) {
        for page in pages {
            let state = &mut self.pages[page.index()];
            state.pins -= 1;
            self.pinned -= usize::from(state.pins == 0);
        }
        self.give_back(pages);
    }

    /// Holds `pages` for another process. Refused unless somebody here holds each of them.
    pub(crate) fn lease(&mut self, pages: &[PageId]) -> Result<(), PageError> {
        let free = |page: &&PageId| self.references(**page) == 0;
        if let Some(&page) = pages.iter().find(free) {
            return Err(PageError::NotHeld { page });
        }
        self.hold(pages);
        for page in pages {
            let state = &mut self.pages[page.index()];
            state.leases += 1;
            self.leased += usize::from(state.leases == 1);
        }
        Ok(())
    }

    /// Takes back one [`PageTable::lease`].
    pub(crate) fn end_lease(&mut self, pages: &[PageId]) {
        for page in pages {
            let state = &mut self.pages[page.index()];
            state.leases -= 1;
            self.leased -= usize::from(state.leases == 0);
        }
        self.give_back(pages);
    }

    pub(crate) fn references(&self, page: PageId) -> u32 {
        self.pages
            .get(page.index())
            .map_or(0, |state| state.references)
    }

    /// Who pays for a page that is held.
    pub(crate) fn tenant(&self, page: PageId) -> Arc<str> {
        self.tenants.name(self.pages[page.index()].tenant)
    }

    /// `leased`: leases on each page, by the list of leases.
    pub(crate) fn check(&self, leased: &[u32]) -> Result<(), Corrupt> {
        self.free.check().map_err(Corrupt)?;
        let mut found = Counters::default();
        let mut used = vec![0; self.tenants.slots()];
        for (index, state) in self.pages.iter().enumerate() {
            self.check_page(index, state, leased[index])
                .map_err(|what| Corrupt(format!("page {index} {what}")))?;
            found.references += state.references as usize;
            found.pinned += usize::from(state.pins > 0);
            found.leased += usize::from(state.leases > 0);
            found.own += usize::from(state.own);
            if state.references > 0 {
                used[state.tenant as usize] += 1;
            }
        }
        let counted = Counters {
            total: 0,
            reserved: 0,
            free: 0,
            held: 0,
            ..self.counters()
        };
        if found != counted {
            return Err(Corrupt(format!("{found:?} found, {counted:?} counted")));
        }
        for (slot, &used) in used.iter().enumerate() {
            let charged = self.tenants.used(slot as Slot).unwrap_or(0);
            if charged != used {
                return Err(Corrupt(format!(
                    "tenant {slot} uses {used} pages, {charged} are charged"
                )));
            }
        }
        Ok(())
    }

    fn check_page(&self, index: usize, state: &PageState, leased: u32) -> Result<(), String> {
        let free = self.free.contains(index);
        if free != (state.own && state.references == 0) {
            let mark = if free {
                "is marked free"
            } else {
                "is not marked free"
            };
            return Err(format!("{mark} with {} references", state.references));
        }
        if !state.own && state.references > 0 {
            return Err("was handed out and is not ours".into());
        }
        if state.own && index < self.reserved as usize {
            return Err("is reserved and was handed out".into());
        }
        if state.leases != leased {
            return Err(format!("has {} leases, {leased} are listed", state.leases));
        }
        if state.references < state.pins + state.leases {
            return Err(format!(
                "has {} references for {} pins and {} leases",
                state.references, state.pins, state.leases
            ));
        }
        Ok(())
    }
}
