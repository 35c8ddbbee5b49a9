//! The shared door to one pool's pages.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Corrupt, PageError};
use crate::id::{Generation, PageId};
use crate::run::{Page, Run};
use crate::table::PageTable;

/// Hands out the pages of one pool. Clones are the same allocator; it lives as long as any handle over its pages.
#[derive(Clone, Debug)]
pub struct PageAllocator {
    /// Held for the length of one table operation only, never while anything else is locked after it.
    table: Arc<Mutex<PageTable>>,
}

impl PageAllocator {
    /// Pages `0..pages`, of which the first `reserved` are never handed out (page 0 serves as padding).
    pub fn new(pages: u32, reserved: u32) -> Result<Self, PageError> {
        Ok(Self {
            table: Arc::new(Mutex::new(PageTable::new(pages, reserved)?)),
        })
    }

    /// A run of `wanted` pages, consecutive where the pool has room for that. All or nothing.
    pub fn allocate(&self, wanted: usize) -> Result<Run, PageError> {
        let mut run = Run::empty(self.clone());
        run.extend(wanted)?;
        Ok(run)
    }

    /// A run over pages that others hold, in the given order: the start of a sequence whose prefix is known.
    pub fn run_of<'a>(&self, pages: impl IntoIterator<Item = &'a Page>) -> Result<Run, PageError> {
        let mut ids = Vec::new();
        for page in pages {
            if !self.is_same(page.allocator()) {
                return Err(PageError::Foreign);
            }
            ids.push(page.id());
        }
        Ok(Run::share_of(self.clone(), ids))
    }

    /// Pages of the pool, the reserved ones included.
    pub fn total(&self) -> usize {
        self.table.lock().total()
    }

    /// Pages that are never handed out.
    pub fn reserved(&self) -> usize {
        self.table.lock().reserved()
    }

    /// Pages that nobody holds.
    pub fn free(&self) -> usize {
        self.table.lock().free()
    }

    /// How often the page has been freed.
    pub fn generation(&self, page: PageId) -> Result<Generation, PageError> {
        self.table.lock().generation(page)
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

    /// Whether `other` hands out the same pool.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table)
    }

    /// Verifies every invariant, in time linear in the pool.
    pub fn check(&self) -> Result<(), Corrupt> {
        self.table.lock().check()
    }

    pub(crate) fn extend(&self, wanted: usize, pages: &mut Vec<PageId>) -> Result<(), PageError> {
        self.table.lock().allocate(wanted, pages)
    }

    pub(crate) fn hold(&self, pages: &[PageId]) {
        self.table.lock().hold(pages);
    }

    pub(crate) fn give_back(&self, pages: &[PageId]) {
        self.table.lock().give_back(pages);
    }

    pub(crate) fn references(&self, page: PageId) -> u32 {
        self.table.lock().references(page)
    }
}
