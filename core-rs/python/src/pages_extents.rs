//! `Extents`: the book of a pool that several processes map, for Python. Rare and small: it keeps the GIL.

use std::collections::BTreeMap;

use omniflow_pages::{
    Claim, ExtentId, ExtentLayout, Extents as Book, Grant, LeaseId, Moment, OwnerId, PageId,
    Reading, Returned,
};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::errors;

/// Adds the classes of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ExtentGrant>()?;
    module.add_class::<Extents>()
}

/// (who has the page's extent now, the page).
type Freed = Vec<(u64, u32)>;

/// (the book, its lease for each read of each claim, pages freed).
type Restored = (Extents, Vec<Vec<Option<u64>>>, Freed);

/// What is read of an owner: (owner, pages, until).
type ReadTuple = (u64, Vec<u32>, u64);

/// (owner, its extents, pages of them not adopted yet, what it reads: (owner, pages, until)).
type ClaimTuple = (u64, Vec<u32>, Vec<u32>, Vec<ReadTuple>);

/// An extent that was granted.
#[pyclass(module = "omniflow_core._native", frozen, get_all)]
pub struct ExtentGrant {
    extent: u32,
    start: u32,
    stop: u32,
    withheld: Vec<u32>,
}

impl From<Grant> for ExtentGrant {
    fn from(grant: Grant) -> Self {
        Self {
            extent: grant.extent.0,
            start: grant.pages.start,
            stop: grant.pages.end,
            withheld: grant.withheld.into_iter().map(|page| page.0).collect(),
        }
    }
}

/// Who allocates from which part of a pool.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct Extents {
    /// Held for one operation, and never while waiting for the GIL.
    book: Mutex<Book>,
}

#[pymethods]
impl Extents {
    #[new]
    #[pyo3(signature = (pages, extent_pages, reserved = 1))]
    fn new(pages: u32, extent_pages: u32, reserved: u32) -> PyResult<Self> {
        let layout = ExtentLayout {
            pages,
            reserved,
            extent_pages,
        };
        Book::new(layout).map(Self::from).map_err(errors::extents)
    }

    #[staticmethod]
    #[pyo3(signature = (pages, extent_pages, claims, reserved = 1))]
    fn restore(
        pages: u32,
        extent_pages: u32,
        claims: Vec<ClaimTuple>,
        reserved: u32,
    ) -> PyResult<Restored> {
        let layout = ExtentLayout {
            pages,
            reserved,
            extent_pages,
        };
        let claims: Vec<Claim> = claims.into_iter().map(claim).collect();
        let restored = Book::restore(layout, &claims).map_err(errors::extents)?;
        let numbers = |leases: Vec<Option<LeaseId>>| {
            let leases = leases.into_iter();
            leases.map(|lease| lease.map(|lease| lease.0)).collect()
        };
        let leases = restored.leases.into_iter().map(numbers).collect();
        Ok((restored.book.into(), leases, freed(restored.returned)))
    }

    #[getter]
    fn pages(&self) -> u32 {
        self.book.lock().layout().pages
    }

    #[getter]
    fn reserved(&self) -> u32 {
        self.book.lock().layout().reserved
    }

    #[getter]
    fn extent_pages(&self) -> u32 {
        self.book.lock().layout().extent_pages
    }

    fn __len__(&self) -> usize {
        self.book.lock().layout().extents()
    }

    fn join(&self, owner: u64) -> PyResult<()> {
        let joined = self.book.lock().join(OwnerId(owner));
        joined.map_err(errors::extents)
    }

    fn grant(&self, owner: u64) -> PyResult<ExtentGrant> {
        let granted = self.book.lock().grant(OwnerId(owner));
        granted.map(ExtentGrant::from).map_err(errors::extents)
    }

    fn give_back(&self, owner: u64, extent: u32) -> PyResult<()> {
        let given = self.book.lock().give_back(OwnerId(owner), ExtentId(extent));
        given.map_err(errors::extents)
    }

    fn died(&self, owner: u64) -> PyResult<(Vec<u64>, Freed)> {
        let death = self.book.lock().died(OwnerId(owner));
        let death = death.map_err(errors::extents)?;
        let ask = death.ask.into_iter().map(|owner| owner.0).collect();
        Ok((ask, freed(death.returned)))
    }

    fn report(&self, reader: u64, dead: u64, reads: Vec<(Vec<u32>, u64)>) -> PyResult<Vec<u64>> {
        let reads = reads.into_iter();
        let reads = reads.map(|(pages, until)| (ids(pages), Moment(until)));
        let leases = self
            .book
            .lock()
            .report(OwnerId(reader), OwnerId(dead), reads.collect());
        let leases = leases.map_err(errors::extents)?.into_iter();
        Ok(leases.map(|lease| lease.0).collect())
    }

    fn renew(&self, lease: u64, now: u64, until: u64) -> PyResult<()> {
        let renewed = self
            .book
            .lock()
            .renew(LeaseId(lease), Moment(now), Moment(until));
        renewed.map_err(errors::extents)
    }

    fn end(&self, lease: u64) -> PyResult<Freed> {
        let ended = self.book.lock().end(LeaseId(lease));
        ended.map(freed).map_err(errors::extents)
    }

    fn expire(&self, now: u64) -> Freed {
        freed(self.book.lock().expire(Moment(now)))
    }

    #[getter]
    fn next_expiry(&self) -> Option<u64> {
        self.book.lock().next_expiry().map(|moment| moment.0)
    }

    fn owner_of(&self, extent: u32) -> Option<u64> {
        let owner = self.book.lock().owner_of(ExtentId(extent));
        owner.map(|owner| owner.0)
    }

    fn counters(&self) -> BTreeMap<&'static str, usize> {
        let found = self.book.lock().counters();
        BTreeMap::from([
            ("owners", found.owners),
            ("extents", found.extents),
            ("free", found.free),
            ("owned", found.owned),
            ("orphaned", found.orphaned),
            ("withheld", found.withheld),
        ])
    }

    fn check(&self) -> PyResult<()> {
        self.book.lock().check().map_err(errors::corrupt)
    }

    fn __repr__(&self) -> String {
        format!("Extents({:?})", self.book.lock().counters())
    }
}

impl From<Book> for Extents {
    fn from(book: Book) -> Self {
        Self {
            book: Mutex::new(book),
        }
    }
}

fn claim((owner, extents, withheld, reads): ClaimTuple) -> Claim {
    let reading = |(owner, pages, until)| Reading {
        owner: OwnerId(owner),
        pages: ids(pages),
        until: Moment(until),
    };
    Claim {
        owner: OwnerId(owner),
        extents: extents.into_iter().map(ExtentId).collect(),
        withheld: withheld.into_iter().map(PageId).collect(),
        reads: reads.into_iter().map(reading).collect(),
    }
}

fn ids(pages: Vec<u32>) -> Box<[PageId]> {
    pages.into_iter().map(PageId).collect()
}

fn freed(returned: Vec<Returned>) -> Freed {
    let returned = returned.into_iter();
    returned.map(|one| (one.owner.0, one.page.0)).collect()
}
