//! One pool, several processes: who allocates from which part of it, and when a dead owner's part is anyone's again.

mod error;
mod readers;
mod restore;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub use error::ExtentError;
pub use restore::{Claim, Reading, Restored};

use crate::error::Corrupt;
use crate::extents::readers::Readers;
use crate::id::{ExtentId, LeaseId, Moment, OwnerId, PageId};

/// How a pool is cut into extents. Pages behind the last whole extent are never handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentLayout {
    /// Pages of the pool, the reserved ones included.
    pub pages: u32,
    /// Pages at its start that are never handed out.
    pub reserved: u32,
    /// Pages of an extent.
    pub extent_pages: u32,
}

impl ExtentLayout {
    /// How many extents there are.
    pub fn extents(&self) -> usize {
        let pages = self.pages.saturating_sub(self.reserved);
        pages.checked_div(self.extent_pages).unwrap_or(0) as usize
    }

    /// The pages of an extent.
    pub fn pages_of(&self, extent: ExtentId) -> Range<u32> {
        let first = self.reserved + extent.0 * self.extent_pages;
        first..first + self.extent_pages
    }

    /// The extent of a page, if it is in one.
    pub fn extent_of(&self, page: PageId) -> Option<ExtentId> {
        let behind = page.0.checked_sub(self.reserved)?;
        let extent = behind.checked_div(self.extent_pages)?;
        ((extent as usize) < self.extents()).then_some(ExtentId(extent))
    }
}

/// An extent that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Which one.
    pub extent: ExtentId,
    /// Its pages.
    pub pages: Range<u32>,
    /// Pages of it that others still read, from an owner before. Each comes by a [`Returned`] when it is free.
    pub withheld: Vec<PageId>,
}

impl Grant {
    /// The pages that the new owner may adopt at once.
    pub fn adoptable(&self) -> impl Iterator<Item = PageId> + Clone {
        self.pages
            .clone()
            .map(PageId)
            .filter(|page| self.withheld.binary_search(page).is_err())
    }
}

/// A page of a dead owner that nobody reads any more: it is `owner`'s to adopt, who has its extent by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Who has the extent now.
    pub owner: OwnerId,
    /// The page.
    pub page: PageId,
}

/// What follows from a death.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Death {
    /// Who must report what it reads of the dead one's pages, before its extents are handed out again.
    pub ask: Vec<OwnerId>,
    /// Pages that only the dead one still read.
    pub returned: Vec<Returned>,
}

/// Extents of a dead owner, of which living ones may read pages.
#[derive(Debug)]
struct Orphans {
    extents: BTreeSet<ExtentId>,
    /// Who has not said yet what it reads. Never empty.
    awaited: BTreeSet<OwnerId>,
}

/// Extents by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtentCounters {
    /// Processes in the pool.
    pub owners: usize,
    /// Extents of the pool.
    pub extents: usize,
    /// Those that can be granted.
    pub free: usize,
    /// Those of living owners.
    pub owned: usize,
    /// Those of dead owners whose readers have not all reported.
    pub orphaned: usize,
    /// Pages of dead owners that living ones still read.
    pub withheld: usize,
}

/// The book of one pool's extents. Kept by one process, which hears when another one dies (its socket hangs up).
///
/// While an owner lives, it alone knows who reads its pages. Dies it, that knowledge is lost, so all others are asked what
/// they read of it; when all have answered, its extents are free, but for the pages that are still read.
#[derive(Debug)]
pub struct Extents {
    layout: ExtentLayout,
    owners: BTreeMap<OwnerId, BTreeSet<ExtentId>>,
    dead: BTreeMap<OwnerId, Orphans>,
    free: BTreeSet<ExtentId>,
    readers: Readers,
    /// Owners join with rising numbers, so that a dead one's is never used again.
    newest: Option<OwnerId>,
}

impl Extents {
    /// All extents free.
    pub fn new(layout: ExtentLayout) -> Result<Self, ExtentError> {
        let ExtentLayout {
            pages,
            reserved,
            extent_pages,
        } = layout;
        if layout.extents() == 0 {
            return Err(ExtentError::NoExtent {
                pages,
                reserved,
                extent_pages,
            });
        }
        Ok(Self {
            layout,
            owners: BTreeMap::new(),
            dead: BTreeMap::new(),
            free: (0..layout.extents() as u32).map(ExtentId).collect(),
            readers: Readers::default(),
            newest: None,
        })
    }

