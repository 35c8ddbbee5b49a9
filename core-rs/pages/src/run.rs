//! RAII handles over pages: dropping one gives its references back.

use std::ops::Range;
use std::sync::Arc;

use crate::allocator::PageAllocator;
use crate::error::PageError;
use crate::id::{Generation, PageId, Span, Stamped};

/// The pages of one sequence, in order.
#[derive(Debug)]
pub struct Run {
    allocator: PageAllocator,
    /// Who pays for what it grows by.
    tenant: Arc<str>,
    pages: Vec<PageId>,
}

impl Run {
    pub(crate) fn empty(allocator: PageAllocator, tenant: &str) -> Self {
        Self {
            allocator,
            tenant: tenant.into(),
            pages: Vec::new(),
        }
    }

    /// Adds a reference to each of `pages`, which somebody holds.
    pub(crate) fn share_of(allocator: PageAllocator, tenant: Arc<str>, pages: Vec<PageId>) -> Self {
        allocator.on_table(|table| table.hold(&pages));
        Self {
            allocator,
            tenant,
            pages,
        }
    }

    /// The ids, in order.
    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// The same as spans of consecutive pages: what copies move, one each.
    pub fn spans(&self) -> Vec<Span> {
        Span::of(&self.pages)
    }

    /// The pages with their generations, which stay as they are while the run lives.
    pub fn stamped(&self) -> Vec<Stamped> {
        let stamp = |&page: &PageId| Stamped {
            page,
            // A page that is held is in the pool.
            generation: self
                .allocator
                .generation(page)
                .unwrap_or(Generation(u64::MAX)),
        };
        self.pages.iter().map(stamp).collect()
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

    /// Who pays for what it grows by; empty: nobody in particular.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// Who pays for what it grows by from now on; the pages that it has are paid for by who allocated them.
    pub fn charge_to(&mut self, tenant: &str) {
        self.tenant = tenant.into();
    }

    /// Appends `wanted` new pages, right behind the last one where that is free. All or nothing.
    pub fn extend(&mut self, wanted: usize) -> Result<(), PageError> {
        let (tenant, pages) = (&self.tenant, &mut self.pages);
        self.allocator
            .on_table(|table| table.allocate(tenant, wanted, pages))
    }

    /// Keeps the first `pages` pages and gives back the rest.
    pub fn truncate(&mut self, pages: usize) {
        if pages < self.pages.len() {
            let rest = &self.pages[pages..];
            self.allocator.on_table(|table| table.give_back(rest));
            self.pages.truncate(pages);
        }
    }

    /// A second run over the first `pages` pages (over all, if it has fewer): a fork of the sequence. Nothing is copied;
    /// whoever goes on asks [`Run::write`] first.
    pub fn share(&self, pages: usize) -> Self {
        let shared = self.pages[..pages.min(self.pages.len())].to_vec();
        Self::share_of(self.allocator.clone(), self.tenant.clone(), shared)
    }

    /// Makes the pages of `range`, which is cut to the run's length, this run's alone: those that anyone else holds are
    /// replaced by new ones, to which the caller copies what the result names before it writes. All or nothing.
    pub fn write(&mut self, range: Range<usize>) -> Result<Copies, PageError> {
        let range = self.cut(range);
        let (tenant, pages) = (&self.tenant, &mut self.pages);
        let (sources, targets) = self.allocator.on_table(|table| {
            let shared: Vec<usize> = range
                .filter(|&index| table.references(pages[index]) > 1)
                .collect();
            let mut targets = Vec::new();
            table.allocate(tenant, shared.len(), &mut targets)?;
            let replace = shared.iter().zip(&targets);
            // The references of the run to the old pages become those of the result.
            let sources: Vec<PageId> = replace
                .map(|(&index, &new)| std::mem::replace(&mut pages[index], new))
                .collect();
            Ok((sources, targets))
        })?;
        Ok(Copies {
            sources: Self {
                allocator: self.allocator.clone(),
                tenant: self.tenant.clone(),
                pages: sources,
            },
            targets,
        })
    }

    /// Keeps the pages where they are, for as long as the result lives: nothing moves them to another tier.
    pub fn pin(&self) -> Pin {
        Pin::of(self.allocator.clone(), self.pages.clone())
    }

    /// A handle of its own on each page of `range`, which is cut to the run's length.
    pub fn hold(&self, range: Range<usize>) -> Vec<Page> {
        let pages = &self.pages[self.cut(range)];
        self.allocator.on_table(|table| table.hold(pages));
        pages
            .iter()
            .map(|&id| Page {
                allocator: self.allocator.clone(),
                id,
            })
            .collect()
    }

    fn cut(&self, range: Range<usize>) -> Range<usize> {
        let end = range.end.min(self.pages.len());
        range.start.min(end)..end
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let pages = &self.pages;
        if !pages.is_empty() {
            self.allocator.on_table(|table| table.give_back(pages));
        }
    }
}

/// Pages that [`Run::write`] replaced, held until they are copied.
#[derive(Debug)]
#[must_use = "copy the pages before writing to the run"]
pub struct Copies {
    sources: Run,
    targets: Vec<PageId>,
}

impl Copies {
    /// What to copy.
    pub fn sources(&self) -> &[PageId] {
        self.sources.pages()
    }

    /// Where to, one for each source; held by the run.
    pub fn targets(&self) -> &[PageId] {
        &self.targets
    }

    /// Whether nothing was shared, so that nothing is to be copied.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }
}

/// Keeps pages held, and where they are.
#[derive(Debug)]
pub struct Pin {
    allocator: PageAllocator,
    pages: Vec<PageId>,
}

impl Pin {
    pub(crate) fn of(allocator: PageAllocator, pages: Vec<PageId>) -> Self {
        allocator.on_table(|table| table.pin(&pages));
        Self { allocator, pages }
    }

    /// The pages.
    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let pages = &self.pages;
        self.allocator.on_table(|table| table.unpin(pages));
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
        self.allocator
            .on_table(|table| table.references(self.id) == 1)
    }

    /// Who pays for it; empty: nobody in particular.
    pub fn tenant(&self) -> Arc<str> {
        self.allocator.on_table(|table| table.tenant(self.id))
    }

    /// Another handle on the page.
    pub fn share(&self) -> Self {
        self.allocator.on_table(|table| table.hold(&[self.id]));
        Self {
            allocator: self.allocator.clone(),
            id: self.id,
        }
    }

    /// Keeps it where it is for as long as the result lives.
    pub fn pin(&self) -> Pin {
        Pin::of(self.allocator.clone(), vec![self.id])
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.allocator.on_table(|table| table.give_back(&[self.id]));
    }
}
