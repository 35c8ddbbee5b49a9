//! Leases: holds that end by themselves. This table knows when and for whom; what a hold means, its user decides.

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

use crate::id::{LeaseId, Moment, OwnerId, PageId};

/// A timed hold of another process on some pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// Its name.
    pub(crate) id: LeaseId,
    /// Who reads.
    pub(crate) holder: OwnerId,
    /// The pages, in the order that was asked for.
    pub(crate) pages: Box<[PageId]>,
    /// It has ended at this moment.
    pub(crate) until: Moment,
}

/// Leases by name, by end and by holder.
#[derive(Debug, Default)]
pub(crate) struct LeaseTable {
    leases: HashMap<LeaseId, Lease>,
    by_end: BTreeSet<(Moment, LeaseId)>,
    by_holder: BTreeSet<(OwnerId, LeaseId)>,
    last: LeaseId,
}

impl LeaseTable {
    pub(crate) fn len(&self) -> usize {
        self.leases.len()
    }

    pub(crate) fn grant(
        &mut self,
        holder: OwnerId,
        pages: Box<[PageId]>,
        until: Moment,
    ) -> LeaseId {
        self.last.0 += 1;
        let id = self.last;
        self.by_end.insert((until, id));
        self.by_holder.insert((holder, id));
        self.leases.insert(
            id,
            Lease {
                id,
                holder,
                pages,
                until,
            },
        );
        id
    }

    pub(crate) fn get(&self, id: LeaseId) -> Option<&Lease> {
        self.leases.get(&id)
    }

    /// Moves the end of a lease. Whether there is such a lease.
    pub(crate) fn renew(&mut self, id: LeaseId, until: Moment) -> bool {
        let Some(lease) = self.leases.get_mut(&id) else {
            return false;
        };
        self.by_end.remove(&(lease.until, id));
        self.by_end.insert((until, id));
        lease.until = until;
        true
    }

    /// Ends one; the caller gives its pages back.
    #[must_use]
    pub(crate) fn end(&mut self, id: LeaseId) -> Option<Lease> {
        let lease = self.leases.remove(&id)?;
        self.by_end.remove(&(lease.until, id));
        self.by_holder.remove(&(lease.holder, id));
        Some(lease)
    }

    /// Ends one that is over at `now`; the caller gives its pages back, and calls again.
    #[must_use]
    pub(crate) fn end_expired(&mut self, now: Moment) -> Option<Lease> {
        let &(until, id) = self.by_end.first()?;
        if until > now {
            return None;
        }
        self.end(id)
    }

    /// Ends one of the holder's; the caller gives its pages back, and calls again.
    #[must_use]
    pub(crate) fn end_held_by(&mut self, holder: OwnerId) -> Option<Lease> {
        let &(_, id) = self.by_holder.range(all_of(holder)).next()?;
        self.end(id)
    }

    /// When the next one ends by itself.
    pub(crate) fn next_end(&self) -> Option<Moment> {
        self.by_end.first().map(|&(until, _)| until)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        for (id, lease) in &self.leases {
            let listed = self.by_end.contains(&(lease.until, *id))
                && self.by_holder.contains(&(lease.holder, *id));
            if !listed || lease.id != *id || *id > self.last {
                return Err(format!("lease {id} is not listed as it should be"));
            }
        }
        let count = self.leases.len();
        if self.by_end.len() != count || self.by_holder.len() != count {
            return Err(format!(
                "lists name leases beyond the {count} that there are"
            ));
        }
        Ok(())
    }
}

fn all_of(holder: OwnerId) -> RangeInclusive<(OwnerId, LeaseId)> {
    (holder, LeaseId(0))..=(holder, LeaseId(u64::MAX))
}
