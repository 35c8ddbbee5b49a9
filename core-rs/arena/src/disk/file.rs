//! The file of a disk arena: made whole or not at all, opened by one process, read and written in blocks.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags, fallocate, flock, fstat, fsync,
    ftruncate, linkat, open,
};
use rustix::io::{Errno, pread, pwrite};

use super::error::DiskError;
use crate::error::ArenaError;
use crate::header::{Geometry, HEADER_ROOM, Header, Medium};
use crate::layout::Layout;

/// Its owner reads and writes it, and nobody else: KV says what was talked about.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

const CREATE: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC);

/// An open file. It is this process's alone until it is dropped.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    /// Through the system's cache: header and records.
    cached: OwnedFd,
    /// Past it: pages. None: the file system has no such way.
    direct: Option<OwnedFd>,
}

impl File {
    /// Makes a file with this header, and room for all the rest.
    pub(super) fn create(path: &Path, header: &Header) -> Result<Self, DiskError> {
        match open(folder_of(path), CREATE.union(OFlags::TMPFILE), MODE) {
            Ok(file) => Self::complete(file, None, path, header),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Self::create_named(path, header),
            Err(error) => Err(failed("creating", path, error)),
        }
    }

    /// The same where the file system has no files without a name. Until it is complete it has another one, always the
    /// same, so that what a killed process leaves is used by the next one.
    fn create_named(path: &Path, header: &Header) -> Result<Self, DiskError> {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(".part");
        let part = path.with_file_name(name);
        let file = open(&part, CREATE.union(OFlags::CREATE), MODE)
            .map_err(|error| failed("creating", &part, error))?;
        Self::complete(file, Some(&part), path, header)
    }

    /// Fills an empty file, and then gives it its name.
    fn complete(
        file: OwnedFd,
        part: Option<&Path>,
        path: &Path,
        header: &Header,
    ) -> Result<Self, DiskError> {
        lock(&file, path)?;
        let made = fill(&file, path, header).and_then(|()| publish(&file, part, path));
        if let Some(part) = part {
            // It has its real name by now, or none; what is told is whether it was made.
            let _ = rustix::fs::unlink(part);
        }
        made?;
        open(
            folder_of(path),
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .and_then(fsync)
        .map_err(|error| failed("flushing the folder of", path, error))?;
        Self::over(file, path)
    }

    /// Opens a file and says what its header says.
    pub(super) fn open(
        path: &Path,
        geometry_of: impl Fn(&Layout) -> Geometry,
    ) -> Result<(Self, Header), DiskError> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = open(path, flags, MODE).map_err(|error| match error {
            Errno::NOENT => DiskError::Missing { path: path.into() },
            error => failed("opening", path, error),
        })?;
        lock(&file, path)?;
        let unusable = |error| DiskError::Unusable {
            path: path.into(),
            error,
        };
        let mut bytes = [0; Header::SIZE];
        let read =
            pread(&file, &mut bytes[..], 0).map_err(|error| failed("reading", path, error))?;
        let header = Header::decode(Medium::Disk, &bytes[..read], geometry_of).map_err(unusable)?;
        let size = fstat(&file)
            .map_err(|error| failed("reading", path, error))?
            .st_size;
        if u64::try_from(size) != Ok(header.geometry.file_bytes) {
            let why = format!(
                "it has {size} bytes of {}: it was cut off, or copied in part",
                header.geometry.file_bytes
            );
            return Err(unusable(ArenaError::damaged(why)));
        }
        Ok((Self::over(file, path)?, header))
    }

