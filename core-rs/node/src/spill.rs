//! Payloads that memory has no room for: in files that are appended to, each gone with the last payload in it.
//!
//! The files have no names: they are unlinked as soon as they are open, so that nothing of them outlives the process, however
//! it ends. What is read back is compared with the digest of what was written.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use bytes::Bytes;
use omniflow_flow::Payload;
use rustc_hash::FxHashMap;
use thiserror::Error;

/// A file is not appended to beyond this.
const FILE_BYTES: u64 = 64 << 20;

/// Why a payload could not be put aside, or not be had back.
#[derive(Debug, Error)]
pub(crate) enum SpillError {
    /// As much as may be on disk is.
    #[error("{used} of {limit} bytes on disk are in use")]
    Full { used: u64, limit: u64 },
    /// The disk does not do it.
    #[error("{folder}: {cause}")]
    Disk { folder: String, cause: io::Error },
    /// It is not what was written.
    #[error("{folder}: what was read back is not what was written")]
    Damaged { folder: String },
}

/// Where a payload lies. Whoever has it, frees it.
#[derive(Debug)]
pub(crate) struct Slot {
    file: u32,
    offset: u64,
    len: usize,
    digest: u64,
}

impl Slot {
    /// Bytes of the payload.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[derive(Debug)]
struct Segment {
    file: File,
    len: u64,
    live: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Spill {
    folder: PathBuf,
    limit: u64,
    /// Bytes in files, and of those, what is not free.
    used: u64,
    live: u64,
    files: FxHashMap<u32, Segment>,
    /// The one that is appended to.
    open: Option<u32>,
    next: u32,
}

impl Spill {
    /// In files of this folder, which is made when it is needed.
    pub(crate) fn new(folder: PathBuf, limit: u64) -> Self {
        Self {
            folder,
            limit,
            used: 0,
            live: 0,
            files: FxHashMap::default(),
            open: None,
            next: 0,
        }
    }

    /// Bytes of payloads on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.live
    }

    /// The most bytes that there may be.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn put(&mut self, payload: &Bytes) -> Result<Slot, SpillError> {
        let len = payload.len() as u64;
        if self.used.saturating_add(len) > self.limit {
            let (used, limit) = (self.used, self.limit);
            return Err(SpillError::Full { used, limit });
        }
        let number = self.open_file()?;
        let offset = self.append(number, payload);
        let offset = offset.map_err(|cause| self.failed(cause))?;
        self.used += len;
        self.live += len;
        Ok(Slot {
            file: number,
            offset,
            len: payload.len(),
            digest: payload.digest(),
        })
    }

    pub(crate) fn get(&self, slot: &Slot) -> Result<Bytes, SpillError> {
        let mut payload = vec![0; slot.len];
        if let Some(segment) = self.files.get(&slot.file) {
            let read = segment.file.read_exact_at(&mut payload, slot.offset);
            read.map_err(|cause| self.failed(cause))?;
        }
        let payload = Bytes::from(payload);
        if payload.digest() != slot.digest {
            let folder = self.folder.display().to_string();
            return Err(SpillError::Damaged { folder });
        }
        Ok(payload)
    }

    pub(crate) fn free(&mut self, slot: Slot) {
        let Some(segment) = self.files.get_mut(&slot.file) else {
            return;
        };
        segment.live -= slot.len as u64;
        self.live -= slot.len as u64;
        if segment.live == 0 {
            self.used -= segment.len;
            self.files.remove(&slot.file);
            self.open = self.open.filter(|open| *open != slot.file);
        }
    }

    fn append(&mut self, number: u32, payload: &[u8]) -> io::Result<u64> {
        let Some(segment) = self.files.get_mut(&number) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let offset = segment.len;
        segment.file.write_all_at(payload, offset)?;
        segment.len += payload.len() as u64;
        segment.live += payload.len() as u64;
        Ok(offset)
    }

    /// A file with room.
    fn open_file(&mut self) -> Result<u32, SpillError> {
        let roomy = |number: &u32| {
            let segment = self.files.get(number);
            segment.is_some_and(|segment| segment.len < FILE_BYTES)
        };
        if let Some(number) = self.open.filter(roomy) {
            return Ok(number);
        }
        let file = self.nameless().map_err(|cause| self.failed(cause))?;
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let (len, live) = (0, 0);
        self.files.insert(number, Segment { file, len, live });
        self.open = Some(number);
        Ok(number)
    }

    fn nameless(&self) -> io::Result<File> {
        fs::create_dir_all(&self.folder)?;
        let name = format!("frames-{}-{}", std::process::id(), self.next);
        let path = self.folder.join(name);
        // One that a process of this number left when it died between the next two lines.
        let _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    }

    fn failed(&self, cause: io::Error) -> SpillError {
        let folder = self.folder.display().to_string();
        SpillError::Disk { folder, cause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(byte: u8, len: usize) -> Bytes {
        vec![byte; len].into()
    }

    #[test]
    fn rule_10_what_is_put_on_disk_comes_back_and_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kept");
        let mut spill = Spill::new(path.clone(), 1 << 30);
        let slots: Vec<Slot> = (0..100)
            .map(|byte| spill.put(&payload(byte, 1_000)).expect("room"))
            .collect();
        assert_eq!(fs::read_dir(&path).expect("made").count(), 0, "no names");
        assert_eq!(spill.bytes(), 100_000);
        for (byte, slot) in (0..).zip(&slots) {
            assert_eq!(spill.get(slot).expect("kept"), payload(byte, 1_000));
        }
        slots.into_iter().for_each(|slot| spill.free(slot));
        assert_eq!((spill.bytes(), spill.used, spill.files.len()), (0, 0, 0));
    }

    #[test]
    fn rule_10_the_disk_is_bounded_and_a_freed_file_makes_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spill = Spill::new(folder.path().to_owned(), FILE_BYTES + 1_000);
        let large = payload(1, FILE_BYTES as usize);
        let first = spill.put(&large).expect("room");
        let second = spill.put(&payload(2, 1_000)).expect("room");
        assert!(matches!(
            spill.put(&payload(3, 1)),
            Err(SpillError::Full { .. })
        ));
        spill.free(first);
        let third = spill.put(&payload(3, 1)).expect("room");
        assert_eq!(spill.get(&second).expect("kept"), payload(2, 1_000));
        assert_eq!(spill.get(&third).expect("kept"), payload(3, 1));
    }

    #[test]
    fn what_was_damaged_on_disk_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spill = Spill::new(folder.path().to_owned(), 1 << 20);
        let slot = spill.put(&payload(1, 100)).expect("room");
        let segment = spill.files.get(&slot.file).expect("open");
        segment
            .file
            .write_all_at(b"x", slot.offset + 50)
            .expect("written");
        assert!(matches!(spill.get(&slot), Err(SpillError::Damaged { .. })));
    }

    #[test]
    fn a_folder_that_cannot_be_is_named() {
        let mut spill = Spill::new(PathBuf::from("/dev/null/kept"), 1 << 20);
        let error = spill.put(&payload(1, 1)).expect_err("no folder there");
        assert!(error.to_string().contains("/dev/null/kept"), "{error}");
    }
}
