//! A new book, when the process that kept the old one is dead: all who live say what they have.

use std::collections::BTreeSet;

use super::{ExtentError, ExtentLayout, Extents, Returned};
use crate::id::{ExtentId, LeaseId, Moment, OwnerId, PageId};

/// A lease on pages of an owner, as its reader knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Who granted it, dead or alive.
    pub owner: OwnerId,
    /// What is read.
    pub pages: Box<[PageId]>,
    /// When it ends.
    pub until: Moment,
}

/// What a living process has of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The process.
    pub owner: OwnerId,
    /// The extents that it allocates from.
    pub extents: Vec<ExtentId>,
    /// Pages of them that it has not adopted: others read them, from an owner before.
    pub withheld: Vec<PageId>,
    /// All leases that it has.
    pub reads: Vec<Reading>,
}

/// A book made of claims.
#[derive(Debug)]
pub struct Restored {
    /// The book.
    pub book: Extents,
    /// For each claim and each of its reads: the book's lease on pages of a dead owner. None while the owner lives, who
    /// keeps that lease itself, and when the pages are somebody else's by now: the lease was over.
    pub leases: Vec<Vec<Option<LeaseId>>>,
    /// Withheld pages that nobody reads any more.
    pub returned: Vec<Returned>,
}

impl Extents {
    /// The book of a pool of which all living processes have made their claim; whoever has made none is dead. What nobody
    /// claims is free, but for the pages that are still read.
    pub fn restore(layout: ExtentLayout, claims: &[Claim]) -> Result<Restored, ExtentError> {
        let mut book = Self::new(layout)?;
        for claim in claims {
            book.newest = book.newest.max(Some(claim.owner));
            book.take_claim(claim)?;
        }
        let withheld: BTreeSet<PageId> = withheld_in(claims).collect();
        let mut leases = Vec::with_capacity(claims.len());
        for claim in claims {
            let add = |read: &Reading| book.take_reading(claim.owner, read, &withheld);
            leases.push(claim.reads.iter().map(add).collect());
        }
        let read: BTreeSet<PageId> = book.readers.pages(0..layout.pages).into_iter().collect();
        let unread = |page: &PageId| !read.contains(page);
        let withheld = claims
            .iter()
            .flat_map(|claim| claim.withheld.iter().copied());
        let returned = book.returned(withheld.filter(unread).collect());
        Ok(Restored {
            book,
            leases,
            returned,
        })
    }

    fn take_claim(&mut self, claim: &Claim) -> Result<(), ExtentError> {
        let owner = claim.owner;
        for &extent in &claim.extents {
            if !self.free.remove(&extent) {
                return Err(ExtentError::NotClaimable { extent, owner });
            }
        }
        let extents = claim.extents.iter().copied().collect();
        match self.owners.insert(owner, extents) {
            None => Ok(()),
            Some(_) => Err(ExtentError::KnownOwner { owner }),
        }
    }

    /// Whoever has a page's extent and does not withhold the page uses it: a lease that says otherwise is over.
    fn take_reading(
        &mut self,
        reader: OwnerId,
        read: &Reading,
        withheld: &BTreeSet<PageId>,
    ) -> Option<LeaseId> {
        if self.owners.contains_key(&read.owner) {
            return None;
        }
        let is_of_the_dead = |page: &PageId| {
            let extent = self.layout.extent_of(*page);
            extent.is_some_and(|extent| withheld.contains(page) || self.free.contains(&extent))
        };
        let pages: Box<[PageId]> = read.pages.iter().copied().filter(is_of_the_dead).collect();
        (!pages.is_empty()).then(|| self.readers.add(reader, pages, read.until))
    }
}

fn withheld_in(claims: &[Claim]) -> impl Iterator<Item = PageId> {
    claims
        .iter()
        .flat_map(|claim| claim.withheld.iter().copied())
}
