//! This worker's arena: made for the first big payload, each of which is one blob of it. A payload is copied there, or it has
//! been computed there, in a draft.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use omniflow_arena::{
    Blob, BlobArena, Content, DeviceName, Fingerprint, HostArena, HostOptions, Layout, Place,
};
use omniflow_pages::{PageId, Stamped};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// Payloads of more bytes lie in the arena.
pub const BIG_BYTES: usize = 64 << 10;

/// A blob takes a multiple of this. Half the least payload: no more than a third of it is in vain.
const BLOCK_BYTES: u64 = 32 << 10;

/// See the module.
pub(crate) struct Store {
    limit: u64,
    /// None: there is no memory for it, which later payloads need not find out again.
    made: OnceLock<Option<Made>>,
    /// Where drafts begin that have not been sent.
    drafts: Mutex<FxHashMap<usize, Weak<Written>>>,
    counts: Arc<Counts>,
}

struct Made {
    blobs: BlobArena,
    /// Where its first block lies in this process.
    start: usize,
}

#[derive(Debug, Default)]
struct Counts {
    blobs: AtomicU64,
    bytes: AtomicU64,
    writes: AtomicU64,
    refused: AtomicU64,
}

/// Room before the data of a draft, for what its payload begins with.
const HEAD_ROOM: usize = 512;

/// What the `Bytes` of a blob own.
struct Written {
    blob: Blob,
    counts: Arc<Counts>,
}

