//! What names a page, one life of it, and those who use it.

use std::fmt;

/// Declares a number that names one kind of thing.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($number:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $number);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    )*};
}

numbers! {
    /// A page of the pool: the index into the page dimension of the tensor that holds it.
    PageId(u32);

    /// How often a page has been freed. Never reused: at a million frees a second it lasts 500,000 years.
    Generation(u64);

    /// One life of a process that allocates or reads pages of a pool. A restarted process is another owner.
    OwnerId(u64);

    /// A lease; never used for another one.
    LeaseId(u64);

    /// Some consecutive pages that one owner allocates from: number `n` of the pool's.
    ExtentId(u32);

    /// A point in time, in milliseconds on the caller's own clock: compared with each other only.
    Moment(u64);
}

impl PageId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// A page index fits: a pool is made from a number of pages that does.
    pub(crate) fn from_index(index: usize) -> Self {
        debug_assert!(u32::try_from(index).is_ok());
        Self(index as u32)
    }
}

/// Consecutive pages: what one copy can move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The lowest of them.
    pub first: PageId,
    /// How many.
    pub pages: u32,
}

impl Span {
    /// The spans of `pages`, in their order.
    pub fn of(pages: &[PageId]) -> Vec<Self> {
        let follows = |before: &PageId, next: &PageId| before.0.checked_add(1) == Some(next.0);
        pages
            .chunk_by(follows)
            .map(|span| Self {
                first: span[0],
                pages: span.len() as u32,
            })
            .collect()
    }
}

/// A page in one of its lives: what a reader notes before it reads, and checks after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamped {
    /// The page.
    pub page: PageId,
    /// Its generation.
    pub generation: Generation,
}
