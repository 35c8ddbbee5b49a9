//! What the pages of a pool are doing, in numbers.

/// Pages by use. A page may be held, pinned and leased at once, so these don't add up; `free + held` is `own`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages of the pool, the reserved ones and those of other owners included.
    pub total: usize,
    /// Pages that are never handed out.
    pub reserved: usize,
    /// Pages that this allocator hands out: all but the reserved ones, or those of its extents.
    pub own: usize,
    /// Own pages that nobody holds.
    pub free: usize,
    /// Own pages that somebody holds, in whatever way.
    pub held: usize,
    /// Pages that a pin keeps where they are.
    pub pinned: usize,
    /// Pages that another process may read under a lease.
    pub leased: usize,
    /// Holds over all pages: runs, pages, pins and leases.
    pub references: usize,
    /// Leases that have not ended.
    pub leases: usize,
}

impl Counters {
    /// Whether nobody holds anything: what must be so again when all work has ended.
    pub fn is_idle(&self) -> bool {
        self.free == self.own
            && self.held == 0
            && self.pinned == 0
            && self.leased == 0
            && self.references == 0
            && self.leases == 0
    }
}
