//! Pages that outlive their process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use omniflow_pages::{Generation, Generations, Page, PageAllocator, PageError, PageId};
use parking_lot::Mutex;

use super::aligned::{BLOCK, Buffers, is_aligned};
use super::error::DiskError;
use super::file::File;
use super::record::{Content, KEY, Record, Said, checksum};
use crate::error::ArenaError;
use crate::header::{ArenaId, Geometry, HEADER_ROOM, Header};
use crate::layout::Layout;

/// A page that an earlier process wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its slot.
    pub page: PageId,
    /// Its key.
    pub key: [u8; KEY],
}

/// What an opened file holds. Its pages' bytes are checked when they are read.
#[derive(Debug)]
pub struct Opened {
    /// The arena.
    pub arena: DiskArena,
    /// Pages that are there, by slot.
    pub found: Vec<Found>,
    /// Slots whose page was given up, as what is said about it was not written whole, or is damaged.
    pub dropped: Vec<PageId>,
}

/// The slots of an arena on disk, to be handed out.
#[derive(Debug)]
pub struct Slots {
    /// Who hands them out.
    pub allocator: PageAllocator,
    /// The pages that are there, by slot.
    pub held: Vec<Held>,
}

/// A page that is there, held.
#[derive(Debug)]
pub struct Held {
    /// Its slot.
    pub page: Page,
    /// Its key.
    pub key: [u8; KEY],
}

/// How an arena lies on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskInfo {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Whether pages go past the system's cache.
    pub direct: bool,
    /// Slots that hold a page.
    pub filled: usize,
}

#[derive(Debug)]
struct Shared {
    file: File,
    header: Header,
    buffers: Buffers,
    /// What each slot holds. Held for the length of one look or change, never while the disk is waited for.
    records: Mutex<Vec<Record>>,
    generations: Arc<DiskGenerations>,
}

/// A file of pages, which this process alone has open. Clones are the same one. Safe from several threads, on different
/// slots also at the same time.
#[derive(Clone, Debug)]
pub struct DiskArena {
    shared: Arc<Shared>,
}

impl DiskArena {
    /// A new file, complete under its name or not there at all.
    pub fn create(path: &Path, layout: &Layout) -> Result<Self, DiskError> {
        let id = ArenaId::new().map_err(|error| DiskError::Unusable {
            path: path.into(),
            error,
        })?;
        let header = Header {
            layout: layout.clone(),
            id,
            geometry: geometry_of(layout),
        };
        let file = File::create(path, &header)?;
        let untouched = Record {
            generation: Generation(0),
            content: None,
        };
        let records = vec![untouched; layout.pages() as usize];
        Ok(Self::new(file, header, records))
    }

