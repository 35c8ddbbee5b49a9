//! `PageTiers`: which page lies in which tier, and what is to be copied where.

use omniflow_pages::{
    Acquired as CoreAcquired, EntryId, Move, MoveId, Room as CoreRoom, Tier, TierPools, Tiers,
    Worth,
};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::errors::{self, InvalidArgument};
use crate::locks;
use crate::pages::PageAllocator;
use crate::pages_run::PageRun;

/// Adds the classes of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PageTiers>()?;
    module.add_class::<PageMove>()?;
    module.add_class::<Acquired>()?;
    module.add_class::<Room>()
}

/// Content in up to three tiers.
#[pyclass(module = "omniflow_core._native", frozen)]
pub struct PageTiers {
    /// Locked after a run and before an allocator, and never while waiting for the GIL.
    tiers: Mutex<Tiers>,
}

#[pymethods]
impl PageTiers {
    #[new]
    #[pyo3(signature = (device, host = None, disk = None))]
    fn new(
        device: &PageAllocator,
        host: Option<&PageAllocator>,
        disk: Option<&PageAllocator>,
    ) -> Self {
        let pool = |allocator: &PageAllocator| allocator.allocator.clone();
        Self {
            tiers: Mutex::new(Tiers::new(TierPools {
                device: pool(device),
                host: host.map(pool),
                disk: disk.map(pool),
            })),
        }
    }

    fn __len__(&self) -> usize {
        self.tiers.lock().len()
    }

    #[pyo3(signature = (run, start, stop, *, recompute_us, bytes, chance, parent = None))]
    #[allow(clippy::too_many_arguments)] // Keyword arguments of the Python class.
    fn insert(
        &self,
        py: Python<'_>,
        run: &PageRun,
        start: usize,
        stop: usize,
        recompute_us: u64,
        bytes: u64,
        chance: f64,
        parent: Option<u64>,
    ) -> PyResult<Vec<u64>> {
        let worth = Worth::new(recompute_us, bytes, chance).map_err(errors::tiers)?;
        let pages = run.with(py, |run| run.hold(start..stop))?;
        let inserted = locks::briefly(py, &self.tiers, |tiers| {
            let mut parent = parent.map(EntryId);
            let mut entries = Vec::with_capacity(pages.len());
            for page in pages {
                let entry = tiers.insert(page, parent, worth)?;
                parent = Some(entry);
                entries.push(entry.0);
            }
            Ok(entries)
        });
        inserted.map_err(errors::tiers)
    }

    fn remove(&self, entry: u64) -> PyResult<()> {
        let removed = self.tiers.lock().remove(EntryId(entry));
        removed.map_err(errors::tiers)
    }

    #[pyo3(signature = (entry, *, recompute_us, bytes, chance))]
    fn set_worth(&self, entry: u64, recompute_us: u64, bytes: u64, chance: f64) -> PyResult<()> {
        let worth = Worth::new(recompute_us, bytes, chance).map_err(errors::tiers)?;
        let set = self.tiers.lock().set_worth(EntryId(entry), worth);
        set.map_err(errors::tiers)
    }

    #[pyo3(signature = (entries, tenant = ""))]
    fn acquire(&self, py: Python<'_>, entries: Vec<u64>, tenant: &str) -> PyResult<Acquired> {
        let entries: Vec<EntryId> = entries.into_iter().map(EntryId).collect();
        let acquired = locks::briefly(py, &self.tiers, |tiers| tiers.acquire(tenant, &entries))
            .map_err(errors::tiers)?;
        let CoreAcquired {
            run,
            begun,
            awaited,
        } = acquired;
        Ok(Acquired {
            run: Py::new(py, PageRun::from(run))?,
            begun: begun.into_iter().map(PageMove).collect(),
            awaited: awaited.into_iter().map(|id| id.0).collect(),
        })
    }

    fn hold(&self, py: Python<'_>, tier: &str, entries: Vec<u64>) -> PyResult<PageRun> {
        let tier = parse(tier)?;
        let entries: Vec<EntryId> = entries.into_iter().map(EntryId).collect();
        let held = locks::briefly(py, &self.tiers, |tiers| tiers.hold(tier, &entries));
        held.map(PageRun::from).map_err(errors::tiers)
    }

    fn make_room(&self, py: Python<'_>, tier: &str, pages: usize) -> PyResult<Room> {
        let tier = parse(tier)?;
        let room = locks::briefly(py, &self.tiers, |tiers| tiers.make_room(tier, pages))
            .map_err(errors::tiers)?;
        let CoreRoom {
            free,
            coming,
            begun,
            dropped,
        } = room;
        Ok(Room {
            free,
            coming,
            begun: begun.into_iter().map(PageMove).collect(),
            dropped: dropped.into_iter().map(|entry| entry.0).collect(),
        })
    }

    #[pyo3(signature = (move_id))]
    fn finish(&self, move_id: u64) -> PyResult<Option<u64>> {
        let finished = self.tiers.lock().finish(MoveId(move_id));
        let entry = finished.map_err(errors::tiers)?;
        Ok(entry.map(|entry| entry.0))
    }

    #[pyo3(signature = (move_id))]
    fn abort(&self, move_id: u64) -> PyResult<()> {
        let aborted = self.tiers.lock().abort(MoveId(move_id));
        aborted.map_err(errors::tiers)
    }

    fn residence(&self, entry: u64) -> PyResult<(Option<u32>, Option<u32>, Option<u32>)> {
        let copies = self.tiers.lock().residence(EntryId(entry));
        let [device, host, disk] = copies
            .map_err(errors::tiers)?
            .map(|page| page.map(|page| page.0));
        Ok((device, host, disk))
    }

    fn counters(&self, tier: &str) -> PyResult<(usize, usize, usize)> {
        let found = self.tiers.lock().counters(parse(tier)?);
        Ok((found.copies, found.arriving, found.leaving))
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.tiers.lock().check())
            .map_err(errors::corrupt)
    }
}

/// One page to copy.
#[pyclass(module = "omniflow_core._native", frozen)]
#[derive(Clone)]
pub struct PageMove(Move);

#[pymethods]
impl PageMove {
    #[getter]
    fn id(&self) -> u64 {
        self.0.id.0
    }

    #[getter]
    fn entry(&self) -> u64 {
        self.0.entry.0
    }

    #[getter]
    fn source(&self) -> (&'static str, u32) {
        (name(self.0.from.0), self.0.from.1.0)
    }

    #[getter]
    fn target(&self) -> (&'static str, u32) {
        (name(self.0.to.0), self.0.to.1.0)
    }
}

/// What `PageTiers.acquire` gives.
#[pyclass(module = "omniflow_core._native", frozen, get_all)]
pub struct Acquired {
    run: Py<PageRun>,
    begun: Vec<PageMove>,
    awaited: Vec<u64>,
}

/// What `PageTiers.make_room` could do.
#[pyclass(module = "omniflow_core._native", frozen, get_all)]
pub struct Room {
    free: usize,
    coming: usize,
    begun: Vec<PageMove>,
    dropped: Vec<u64>,
}

fn parse(tier: &str) -> PyResult<Tier> {
    let named = |each: &Tier| name(*each) == tier;
    Tier::ALL.into_iter().find(named).ok_or_else(|| {
        InvalidArgument::new_err(format!(
            "no tier is called '{tier}': there are device, host and disk"
        ))
    })
}

fn name(tier: Tier) -> &'static str {
    match tier {
        Tier::Device => "device",
        Tier::Host => "host",
        Tier::Disk => "disk",
    }
}
