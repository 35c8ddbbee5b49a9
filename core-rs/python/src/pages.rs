//! `PageAllocator`: the crate `omniflow_pages` for Python.
//!
//! The allocator's own lock is held for one operation of microseconds, and never by a thread that waits for the GIL: so
//! these calls keep the GIL (see `locks`).

use std::collections::BTreeMap;

use omniflow_pages::{
    Generation, LeaseId, Moment, OwnerId, PageAllocator as Allocator, PageId, Stamped,
};
use pyo3::prelude::*;

use crate::buffers;
use crate::errors;
pub use crate::pages_run::PageRun;
use crate::pages_run::{PageCopies, PageIds, PagePin};
use crate::{pages_extents, pages_tiers};

/// Adds the classes of this file and those beside it to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PageAllocator>()?;
    module.add_class::<PageRun>()?;
    module.add_class::<PageCopies>()?;
    module.add_class::<PageIds>()?;
    module.add_class::<PagePin>()?;
    pages_extents::register(module)?;
    pages_tiers::register(module)
}

/// Hands out the pages of one KV pool.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct PageAllocator {
    pub(crate) allocator: Allocator,
}

#[pymethods]
impl PageAllocator {
    #[new]
    #[pyo3(signature = (pages, reserved = 1))]
    fn new(pages: u32, reserved: u32) -> PyResult<Self> {
        Ok(Self {
            allocator: Allocator::new(pages, reserved).map_err(errors::pages)?,
        })
    }

    #[getter]
    fn total_pages(&self) -> usize {
        self.allocator.total()
    }

    #[getter]
    fn reserved_pages(&self) -> usize {
        self.allocator.reserved()
    }

    #[getter]
    fn free_pages(&self) -> usize {
        self.allocator.free()
    }

    fn counters(&self) -> BTreeMap<&'static str, usize> {
        let found = self.allocator.counters();
        BTreeMap::from([
            ("total", found.total),
            ("reserved", found.reserved),
            ("own", found.own),
            ("free", found.free),
            ("held", found.held),
            ("pinned", found.pinned),
            ("leased", found.leased),
            ("references", found.references),
            ("leases", found.leases),
        ])
    }

    fn tenants(&self) -> BTreeMap<String, (usize, Option<usize>)> {
        let usage = self.allocator.tenants().into_iter();
        usage
            .map(|one| (one.name.to_string(), (one.used, one.quota)))
            .collect()
    }

    #[pyo3(signature = (tenant, pages))]
    fn set_quota(&self, tenant: &str, pages: Option<usize>) {
        self.allocator.set_quota(tenant, pages);
    }

    fn adopt(&self, py: Python<'_>, start: u32, stop: u32) -> PyResult<()> {
        // A large extent takes milliseconds.
        py.detach(|| self.allocator.adopt((start..stop).map(PageId)))
            .map_err(errors::pages)
    }

    fn retire(&self, py: Python<'_>, start: u32, stop: u32) -> PyResult<()> {
        py.detach(|| self.allocator.retire(start..stop))
            .map_err(errors::pages)
    }

    #[pyo3(signature = (pages, tenant = ""))]
    fn allocate(&self, pages: usize, tenant: &str) -> PyResult<PageRun> {
        let run = self.allocator.allocate_for(tenant, pages);
        run.map(PageRun::from).map_err(errors::pages)
    }

    fn lease(
        &self,
        pages: &Bound<'_, PyAny>,
        generations: &Bound<'_, PyAny>,
        holder: u64,
        until: u64,
    ) -> PyResult<u64> {
        let (pages, generations) = buffers::stamps(pages, generations)?;
        let stamped = pages.into_iter().zip(generations);
        let stamped = stamped.map(|(page, generation)| Stamped {
            page: PageId(page),
            generation: Generation(generation),
        });
        let stamped: Vec<Stamped> = stamped.collect();
        let lease = self
            .allocator
            .lease(&stamped, OwnerId(holder), Moment(until));
        lease.map(|lease| lease.0).map_err(errors::pages)
    }

    fn renew(&self, lease: u64, now: u64, until: u64) -> PyResult<()> {
        let renewed = self
            .allocator
            .renew(LeaseId(lease), Moment(now), Moment(until));
        renewed.map_err(errors::pages)
    }

    fn end_lease(&self, lease: u64) -> PyResult<()> {
        self.allocator
            .end_lease(LeaseId(lease))
            .map_err(errors::pages)
    }

    fn expire(&self, now: u64) -> Vec<u64> {
        let ended = self.allocator.expire(Moment(now));
        ended.into_iter().map(|lease| lease.0).collect()
    }

    #[getter]
    fn next_expiry(&self) -> Option<u64> {
        self.allocator.next_expiry().map(|moment| moment.0)
    }

    fn drop_holder(&self, holder: u64) -> usize {
        self.allocator.drop_holder(OwnerId(holder))
    }

    fn generation(&self, page: u32) -> PyResult<u64> {
        self.allocator
            .generation(PageId(page))
            .map(|generation| generation.0)
            .map_err(errors::pages)
    }

    fn verify(&self, page: u32, generation: u64) -> PyResult<()> {
        self.allocator
            .verify(PageId(page), Generation(generation))
            .map_err(errors::pages)
    }

    fn verify_all(&self, pages: &Bound<'_, PyAny>, generations: &Bound<'_, PyAny>) -> PyResult<()> {
        let (pages, generations) = buffers::stamps(pages, generations)?;
        for (page, generation) in pages.into_iter().zip(generations) {
            self.verify(page, generation)?;
        }
        Ok(())
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.allocator.check())
            .map_err(errors::corrupt)
    }

    fn __repr__(&self) -> String {
        format!(
            "PageAllocator(pages={}, free={})",
            self.allocator.total(),
            self.allocator.free()
        )
    }
}
