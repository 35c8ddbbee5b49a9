//! One record: length, checksum, (term, index), kind, body; numbers are little-endian.

/// Length of the body (4), checksum (8), term (8), index (8), kind (1).
pub(crate) const HEADER: usize = 29;
const LENGTH: usize = 4;
const SUMMED: usize = 12;

/// What a record is about; the numbers are in files, and stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A life of the scheduler begins.
    Opened = 1,
    /// A flow, before the first job that needs it in this life.
    Flow = 2,
    /// A job is accepted.
    Job = 3,
    /// A client may have been given so many frames of a result.
    Delivered = 4,
    /// A job has ended.
    Ended = 5,
    /// An ended job's record is needed no longer.
    Forgotten = 6,
    /// A worker's link is up, or it is dead.
    Worker = 7,
}

impl Kind {
    fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Opened,
            2 => Self::Flow,
            3 => Self::Job,
            4 => Self::Delivered,
            5 => Self::Ended,
            6 => Self::Forgotten,
            7 => Self::Worker,
            _ => return None,
        })
    }
}

/// A record as it lies in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) term: u64,
    pub(crate) index: u64,
    pub(crate) kind: Kind,
    pub(crate) body: &'a [u8],
}

impl Record<'_> {
    /// Bytes in a file.
    pub(crate) fn len(&self) -> usize {
        HEADER + self.body.len()
    }
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// They end before it does.
    Short,
    /// The checksum is that of other bytes.
    Checksum,
    /// A later version wrote it.
    Kind(u8),
}

impl Broken {
    pub(crate) fn words(self) -> String {
        match self {
            Self::Short => "a record is longer than the rest of the file".to_owned(),
            Self::Checksum => "a record's checksum does not match its content".to_owned(),
            Self::Kind(kind) => {
                format!("a record is of kind {kind}, which only a later version knows")
            }
        }
    }
}

/// Appends a record whose body `write` appends.
pub(crate) fn append(
    out: &mut Vec<u8>,
    term: u64,
    index: u64,
    kind: Kind,
    write: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.resize(start + SUMMED, 0);
    out.extend_from_slice(&term.to_le_bytes());
    out.extend_from_slice(&index.to_le_bytes());
    out.push(kind as u8);
    write(out);
    let length = (out.len() - start - HEADER) as u32;
    out[start..start + LENGTH].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(&out[start..]);
    out[start + LENGTH..start + SUMMED].copy_from_slice(&sum);
}

/// The record at the start of the bytes.
pub(crate) fn parse(bytes: &[u8]) -> Result<Record<'_>, Broken> {
    let header = bytes.first_chunk::<HEADER>().ok_or(Broken::Short)?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
    let whole = bytes.get(..HEADER + length).ok_or(Broken::Short)?;
    if checksum(whole) != header[LENGTH..SUMMED] {
        return Err(Broken::Checksum);
    }
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&header[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    Ok(Record {
        term: number(SUMMED),
        index: number(SUMMED + 8),
        kind: Kind::from_number(header[HEADER - 1]).ok_or(Broken::Kind(header[HEADER - 1]))?,
        body: &whole[HEADER..],
    })
}

/// Bytes of the record at the start of these, as far as it can be seen.
pub(crate) fn peek_length(bytes: &[u8]) -> Option<usize> {
    let length = bytes.first_chunk::<LENGTH>()?;
    Some(HEADER + u32::from_le_bytes(*length) as usize)
}

/// The index that a record at the start of the bytes would have; for finding records after a broken one.
pub(crate) fn peek_index(bytes: &[u8]) -> Option<u64> {
    let bytes = bytes.get(SUMMED + 8..SUMMED + 16)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Of everything but the checksum itself.
fn checksum(record: &[u8]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&record[..LENGTH]);
    hasher.update(&record[SUMMED..]);
    let mut sum = [0; 8];
    sum.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    sum
}
