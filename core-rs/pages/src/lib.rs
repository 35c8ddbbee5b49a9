//! Paged KV memory: who uses which page. Pure state: it knows nothing of what lies in a page, no clock, no I/O.
//!
//! - [`PageAllocator`] hands out [`Run`]s (the pages of one sequence, in order) and [`Page`]s (one page, as an index holds
//!   it). Both are RAII handles: a page is free when the last handle over it is dropped, and its [`Generation`] is raised
//!   then, so that whoever noted it earlier can tell that the content is gone. A run may be forked ([`Run::share`]); who
//!   goes on writing asks what to copy first ([`Run::write`]). Tenants may have quotas.
//! - Another process reads pages under a [lease](PageAllocator::lease): a hold that ends by itself, at a moment of the
//!   caller's clock. Its end drops that hold and no other.
//! - [`Extents`] is the book of a pool that several processes map: each allocates from extents of its own, and a dead
//!   owner's are handed out again when nobody reads them any more.
//! - [`Tiers`] says what lies on the device, in the host's memory and on disk, what leaves for room and what comes back.

mod allocator;
mod counters;
mod error;
mod extents;
mod free;
mod generations;
mod id;
mod lease;
mod run;
mod table;
mod tenants;
mod tiers;
#[cfg(test)]
mod world;

pub use allocator::PageAllocator;
pub use counters::Counters;
pub use error::{Corrupt, PageError};
pub use extents::{
    Claim, Death, ExtentCounters, ExtentError, ExtentLayout, Extents, Grant, Reading, Restored,
    Returned,
};
pub use generations::{Generations, PrivateGenerations, current as current_generation};
pub use id::{ExtentId, Generation, LeaseId, Moment, OwnerId, PageId, Span, Stamped};
pub use run::{Copies, Page, Pin, Run};
pub use tenants::TenantUsage;
pub use tiers::{
    Acquired, EntryId, Move, MoveId, Residence, Room, Tier, TierCounters, TierError, TierPools,
    Tiers, Worth,
};