    /// How the pool is cut.
    pub fn layout(&self) -> ExtentLayout {
        self.layout
    }

    /// A process maps the pool. Its number must be higher than all before: it names one life of a process.
    pub fn join(&mut self, owner: OwnerId) -> Result<(), ExtentError> {
        if self.newest >= Some(owner) {
            return Err(ExtentError::KnownOwner { owner });
        }
        self.newest = Some(owner);
        self.owners.insert(owner, BTreeSet::new());
        Ok(())
    }

    /// Gives an owner one more extent, the best of those with the fewest withheld pages: right behind one that it has,
    /// if that is free; else far from those of others, so that it and they find the next one right behind, too.
    pub fn grant(&mut self, owner: OwnerId) -> Result<Grant, ExtentError> {
        let own = self
            .owners
            .get_mut(&owner)
            .ok_or(ExtentError::UnknownOwner { owner })?;
        let withheld = |extent: &ExtentId| self.readers.pages(self.layout.pages_of(*extent));
        let behind = own
            .iter()
            .map(|extent| ExtentId(extent.0 + 1))
            .find(|extent| self.free.contains(extent) && withheld(extent).is_empty());
        let extent = behind.or_else(|| {
            let apart = self.free.iter().copied();
            let unread = |extent: &ExtentId| withheld(extent).is_empty();
            amid_the_longest(apart.filter(unread)).or_else(|| {
                let free = self.free.iter().copied();
                free.min_by_key(|extent| withheld(extent).len())
            })
        });
        let Some(extent) = extent else {
            return Err(ExtentError::OutOfExtents {
                extents: self.layout.extents(),
                orphaned: self
                    .dead
                    .values()
                    .map(|orphans| orphans.extents.len())
                    .sum(),
            });
        };
        let withheld = withheld(&extent);
        own.insert(extent);
        self.free.remove(&extent);
        Ok(Grant {
            extent,
            pages: self.layout.pages_of(extent),
            withheld,
        })
    }

    /// The owner has retired all pages of the extent: it is anyone's again.
    pub fn give_back(&mut self, owner: OwnerId, extent: ExtentId) -> Result<(), ExtentError> {
        let own = self
            .owners
            .get_mut(&owner)
            .ok_or(ExtentError::UnknownOwner { owner })?;
        if !own.remove(&extent) {
            return Err(ExtentError::NotOwner { extent, owner });
        }
        self.free.insert(extent);
        Ok(())
    }

    /// A process is dead: what it read is read no more, and its extents wait until all others have said what they read
    /// of them.
    pub fn died(&mut self, owner: OwnerId) -> Result<Death, ExtentError> {
        let extents = self
            .owners
            .remove(&owner)
            .ok_or(ExtentError::UnknownOwner { owner })?;
        let returned = self.readers.drop_reader(owner);
        let mut death = Death {
            ask: Vec::new(),
            returned: self.returned(returned),
        };
        let waiting: Vec<OwnerId> = self.dead.keys().copied().collect();
        for dead in waiting {
            self.heard(dead, owner);
        }
        if self.owners.is_empty() {
            self.free.extend(extents);
        } else if !extents.is_empty() {
            death.ask = self.owners.keys().copied().collect();
            let awaited = self.owners.keys().copied().collect();
            self.dead.insert(owner, Orphans { extents, awaited });
        }
        Ok(death)
    }

    /// All that `reader` reads of a dead owner's pages, a lease for each part of it with its end; what it names, stays as
    /// it is until then. Having reported, a reader accepts no lease of that owner any more, should one still arrive.
    pub fn report(
        &mut self,
        reader: OwnerId,
        dead: OwnerId,
        reads: Vec<(Box<[PageId]>, Moment)>,
    ) -> Result<Vec<LeaseId>, ExtentError> {
        let asked = self.dead.get(&dead);
        let orphans = asked.filter(|orphans| orphans.awaited.contains(&reader));
        let orphans = orphans.ok_or(ExtentError::NotAsked { reader, dead })?;
        let of_the_dead = |page: &&PageId| {
            let extent = self.layout.extent_of(**page);
            extent.is_some_and(|extent| orphans.extents.contains(&extent))
        };
        let mut pages = reads.iter().flat_map(|(pages, _)| pages.iter());
        if let Some(&page) = pages.find(|page| !of_the_dead(page)) {
            return Err(ExtentError::NotOfTheDead { page, dead });
        }
        let leases = reads
            .into_iter()
            .map(|(pages, until)| self.readers.add(reader, pages, until))
            .collect();
        self.heard(dead, reader);
        Ok(leases)
    }

