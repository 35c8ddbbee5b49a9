//! Paged KV memory: page allocator, reference counts, generations.
//!
//! A pool is a fixed number of pages; this crate says who uses which, and knows nothing of what lies in them.
//! [`PageAllocator`] hands out [`Run`]s (the pages of one sequence, in order) and [`Page`]s (one page, as an index holds
//! it). Both are RAII handles: a page is free when the last handle over it is dropped, and its [`Generation`] is raised
//! then, so that whoever noted it earlier can tell that the content is gone.

mod allocator;
mod error;
mod free;
mod id;
mod run;
mod table;

pub use allocator::PageAllocator;
pub use error::{Corrupt, PageError};
pub use id::{Generation, PageId};
pub use run::{Page, Run};
