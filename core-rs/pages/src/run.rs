//! RAII handles over pages: dropping one gives its references back.

use std::ops::Range;

use crate::allocator::PageAllocator;
use crate::error::PageError;
use crate::id::PageId;

/// The pages of one sequence, in order.
#[derive(Debug)]
pub struct Run {
    allocator: PageAllocator,
    pages: Vec<PageId>,
}

impl Run {
    pub(crate) fn empty(allocator: PageAllocator) -> Self {
        Self {
            allocator,
            pages: Vec::new(),
        }
    }

    /// Adds a reference to each of `pages`, which somebody holds.
    pub(crate) fn share_of(allocator: PageAllocator, pages: Vec<PageId>) -> Self {
        allocator.hold(&pages);
        Self { allocator, pages }
    }

    /// The ids, in order.
    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// Pages in the run.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether it holds no page.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Where the pages come from.
    pub fn allocator(&self) -> &PageAllocator {
        &self.allocator
    }

    /// Appends `wanted` new pages, right behind the last one where that is free. All or nothing.
    pub fn extend(&mut self, wanted: usize) -> Result<(), PageError> {
        self.allocator.extend(wanted, &mut self.pages)
    }

    /// Keeps the first `pages` pages and gives back the rest.
    pub fn truncate(&mut self, pages: usize) {
        if pages < self.pages.len() {
            self.allocator.give_back(&self.pages[pages..]);
            self.pages.truncate(pages);
        }
    }

    /// A second run over the first `pages` pages (over all, if it has fewer). Nothing is copied.
    pub fn share(&self, pages: usize) -> Self {
        let shared = &self.pages[..pages.min(self.pages.len())];
        Self::share_of(self.allocator.clone(), shared.to_vec())
    }

    /// A handle of its own on each page of `range`, which is cut to the run's length.
    pub fn hold(&self, range: Range<usize>) -> Vec<Page> {
        let end = range.end.min(self.pages.len());
        let pages = &self.pages[range.start.min(end)..end];
        self.allocator.hold(pages);
        pages
            .iter()
            .map(|&id| Page {
                allocator: self.allocator.clone(),
                id,
            })
            .collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.allocator.give_back(&self.pages);
    }
}

/// One page, as an index holds it.
#[derive(Debug)]
pub struct Page {
    allocator: PageAllocator,
    id: PageId,
}

impl Page {
    /// Its id.
    pub fn id(&self) -> PageId {
        self.id
    }

    /// Where it comes from.
    pub fn allocator(&self) -> &PageAllocator {
        &self.allocator
    }

    /// Whether this handle is the only one over the page, so that dropping it frees the page.
    pub fn is_sole(&self) -> bool {
        self.allocator.references(self.id) == 1
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.allocator.give_back(&[self.id]);
    }
}