    /// Moves the end of a reported read. It has ended when `now` is past it.
    pub fn renew(&mut self, lease: LeaseId, now: Moment, until: Moment) -> Result<(), ExtentError> {
        if self.readers.renew(lease, now, until) {
            Ok(())
        } else {
            Err(ExtentError::UnknownLease { lease })
        }
    }

    /// A reader has done with what it reported.
    pub fn end(&mut self, lease: LeaseId) -> Result<Vec<Returned>, ExtentError> {
        let ended = self.readers.end(lease);
        let pages = ended.ok_or(ExtentError::UnknownLease { lease })?;
        Ok(self.returned(pages))
    }

    /// Ends the reported reads that are over at `now`.
    pub fn expire(&mut self, now: Moment) -> Vec<Returned> {
        let pages = self.readers.expire(now);
        self.returned(pages)
    }

    /// When [`Extents::expire`] has something to do next.
    pub fn next_expiry(&self) -> Option<Moment> {
        self.readers.next_end()
    }

    /// Who allocates from the extent; none: nobody, or a dead owner.
    pub fn owner_of(&self, extent: ExtentId) -> Option<OwnerId> {
        let mut owners = self.owners.iter();
        owners.find_map(|(&owner, extents)| extents.contains(&extent).then_some(owner))
    }

    /// Extents by use.
    pub fn counters(&self) -> ExtentCounters {
        ExtentCounters {
            owners: self.owners.len(),
            extents: self.layout.extents(),
            free: self.free.len(),
            owned: self.owners.values().map(BTreeSet::len).sum(),
            orphaned: self.dead.values().map(|dead| dead.extents.len()).sum(),
            withheld: self.readers.len(),
        }
    }

    /// Verifies every invariant, in time linear in the extents and what is read of the dead.
    pub fn check(&self) -> Result<(), Corrupt> {
        let owned = self.owners.values().flatten();
        let orphaned = self.dead.values().flat_map(|dead| &dead.extents);
        let mut all: Vec<ExtentId> = owned.chain(orphaned).chain(&self.free).copied().collect();
        all.sort_unstable();
        if !all
            .iter()
            .map(|extent| extent.0 as usize)
            .eq(0..self.layout.extents())
        {
            return Err(Corrupt(format!(
                "extents are not each in one place: {all:?}"
            )));
        }
        for (dead, orphans) in &self.dead {
            let living = |owner| self.owners.contains_key(owner);
            if orphans.awaited.is_empty() || !orphans.awaited.iter().all(living) {
                return Err(Corrupt(format!("dead owner {dead} waits for nobody")));
            }
        }
        self.readers
            .check(|reader| self.owners.contains_key(&reader))
            .map_err(Corrupt)
    }

    /// `reader` has nothing more to say of `dead`. When nobody has, the extents are free.
    fn heard(&mut self, dead: OwnerId, reader: OwnerId) {
        let Some(orphans) = self.dead.get_mut(&dead) else {
            return;
        };
        orphans.awaited.remove(&reader);
        if orphans.awaited.is_empty()
            && let Some(orphans) = self.dead.remove(&dead)
        {
            self.free.extend(orphans.extents);
        }
    }

    /// Those of `pages`, which nobody reads any more, whose extents have a living owner.
    fn returned(&self, pages: Vec<PageId>) -> Vec<Returned> {
        let now_of = |page: PageId| {
            let owner = self.owner_of(self.layout.extent_of(page)?)?;
            Some(Returned { owner, page })
        };
        pages.into_iter().filter_map(now_of).collect()
    }
}

/// Of rising extents: the first of the pool's, if it begins the longest series of neighbours; else that series' middle one.
fn amid_the_longest(extents: impl Iterator<Item = ExtentId>) -> Option<ExtentId> {
    let mut longest: Option<Range<u32>> = None;
    let mut series = 0..0;
    for ExtentId(extent) in extents {
        if extent != series.end || series.is_empty() {
            series = extent..extent;
        }
        series.end = extent + 1;
        if longest
            .as_ref()
            .is_none_or(|longest| longest.len() < series.len())
        {
            longest = Some(series.clone());
        }
    }
    let longest = longest?;
    let middle = longest.start + (longest.end - longest.start - 1) / 2;
    Some(ExtentId(if longest.start == 0 { 0 } else { middle }))
}
