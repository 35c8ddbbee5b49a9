//! An arena in the host's memory: made, mapped, checked.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use omniflow_pages::{Generation, Generations, PageAllocator, PageError, PageId, Stamped};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

use crate::error::ArenaError;
use crate::header::{ArenaId, Geometry, HEADER_ROOM, Header, Medium};
use crate::layout::Layout;
use crate::mapping::{LARGE_PAGE, Mapping};
use crate::room::require_room;
use crate::view::View;

/// What keeps the memory as large as it is: else whoever has the descriptor could cut it off under a reader.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// How a new arena gets its memory.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Shown by the system's tools (`/proc/PID/maps`), and never looked up. 200 bytes at most.
    pub name: String,
    /// Find all memory now. Else it is found page by page at the first use, and the process is killed if there is none.
    pub prefault: bool,
    /// Use large pages where the system allows that.
    pub huge_pages: bool,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            name: "omniflow-arena".into(),
            prefault: false,
            huge_pages: true,
        }
    }
}

/// What a process may do with an arena that it maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read all of it.
    Read,
    /// Read all of it, and write its own extents.
    Write,
}

/// Which large pages back an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// None: not wanted, or not allowed by the system.
    None,
    /// The system uses them where it finds some (`transparent_hugepage/shmem_enabled` is `advise` or `always`).
    Advised,
    /// All, of those that were set aside at boot (`vm.nr_hugepages`).
    Reserved,
}

/// How an arena lies in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes mapped: header, generations and, in an arena of the host, all pages.
    pub mapped_bytes: u64,
    /// Whether all memory was found in advance.
    pub prefaulted: bool,
    /// Large pages.
    pub huge_pages: HugePages,
    /// Whether it is mapped for writing.
    pub writable: bool,
}

#[derive(Debug)]
struct Shared {
    mapping: Mapping,
    descriptor: OwnedFd,
    header: Header,
    info: MemoryInfo,
}

/// Shared memory in this process. Clones are the same mapping; it lives as long as any of them, or of its [`View`]s.
#[derive(Clone, Debug)]
pub struct HostArena {
    shared: Arc<Shared>,
}

impl HostArena {
    /// New memory, all zeros, that only its descriptor leads to.
    pub fn create(layout: &Layout, options: &HostOptions) -> Result<Self, ArenaError> {
        let reserved = options
            .huge_pages
            .then(|| Self::make(layout, options, true));
        match reserved {
            // No large page is set aside, or too few: that is common, and no error.
            None | Some(Err(_)) => Self::make(layout, options, false),
            Some(made) => made,
        }
    }

