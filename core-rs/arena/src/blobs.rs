//! Tensors and media of any size: each in consecutive blocks of an arena.

use omniflow_pages::{PageAllocator, PageError, PageId, Run, Stamped};

use crate::error::ArenaError;
use crate::host::HostArena;
use crate::view::View;

/// Hands out pieces of an arena whose pages are blocks (4 to 64 KiB are sensible). Clones hand out the same ones.
#[derive(Clone, Debug)]
pub struct BlobArena {
    arena: HostArena,
    allocator: PageAllocator,
}

/// Where a blob lies: what a reader in another process is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where it begins, in bytes from the arena's first page; a multiple of the block's size.
    pub offset: u64,
    /// Bytes in it.
    pub bytes: u64,
    /// Its first block. All its blocks are freed at once, so that the generation of one tells of all.
    pub first: Stamped,
}

impl BlobArena {
    /// Hands out all of an arena, as the only process to do so.
    pub fn whole(arena: HostArena) -> Result<Self, ArenaError> {
        let allocator = arena.allocator(0)?;
        allocator.adopt((0..arena.layout().pages()).map(PageId))?;
        Ok(Self::over(arena, allocator))
    }

    /// Hands out what `allocator`, one of this arena's, has adopted.
    pub fn over(arena: HostArena, allocator: PageAllocator) -> Self {
        Self { arena, allocator }
    }

    /// Where the blobs lie.
    pub fn arena(&self) -> &HostArena {
        &self.arena
    }

    /// Who hands out the blocks: leases on blobs are leases on these.
    pub fn allocator(&self) -> &PageAllocator {
        &self.allocator
    }

    /// Room for `bytes` bytes in one piece; what lies there is left from before. At least one block.
    pub fn allocate(&self, bytes: u64) -> Result<Blob, ArenaError> {
        self.allocate_for("", bytes)
    }

    /// The same, charged to a tenant until it is free.
    pub fn allocate_for(&self, tenant: &str, bytes: u64) -> Result<Blob, ArenaError> {
        let block = self.arena.layout().page_bytes();
        let blocks = bytes.max(1).div_ceil(block) as usize;
        let run = match self.allocator.allocate_for(tenant, blocks) {
            Ok(run) => run,
            Err(PageError::OutOfPages { .. }) => return Err(self.full(bytes)),
            Err(refused) => return Err(refused.into()),
        };
        // The allocator prefers one span, and gives several only where no span is long enough.
        let [span] = run.spans()[..] else {
            drop(run);
            return Err(self.full(bytes));
        };
        let view = self.arena.view(u64::from(span.first.0) * block, bytes)?;
        let first = Stamped {
            page: span.first,
            generation: self.arena.generation(span.first)?,
        };
        Ok(Blob { run, view, first })
    }

    fn full(&self, wanted: u64) -> ArenaError {
        ArenaError::Full {
            wanted,
            free: self.allocator.free() as u64 * self.arena.layout().page_bytes(),
        }
    }
}

/// A piece of an arena, this process's to write. Its blocks are free once it is dropped and no lease is on them.
#[derive(Debug)]
pub struct Blob {
    run: Run,
    view: View,
    first: Stamped,
}

impl Blob {
    /// Its bytes, in place. A view outlives the blob, and then shows what comes next.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Its blocks.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// What to tell a reader.
    pub fn place(&self) -> Place {
        Place {
            offset: self.view.offset(),
            bytes: self.view.len() as u64,
            first: self.first,
        }
    }
}

impl HostArena {
    /// A blob of this arena, of whatever owner, in place. `StalePage` when it has been freed; whoever reads it calls
    /// [`HostArena::verify`] with `place.first` once it has read.
    pub fn blob(&self, place: Place) -> Result<View, ArenaError> {
        let block = self.layout().page_bytes();
        if place.offset != u64::from(place.first.page.0) * block {
            return Err(ArenaError::OutOfBounds {
                offset: place.offset,
                end: place.offset.saturating_add(place.bytes),
                size: self.layout().data_bytes(),
            });
        }
        let view = self.view(place.offset, place.bytes)?;
        self.verify(place.first)?;
        Ok(view)
    }
}
