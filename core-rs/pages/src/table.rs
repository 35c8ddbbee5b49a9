//! The state of every page, and the only place that changes it.

use crate::error::{Corrupt, PageError};
use crate::free::FreeSet;
use crate::id::{Generation, PageId};

#[derive(Clone, Debug, Default)]
struct PageState {
    /// Handles over this page; it is free at zero.
    references: u32,
    generation: Generation,
}

/// Reference counts and generations of all pages of a pool. Pages below `reserved` never leave it.
#[derive(Debug)]
pub(crate) struct PageTable {
    pages: Vec<PageState>,
    free: FreeSet,
    reserved: u32,
    /// Sum of all reference counts, kept apart so that `check` can tell a lost count.
    references: u64,
}

impl PageTable {
    pub(crate) fn new(pages: u32, reserved: u32) -> Result<Self, PageError> {
        if pages <= reserved {
            return Err(PageError::EmptyPool { pages, reserved });
        }
        Ok(Self {
            pages: vec![PageState::default(); pages as usize],
            free: FreeSet::with_range(reserved as usize, pages as usize),
            reserved,
            references: 0,
        })
    }

    pub(crate) fn total(&self) -> usize {
        self.pages.len()
    }

    pub(crate) fn reserved(&self) -> usize {
        self.reserved as usize
    }

    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Appends `wanted` pages to `pages`: right behind its last one, else consecutive ones, else any.
    pub(crate) fn allocate(
        &mut self,
        wanted: usize,
        pages: &mut Vec<PageId>,
    ) -> Result<(), PageError> {
        if wanted > self.free.len() {
            return Err(PageError::OutOfPages {
                wanted,
                free: self.free.len(),
            });
        }
        if wanted == 0 {
            return Ok(());
        }
        let first_new = pages.len();
        let behind = pages.last().map(|last| last.index() + 1);
        let start = match behind {
            Some(start) if self.free.take_at(start, wanted) => Some(start),
            _ => self.free.take_run(wanted),
        };
        // A page index fits u32: the pool was made from a u32.
        match start {
            Some(start) => pages.extend((start..start + wanted).map(|page| PageId(page as u32))),
            None => self
                .free
                .take_scattered(wanted, |page| pages.push(PageId(page as u32))),
        }
        for page in &pages[first_new..] {
            self.pages[page.index()].references = 1;
        }
        self.references += wanted as u64;
        Ok(())
    }

    /// Adds a reference to each of `pages`, all of which somebody holds.
    pub(crate) fn hold(&mut self, pages: &[PageId]) {
        for page in pages {
            let state = &mut self.pages[page.index()];
            debug_assert!(state.references > 0, "page {page} shared while free");
            state.references += 1;
        }
        self.references += pages.len() as u64;
    }

    /// Drops a reference to each of `pages`; at the last one the generation is raised and the page is free.
    pub(crate) fn give_back(&mut self, pages: &[PageId]) {
        for page in pages {
            let state = &mut self.pages[page.index()];
            debug_assert!(state.references > 0, "page {page} given back while free");
            state.references -= 1;
            if state.references == 0 {
                state.generation.0 += 1;
                self.free.insert(page.index());
            }
        }
        self.references -= pages.len() as u64;
    }

    pub(crate) fn references(&self, page: PageId) -> u32 {
        self.pages
            .get(page.index())
            .map_or(0, |state| state.references)
    }

    pub(crate) fn generation(&self, page: PageId) -> Result<Generation, PageError> {
        match self.pages.get(page.index()) {
            Some(state) if page.0 >= self.reserved => Ok(state.generation),
            _ => Err(PageError::UnknownPage {
                page,
                first: self.reserved,
                end: self.pages.len() as u32,
            }),
        }
    }

    pub(crate) fn check(&self) -> Result<(), Corrupt> {
        self.free.check().map_err(Corrupt)?;
        let mut references = 0;
        for (index, state) in self.pages.iter().enumerate() {
            references += u64::from(state.references);
            let handed_out = index >= self.reserved as usize;
            if self.free.contains(index) != (handed_out && state.references == 0) {
                let mark = if self.free.contains(index) {
                    "is marked free"
                } else {
                    "is not marked free"
                };
                return Err(Corrupt(format!(
                    "page {index} {mark} with {} references",
                    state.references
                )));
            }
            if !handed_out && (state.references > 0 || state.generation.0 > 0) {
                return Err(Corrupt(format!("reserved page {index} was handed out")));
            }
        }
        if references != self.references {
            return Err(Corrupt(format!(
                "pages have {references} references, {} were given",
                self.references
            )));
        }
        Ok(())
    }
}