    fn make(layout: &Layout, options: &HostOptions, reserved: bool) -> Result<Self, ArenaError> {
        let geometry = geometry_of(layout);
        if options.prefault {
            require_room(geometry.file_bytes)?;
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let flags = if reserved {
            flags | MemfdFlags::HUGETLB
        } else {
            flags
        };
        let descriptor = rustix::fs::memfd_create(options.name.as_str(), flags)
            .map_err(ArenaError::system("making anonymous memory"))?;
        rustix::fs::ftruncate(&descriptor, geometry.file_bytes)
            .map_err(|error| out_of_memory(geometry, error))?;
        let header = Header {
            layout: layout.clone(),
            id: ArenaId::new()?,
            geometry,
        };
        rustix::fs::fcntl_add_seals(&descriptor, SEALS)
            .map_err(ArenaError::system("sealing an arena"))?;
        let mapping = map(&descriptor, geometry, Access::Write)?;
        let bytes = header.encode(Medium::Memory);
        // SAFETY: the mapping is new, writable and longer than a header, and nobody else has its descriptor yet.
        unsafe {
            mapping
                .at(0)
                .copy_from_nonoverlapping(NonNull::from(&bytes).cast(), bytes.len())
        };
        let huge_pages = match (reserved, options.huge_pages) {
            (true, _) => HugePages::Reserved,
            (false, true) if mapping.advise_huge() => HugePages::Advised,
            _ => HugePages::None,
        };
        let info = MemoryInfo {
            mapped_bytes: geometry.file_bytes,
            prefaulted: options.prefault && populate(&mapping, geometry)?,
            huge_pages,
            writable: true,
        };
        Ok(Self::new(mapping, descriptor, header, info))
    }

    /// Maps memory that another process made. It must be as `told`: nothing is mapped before its size, its seals and its
    /// header have been found so.
    pub fn open(descriptor: OwnedFd, told: &Layout, access: Access) -> Result<Self, ArenaError> {
        let geometry = geometry_of(told);
        require_sealed(&descriptor)?;
        let found = rustix::fs::fstat(&descriptor).map_err(ArenaError::system("reading a size"))?;
        if u64::try_from(found.st_size) != Ok(geometry.file_bytes) {
            return Err(ArenaError::damaged(format!(
                "it has {} bytes where an arena as told has {}",
                found.st_size, geometry.file_bytes
            )));
        }
        let mut bytes = [0; Header::SIZE];
        let read = rustix::io::pread(&descriptor, &mut bytes[..], 0)
            .map_err(ArenaError::system("reading a header"))?;
        let header = Header::decode(Medium::Memory, &bytes[..read], geometry_of)?;
        header.layout.require(told)?;
        let mapping = map(&descriptor, geometry, access)?;
        let info = MemoryInfo {
            mapped_bytes: geometry.file_bytes,
            prefaulted: false,
            huge_pages: match mapping.advise_huge() {
                true => HugePages::Advised,
                false => HugePages::None,
            },
            writable: access == Access::Write,
        };
        Ok(Self::new(mapping, descriptor, header, info))
    }

    fn new(mapping: Mapping, descriptor: OwnedFd, header: Header, info: MemoryInfo) -> Self {
        Self {
            shared: Arc::new(Shared {
                mapping,
                descriptor,
                header,
                info,
            }),
        }
    }

    /// What it is made of.
    pub fn layout(&self) -> &Layout {
        &self.shared.header.layout
    }

    /// Which arena it is, in every process.
    pub fn id(&self) -> ArenaId {
        self.shared.header.id
    }

    /// How it lies in this process.
    pub fn info(&self) -> MemoryInfo {
        self.shared.info
    }

    /// Whether it is mapped for writing.
    pub fn writable(&self) -> bool {
        self.shared.mapping.writable()
    }

    /// What to pass to other processes.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.descriptor.as_fd()
    }

    pub(crate) fn header(&self) -> &Header {
        &self.shared.header
    }

    /// The generations of its pages, as every process sees them.
    pub fn generations(&self) -> Arc<dyn Generations> {
        Arc::new(SharedGenerations(self.clone()))
    }

    /// Hands out pages of this arena, once extents are adopted; never the first `reserved`.
    pub fn allocator(&self, reserved: u32) -> Result<PageAllocator, ArenaError> {
        if !self.writable() {
            return Err(ArenaError::ReadOnly);
        }
        Ok(PageAllocator::in_pool(self.generations(), reserved))
    }

    /// How often a page has been freed, by whoever owns it. What was read from it before counts as read before.
    pub fn generation(&self, page: PageId) -> Result<Generation, ArenaError> {
        let found = omniflow_pages::current_generation(self.words(), page);
        found.ok_or_else(|| self.unknown(page).into())
    }

    /// `StalePage` if the page has been freed since its generation was noted.
    pub fn verify(&self, noted: Stamped) -> Result<(), ArenaError> {
        let current = self.generation(noted.page)?;
        if current == noted.generation {
            return Ok(());
        }
        let stale = PageError::StalePage {
            page: noted.page,
            generation: noted.generation,
            current,
        };
        Err(stale.into())
    }