    fn over(cached: OwnedFd, path: &Path) -> Result<Self, DiskError> {
        // Through /proc, it is the same file whatever its path means by now.
        let own = format!("/proc/self/fd/{}", cached.as_raw_fd());
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::DIRECT;
        let direct = match open(own, flags, Mode::empty()) {
            Ok(file) => Some(file),
            Err(Errno::INVAL | Errno::NOENT | Errno::OPNOTSUPP) => None,
            Err(error) => return Err(failed("opening", path, error)),
        };
        Ok(Self {
            path: path.into(),
            cached,
            direct,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Through the system's cache.
    pub(super) fn read(&self, bytes: &mut [u8], at: u64) -> Result<(), DiskError> {
        read_all(&self.cached, bytes, at).map_err(|error| failed("reading", &self.path, error))
    }

    /// Through the system's cache.
    pub(super) fn write(&self, bytes: &[u8], at: u64) -> Result<(), DiskError> {
        write_all(&self.cached, bytes, at).map_err(|error| failed("writing", &self.path, error))
    }

    /// Reads whole blocks into an aligned buffer.
    pub(super) fn read_blocks(&self, bytes: &mut [u8], at: u64) -> Result<(), DiskError> {
        let read = match &self.direct {
            Some(direct) => read_all(direct, bytes, at),
            None => Err(Errno::INVAL),
        };
        match read {
            // No such way, or not for these blocks.
            Err(Errno::INVAL) => self.read(bytes, at),
            read => read.map_err(|error| failed("reading", &self.path, error)),
        }
    }

    /// Writes whole blocks from an aligned buffer.
    pub(super) fn write_blocks(&self, bytes: &[u8], at: u64) -> Result<(), DiskError> {
        let written = match &self.direct {
            Some(direct) => write_all(direct, bytes, at),
            None => Err(Errno::INVAL),
        };
        match written {
            Err(Errno::INVAL) => self.write(bytes, at),
            written => written.map_err(|error| failed("writing", &self.path, error)),
        }
    }

    /// What was written is on the disk when this returns.
    pub(super) fn sync(&self) -> Result<(), DiskError> {
        fsync(&self.cached).map_err(|error| failed("flushing", &self.path, error))
    }
}

fn fill(file: &OwnedFd, path: &Path, header: &Header) -> Result<(), DiskError> {
    let size = header.geometry.file_bytes;
    let failed = |error| failed("creating", path, error);
    // Zeros are records of slots that nothing was written to.
    ftruncate(file, 0).map_err(failed)?;
    match fallocate(file, FallocateFlags::empty(), 0, size) {
        Ok(()) => {}
        // Then a full disk is noticed when a page is written.
        Err(Errno::OPNOTSUPP) => ftruncate(file, size).map_err(failed)?,
        Err(error) => return Err(failed(error)),
    }
    let mut first = vec![0; HEADER_ROOM as usize];
    first[..Header::SIZE].copy_from_slice(&header.encode(Medium::Disk));
    write_all(file, &first, 0).map_err(failed)?;
    fsync(file).map_err(failed)
}

/// Gives a complete file its name; never to the harm of one that has it.
fn publish(file: &OwnedFd, part: Option<&Path>, path: &Path) -> Result<(), DiskError> {
    let named = match part {
        Some(part) => linkat(CWD, part, CWD, path, AtFlags::empty()),
        None => {
            let own = format!("/proc/self/fd/{}", file.as_raw_fd());
            linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)
        }
    };
    named.map_err(|error| match error {
        Errno::EXIST => DiskError::Exists { path: path.into() },
        error => failed("naming", path, error),
    })
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn lock(file: &OwnedFd, path: &Path) -> Result<(), DiskError> {
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        Errno::WOULDBLOCK => DiskError::InUse { path: path.into() },
        error => failed("locking", path, error),
    })
}

fn read_all(file: &OwnedFd, mut bytes: &mut [u8], mut at: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match pread(file, &mut *bytes, at) {
            // The file was cut off while it was open.
            Ok(0) => return Err(Errno::IO),
            Ok(read) => {
                bytes = &mut bytes[read..];
                at += read as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn write_all(file: &OwnedFd, mut bytes: &[u8], mut at: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match pwrite(file, bytes, at) {
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(super) fn failed(what: &'static str, path: &Path, error: Errno) -> DiskError {
    let path = path.into();
    match error {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => DiskError::Full { path },
        error => DiskError::System { what, path, error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::ArenaId;
    use crate::layout::{Content, DeviceName, Fingerprint};

    fn geometry(_: &Layout) -> Geometry {
        Geometry {
            data_at: 4096,
            file_bytes: 8192,
        }
    }

    fn header() -> Header {
        let device = DeviceName::host();
        let layout = Layout::new(Content::Pages, 64, 1, Fingerprint([1; 32]), device).unwrap();
        Header {
            geometry: geometry(&layout),
            layout,
            id: ArenaId::new().unwrap(),
        }
    }

    #[test]
    fn where_every_file_has_a_name_an_incomplete_one_has_another_and_is_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages");
        std::fs::write(folder.path().join(".pages.part"), [7; 100_000]).unwrap();
        let header = header();
        drop(File::create_named(&path, &header).unwrap());
        let (file, found) = File::open(&path, geometry).unwrap();
        assert_eq!(found, header);
        let mut rest = [1; 4096];
        file.read(&mut rest, 4096).unwrap();
        assert_eq!(rest, [0; 4096]);
        let again = File::create_named(&path, &header).unwrap_err();
        assert!(matches!(again, DiskError::Exists { .. }), "{again}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
