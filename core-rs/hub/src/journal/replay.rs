//! From the files to what they say: which jobs there are, and how they stand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use prost::Message;

use super::bodies::{Delivered, Ended, Forgotten, JobSpec, Opened, WorkerKnown};
use super::error::JournalError;
use super::extent::Extent;
use super::record::{Kind, Record};
use super::walk::walk;

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
    /// Who wrote which part of it.
    pub(crate) extent: Extent,
}

impl Image {
    /// Reads the folder. A torn last record is cut off.
    pub(crate) fn read(folder: &Path) -> Result<Self, JournalError> {
        let mut image = Self::default();
        let walked = walk(folder, |path, record| {
            image.apply(record).map_err(|error| {
                let what = format!("record {} does not parse: {error}", record.index);
                JournalError::corrupt(path, 0, what)
            })
        })?;
        image.last = walked.extent.last;
        image.extent = walked.extent;
        image.bytes = walked.bytes;
        Ok(image)
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