    /// A page, in place.
    pub fn page(&self, page: PageId) -> Result<View, ArenaError> {
        if page.0 >= self.layout().pages() {
            return Err(self.unknown(page).into());
        }
        let bytes = self.layout().page_bytes();
        self.view(u64::from(page.0) * bytes, bytes)
    }

    /// All pages, in place.
    pub fn pages(&self) -> Result<View, ArenaError> {
        self.view(0, self.layout().data_bytes())
    }

    /// `bytes` bytes from `offset` on, counted from the first page, in place.
    pub fn view(&self, offset: u64, bytes: u64) -> Result<View, ArenaError> {
        let layout = self.layout();
        if !layout.device().is_host() {
            return Err(ArenaError::Elsewhere {
                device: layout.device().clone(),
            });
        }
        let size = layout.data_bytes();
        let end = offset.saturating_add(bytes);
        if end > size {
            return Err(ArenaError::OutOfBounds { offset, end, size });
        }
        let at = self.shared.header.geometry.data_at + offset;
        let start = self.shared.mapping.at(at as usize);
        Ok(View::new(self.clone(), start, offset, bytes as usize))
    }

    fn words(&self) -> &[AtomicU64] {
        let start = self.shared.mapping.at(HEADER_ROOM as usize);
        let pages = self.layout().pages() as usize;
        // SAFETY: the geometry has a word for each page there, aligned as the mapping begins at a page of memory; the
        // mapping lives as long as `self`. Every process treats them as atomics, and in one that maps them for reading
        // only nothing is stored (`allocator` is refused).
        unsafe { std::slice::from_raw_parts(start.as_ptr().cast::<AtomicU64>(), pages) }
    }

    fn unknown(&self, page: PageId) -> PageError {
        PageError::UnknownPage {
            page,
            first: 0,
            end: self.layout().pages(),
        }
    }
}

/// Generations in memory that several processes map.
#[derive(Debug)]
struct SharedGenerations(HostArena);

impl Generations for SharedGenerations {
    fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

/// Where things lie in an arena of this layout.
pub(crate) fn geometry_of(layout: &Layout) -> Geometry {
    let words = u64::from(layout.pages()) * size_of::<AtomicU64>() as u64;
    let data_at = (HEADER_ROOM + words).next_multiple_of(LARGE_PAGE as u64);
    let here = if layout.device().is_host() {
        layout.data_bytes()
    } else {
        0
    };
    Geometry {
        data_at,
        file_bytes: (data_at + here).next_multiple_of(LARGE_PAGE as u64),
    }
}

fn map(descriptor: &OwnedFd, geometry: Geometry, access: Access) -> Result<Mapping, ArenaError> {
    Mapping::new(
        descriptor,
        geometry.file_bytes as usize,
        access == Access::Write,
    )
    .map_err(|error| out_of_memory(geometry, error))
}

/// Whether the system can.
fn populate(mapping: &Mapping, geometry: Geometry) -> Result<bool, ArenaError> {
    match mapping.populate(0..geometry.file_bytes as usize) {
        Ok(()) => Ok(true),
        // Kernels before 5.14 do not know how: then memory is found at the first use.
        Err(Errno::INVAL) => Ok(false),
        Err(error) => Err(out_of_memory(geometry, error)),
    }
}

/// Only sealed memory is mapped: a file could be cut short, and reading behind its end kills the process.
fn require_sealed(descriptor: &OwnedFd) -> Result<(), ArenaError> {
    match rustix::fs::fcntl_get_seals(descriptor) {
        Ok(seals) if seals.contains(SEALS) => Ok(()),
        Ok(_) => Err(ArenaError::damaged("its size is not sealed")),
        Err(Errno::INVAL) => Err(ArenaError::damaged("it is no anonymous memory")),
        Err(error) => Err(ArenaError::system("reading seals")(error)),
    }
}

fn out_of_memory(geometry: Geometry, error: Errno) -> ArenaError {
    ArenaError::OutOfMemory {
        bytes: geometry.file_bytes,
        error,
    }
}