impl Store {
    /// Of at most so many bytes; 0: everything stays on the heap.
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            made: OnceLock::new(),
            drafts: Mutex::default(),
            counts: Arc::default(),
        }
    }

    /// One payload of these parts, in order: in the arena if it is big and there is room, else on the heap. This is the only
    /// time that it is written. It begins at a multiple of 64 bytes if it lies in the arena.
    pub(crate) fn put(&self, parts: &[&[u8]]) -> Bytes {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if let Some(drafted) = self.drafted(parts) {
            return drafted;
        }
        if bytes > BIG_BYTES
            && let Some(made) = self.made()
        {
            match made.blobs.allocate(bytes as u64) {
                Ok(blob) => return self.write(blob, parts),
                Err(_) => self.counts.refused.fetch_add(1, Ordering::Relaxed),
            };
        }
        match parts {
            [part] => Bytes::copy_from_slice(part),
            parts => parts.concat().into(),
        }
    }

    fn write(&self, blob: Blob, parts: &[&[u8]]) -> Bytes {
        let (mut at, room) = (0, blob.view().len());
        for part in parts {
            debug_assert!(at + part.len() <= room);
            // SAFETY: the view has room for all parts (it was allocated for their sum) and is mapped for writing, as the
            // arena is this worker's own; nobody else knows of the blob yet. `copy` allows a part to lie in the arena.
            unsafe { std::ptr::copy(part.as_ptr(), blob.view().as_ptr().add(at), part.len()) };
            at += part.len();
        }
        Bytes::from_owner(self.count(blob))
    }

    fn count(&self, blob: Blob) -> Written {
        let bytes = blob.view().len() as u64;
        self.counts.writes.fetch_add(1, Ordering::Relaxed);
        self.counts.blobs.fetch_add(1, Ordering::Relaxed);
        self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        Written {
            blob,
            counts: Arc::clone(&self.counts),
        }
    }

    /// Room for so many bytes of data, to be computed in place; `None` if they are few, or there is none. What lies there is
    /// left from before.
    pub(crate) fn draft(&self, bytes: usize) -> Option<Draft> {
        if bytes <= BIG_BYTES {
            return None;
        }
        let room = bytes.checked_add(HEAD_ROOM)?;
        let blob = self.made()?.blobs.allocate(room as u64).ok();
        if blob.is_none() {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
        }
        let written = Arc::new(self.count(blob?));
        let draft = Draft { written, bytes };
        let start = draft.as_ptr() as usize;
        let mut drafts = self.drafts.lock();
        drafts.retain(|_, draft| draft.strong_count() > 0);
        drafts.insert(start, Arc::downgrade(&draft.written));
        Some(draft)
    }

    /// The payload whose last part is a draft that has not been sent: the others are written before it.
    fn drafted(&self, parts: &[&[u8]]) -> Option<Bytes> {
        let (data, head) = parts.split_last()?;
        let head_bytes: usize = head.iter().map(|part| part.len()).sum();
        if data.len() <= BIG_BYTES || head_bytes > HEAD_ROOM {
            return None;
        }
        let start = data.as_ptr() as usize;
        let mut drafts = self.drafts.lock();
        let written = drafts.get(&start)?.upgrade()?;
        if written.blob.view().len() != HEAD_ROOM + data.len() {
            return None;
        }
        // It is sent in place only once: what it begins with then stays.
        drafts.remove(&start);
        drop(drafts);
        let mut at = HEAD_ROOM - head_bytes;
        let from = at;
        for part in head {
            let room = written.blob.view().as_ptr();
            // SAFETY: the room before the data is as long as the parts (checked above), is mapped for writing, and is read
            // by nobody before this draft is sent, which is once.
            unsafe { std::ptr::copy(part.as_ptr(), room.add(at), part.len()) };
            at += part.len();
        }
        Some(Bytes::from_owner(Drafted { written, from }))
    }

    /// Where a payload lies, if it does so in the arena.
    pub(crate) fn find(&self, payload: &Bytes) -> Option<(&HostArena, Place)> {
        let made = self.made.get()?.as_ref()?;
        let arena = made.blobs.arena();
        let offset = (payload.as_ptr() as usize).checked_sub(made.start)? as u64;
        let end = offset.checked_add(payload.len() as u64)?;
        if end > arena.layout().data_bytes() {
            return None;
        }
        let page = PageId((offset / BLOCK_BYTES) as u32);
        // All blocks of a blob are freed at once, which they are not while the payload lives.
        let generation = arena.generation(page).ok()?;
        let place = Place {
            offset,
            bytes: payload.len() as u64,
            first: Stamped { page, generation },
        };
        Some((arena, place))
    }

    fn made(&self) -> Option<&Made> {
        let make = || self.make().ok();
        self.made.get_or_init(make).as_ref()
    }

    fn make(&self) -> Result<Made, omniflow_arena::ArenaError> {
        let blocks = u32::try_from(self.limit / BLOCK_BYTES).unwrap_or(u32::MAX);
        let layout = Layout::new(
            Content::Blobs,
            BLOCK_BYTES,
            blocks,
            Fingerprint::default(),
            DeviceName::host(),
        )?;
        let options = HostOptions {
            name: "omniflow-frames".to_owned(),
            ..HostOptions::default()
        };
        let arena = HostArena::create(&layout, &options)?;
        let start = arena.pages()?.as_ptr() as usize;
        Ok(Made {
            blobs: BlobArena::whole(arena)?,
            start,
        })
    }

    /// Bytes that there is room for, in whole blocks.
    pub(crate) fn capacity(&self) -> u64 {
        self.limit / BLOCK_BYTES * BLOCK_BYTES
    }

    /// Blobs that somebody holds.
    pub(crate) fn blobs(&self) -> u64 {
        self.counts.blobs.load(Ordering::Relaxed)
    }

    /// Bytes in them.
    pub(crate) fn bytes(&self) -> u64 {
        self.counts.bytes.load(Ordering::Relaxed)
    }

    /// Payloads that were put there.
    pub(crate) fn writes(&self) -> u64 {
        self.counts.writes.load(Ordering::Relaxed)
    }

    /// Big payloads that it had no room for.
    pub(crate) fn refused(&self) -> u64 {
        self.counts.refused.load(Ordering::Relaxed)
    }
}

/// Room for data that is computed in place. Whoever computes it keeps it for as long as it may be written.
pub struct Draft {
    written: Arc<Written>,
    bytes: usize,
}

impl Draft {
    /// Where the data begins: at a multiple of 64 bytes.
    pub fn as_ptr(&self) -> *mut u8 {
        self.written.blob.view().as_ptr().wrapping_add(HEAD_ROOM)
    }

    /// Bytes of data.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never: there is none of so few bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

/// A draft that was sent.
struct Drafted {
    written: Arc<Written>,
    from: usize,
}

impl AsRef<[u8]> for Drafted {
    fn as_ref(&self) -> &[u8] {
        &(*self.written).as_ref()[self.from..]
    }
}

impl AsRef<[u8]> for Written {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: it was written before it was shared, and nobody writes its blocks while it lives: readers map the arena
        // for reading only, and this process hands it out as `Bytes`.
        unsafe { self.blob.view().as_slice() }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let bytes = self.blob.view().len() as u64;
        self.counts.blobs.fetch_sub(1, Ordering::Relaxed);
        self.counts.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