    /// A file that is there. It must be of `layout`, and whole.
    pub fn open(path: &Path, layout: &Layout) -> Result<Opened, DiskError> {
        let (file, header) = File::open(path, geometry_of)?;
        let unusable = |error: ArenaError| DiskError::Unusable {
            path: path.into(),
            error,
        };
        header.layout.require(layout).map_err(unusable)?;
        let mut table = vec![0; layout.pages() as usize * Record::SIZE];
        file.read(&mut table, HEADER_ROOM)?;
        let (mut records, mut found, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
        let (slots, _) = table.as_chunks::<{ Record::SIZE }>();
        for (page, slot) in (0..).map(PageId).zip(slots) {
            let mut record = Record {
                generation: Generation(0),
                content: None,
            };
            match Record::decode(slot) {
                Said::Untouched => {}
                Said::Damaged => dropped.push(page),
                Said::Record(said) => record = said,
            }
            found.extend(record.content.map(|content| Found {
                page,
                key: content.key,
            }));
            records.push(record);
        }
        Ok(Opened {
            arena: Self::new(file, header, records),
            found,
            dropped,
        })
    }

    /// Opens what is there, or creates it.
    pub fn open_or_create(path: &Path, layout: &Layout) -> Result<Opened, DiskError> {
        match Self::open(path, layout) {
            Err(DiskError::Missing { .. }) => {}
            opened => return opened,
        }
        match Self::create(path, layout) {
            Ok(arena) => Ok(Opened {
                arena,
                found: Vec::new(),
                dropped: Vec::new(),
            }),
            // Somebody else was quicker.
            Err(DiskError::Exists { .. }) => Self::open(path, layout),
            Err(error) => Err(error),
        }
    }

    fn new(file: File, header: Header, records: Vec<Record>) -> Self {
        let words = records.iter().map(|record| record.generation.0);
        let generations = DiskGenerations(words.map(AtomicU64::new).collect());
        Self {
            shared: Arc::new(Shared {
                file,
                buffers: Buffers::new(stride(&header.layout) as usize),
                header,
                records: Mutex::new(records),
                generations: Arc::new(generations),
            }),
        }
    }

    /// What it is made of.
    pub fn layout(&self) -> &Layout {
        &self.shared.header.layout
    }

    /// Which arena it is.
    pub fn id(&self) -> ArenaId {
        self.shared.header.id
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.shared.file.path()
    }

    /// How it lies on disk.
    pub fn info(&self) -> DiskInfo {
        let records = self.shared.records.lock();
        DiskInfo {
            file_bytes: self.shared.header.geometry.file_bytes,
            direct: self.shared.file.is_direct(),
            filled: records
                .iter()
                .filter(|record| record.content.is_some())
                .count(),
        }
    }

    /// An allocator over the slots, in which the pages that are there are held. Dropping one frees its slot; the page may
    /// then be found again after a restart, until the slot is written to or [`DiskArena::forget`] is called. Call it once.
    pub fn allocator(&self) -> Result<Slots, PageError> {
        let allocator = PageAllocator::in_pool(self.shared.generations.clone(), 0);
        let records = self.shared.records.lock().clone();
        let pages = (0..).map(PageId);
        let (filled, empty): (Vec<_>, Vec<_>) = pages
            .zip(&records)
            .partition(|(_, record)| record.content.is_some());
        allocator.adopt(ids(&filled))?;
        // All that there is to hand out by now.
        let run = allocator.allocate(filled.len())?;
        allocator.adopt(ids(&empty))?;
        let held = run.hold(0..run.len()).into_iter();
        let key = |page: Page| {
            let content = records[page.id().0 as usize].content;
            content.map(|content| Held {
                page,
                key: content.key,
            })
        };
        Ok(Slots {
            allocator,
            held: held.filter_map(key).collect(),
        })
    }

    /// Writes a page into a slot that the caller has allocated. If it fails, the slot holds nothing.
    pub fn write(&self, page: PageId, key: &[u8; KEY], bytes: &[u8]) -> Result<(), DiskError> {
        self.fits(page, bytes.len())?;
        // Until the new record is written, nothing must pass for the old page.
        self.forget(page)?;
        let generation = self.generation(page);
        let fingerprint = self.layout().fingerprint();
        let content = Content {
            key: *key,
            checksum: checksum(fingerprint, page, generation, key, bytes),
        };
        let at = self.data_at(page);
        if is_aligned(bytes) {
            self.shared.file.write_blocks(bytes, at)?;
        } else {
            self.shared.buffers.lend(|buffer| {
                buffer[..bytes.len()].copy_from_slice(bytes);
                buffer[bytes.len()..].fill(0);
                self.shared.file.write_blocks(buffer, at)
            })?;
        }
        self.record(
            page,
            Record {
                generation,
                content: Some(content),
            },
        )
    }

    /// Reads a page, if the slot holds it. After an error, `bytes` hold anything.
    pub fn read(&self, page: PageId, key: &[u8; KEY], bytes: &mut [u8]) -> Result<(), DiskError> {
        self.fits(page, bytes.len())?;
        let record = self.shared.records.lock()[page.0 as usize];
        let content = record.content.filter(|content| content.key == *key);
        let content = content.ok_or(DiskError::NotThere { page })?;
        let at = self.data_at(page);
        if is_aligned(bytes) {
            self.shared.file.read_blocks(bytes, at)?;
        } else {
            self.shared.buffers.lend(|buffer| {
                self.shared.file.read_blocks(buffer, at)?;
                bytes.copy_from_slice(&buffer[..bytes.len()]);
                Ok::<(), DiskError>(())
            })?;
        }
        let fingerprint = self.layout().fingerprint();
        if checksum(fingerprint, page, record.generation, key, bytes) == content.checksum {
            return Ok(());
        }
        // Somebody may have freed and written the slot meanwhile: then nothing is damaged, and it stays.
        if self.shared.records.lock()[page.0 as usize] != record {
            return Err(DiskError::NotThere { page });
        }
        // If that cannot be written down, the checksum tells again after a restart.
        let _ = self.forget(page);
        Err(DiskError::PageDamaged { page })
    }

    /// The slot holds nothing any more, also after a restart.
    pub fn forget(&self, page: PageId) -> Result<(), DiskError> {
        self.known(page)?;
        let filled = self.shared.records.lock()[page.0 as usize].content;
        if filled.is_none() {
            return Ok(());
        }
        self.record(
            page,
            Record {
                generation: self.generation(page),
                content: None,
            },
        )
    }

    /// What was written survives the loss of power from now on. Without it, pages that did not get to the disk are noticed
    /// by their checksums.
    pub fn sync(&self) -> Result<(), DiskError> {
        self.shared.file.sync()
    }

    fn record(&self, page: PageId, record: Record) -> Result<(), DiskError> {
        let at = HEADER_ROOM + u64::from(page.0) * Record::SIZE as u64;
        // In memory it is gone first, and there last.
        self.shared.records.lock()[page.0 as usize].content = None;
        self.shared.file.write(&record.encode(), at)?;
        self.shared.records.lock()[page.0 as usize] = record;
        Ok(())
    }

    fn generation(&self, page: PageId) -> Generation {
        let found = omniflow_pages::current_generation(self.shared.generations.words(), page);
        found.unwrap_or_default()
    }

    fn data_at(&self, page: PageId) -> u64 {
        self.shared.header.geometry.data_at + u64::from(page.0) * stride(self.layout())
    }

    fn known(&self, page: PageId) -> Result<(), DiskError> {
        let pages = self.layout().pages();
        if page.0 < pages {
            return Ok(());
        }
        Err(DiskError::UnknownPage { page, pages })
    }

    fn fits(&self, page: PageId, bytes: usize) -> Result<(), DiskError> {
        self.known(page)?;
        let expected = self.layout().page_bytes();
        if bytes as u64 == expected {
            return Ok(());
        }
        Err(DiskError::WrongSize {
            expected,
            found: bytes,
        })
    }
}

/// Generations that go on where the last process's writes left them.
#[derive(Debug)]
struct DiskGenerations(Box<[AtomicU64]>);

impl Generations for DiskGenerations {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

fn ids(slots: &[(PageId, &Record)]) -> Vec<PageId> {
    slots.iter().map(|(page, _)| *page).collect()
}

/// Bytes from one page to the next.
fn stride(layout: &Layout) -> u64 {
    layout.page_bytes().next_multiple_of(BLOCK)
}

fn geometry_of(layout: &Layout) -> Geometry {
    let table = u64::from(layout.pages()) * Record::SIZE as u64;
    let data_at = (HEADER_ROOM + table).next_multiple_of(BLOCK);
    Geometry {
        data_at,
        file_bytes: data_at + u64::from(layout.pages()) * stride(layout),
    }
}
