//! From the files to what they say: which jobs there are, and how they stand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use prost::Message;

use super::bodies::{Delivered, Ended, Forgotten, JobSpec, Opened, WorkerKnown};
use super::error::JournalError;
use super::folder;
use super::record::{Kind, Record};
use super::segment::{self, Tail};

/// A job as the journal knows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobImage {
    pub(crate) spec: JobSpec,
    /// By result: frames that a client may have, and their digest.
    pub(crate) delivered: BTreeMap<u32, (u64, u64)>,
    pub(crate) ended: Option<Ended>,
}

/// Everything that the journal says, as of its last record.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Image {
    /// Lives of the scheduler so far.
    pub(crate) lives: u32,
    /// The number of the last record; 0 for none.
    pub(crate) last: u64,
    /// Serialized flows.
    pub(crate) flows: BTreeSet<Bytes>,
    /// Jobs that are not forgotten, by number.
    pub(crate) jobs: BTreeMap<u64, JobImage>,
    /// Workers whose links were up: name and incarnation.
    pub(crate) workers: BTreeMap<String, String>,
    /// Bytes in files.
    pub(crate) bytes: u64,
}

impl Image {
    /// Reads the folder. A torn last record is cut off.
    pub(crate) fn read(folder: &Path) -> Result<Self, JournalError> {
        let files = folder::list(folder)?;
        let mut image = Self::default();
        if let Some((last, path)) = &files.snapshot {
            let bytes = segment::read(path)?;
            segment::scan(path, &bytes, Tail::Whole, |record| image.take(path, record))?;
            image.bytes += bytes.len() as u64;
            image.last = *last;
        }
        let count = files.segments.len();
        for (place, (first, path)) in files.segments.iter().enumerate() {
            if *first != image.last + 1 {
                let (expected, file) = (image.last + 1, path.clone());
                return Err(JournalError::Gap { expected, file });
            }
            let tail = if place + 1 == count {
                Tail::MayBeTorn
            } else {
                Tail::Whole
            };
            let bytes = segment::read(path)?;
            let good = segment::scan(path, &bytes, tail, |record| {
                if record.index != image.last + 1 {
                    let (expected, file) = (image.last + 1, path.clone());
                    return Err(JournalError::Gap { expected, file });
                }
                image.take(path, record)
            })?;
            if good < bytes.len() || image.last < *first {
                segment::cut(path, if image.last < *first { 0 } else { good })?;
            }
            image.bytes += good as u64;
        }
        Ok(image)
    }

    fn take(&mut self, path: &Path, record: Record<'_>) -> Result<(), JournalError> {
        self.last = record.index;
        self.apply(record).map_err(|error| {
            let what = format!("record {} does not parse: {error}", record.index);
            JournalError::corrupt(path, 0, what)
        })
    }

    fn apply(&mut self, record: Record<'_>) -> Result<(), prost::DecodeError> {
        match record.kind {
            Kind::Opened => self.lives = Opened::decode(record.body)?.life,
            Kind::Flow => {
                self.flows.insert(Bytes::copy_from_slice(record.body));
            }
            Kind::Job => {
                let spec = JobSpec::decode(Bytes::copy_from_slice(record.body))?;
                let job = JobImage {
                    delivered: BTreeMap::new(),
                    ended: None,
                    spec,
                };
                self.jobs.insert(job.spec.job, job);
            }
            Kind::Delivered => {
                let said = Delivered::decode(record.body)?;
                if let Some(job) = self.jobs.get_mut(&said.job) {
                    job.delivered.insert(said.port, (said.frames, said.digest));
                }
            }
            Kind::Ended => {
                let ended = Ended::decode(Bytes::copy_from_slice(record.body))?;
                if let Some(job) = self.jobs.get_mut(&ended.job) {
                    // What it took is needed no longer.
                    job.spec.inputs.clear();
                    job.spec.parameters.clear();
                    job.delivered.clear();
                    job.ended = Some(ended);
                }
            }
            Kind::Forgotten => {
                self.jobs.remove(&Forgotten::decode(record.body)?.job);
            }
            Kind::Worker => {
                let said = WorkerKnown::decode(record.body)?;
                if said.up {
                    self.workers.insert(said.name, said.incarnation);
                } else if self.workers.get(&said.name) == Some(&said.incarnation) {
                    self.workers.remove(&said.name);
                }
            }
        }
        Ok(())
    }
}
