//! The same journal without what is needed no longer: one snapshot in the place of an older one and the segments after it.
//! It reads files that nobody writes any more, so that appending goes on meanwhile; the rename is the moment at which the
//! snapshot counts, and a process that dies at any point leaves a folder that says the same.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use bytes::Bytes;
use omniflow_wire::v1;
use prost::Message;
use rustc_hash::{FxHashMap, FxHashSet};

use super::bodies::{Delivered, Ended, Forgotten, JobSpec, WorkerKnown};
use super::error::JournalError;
use super::folder::{self, MAGIC};
use super::record::{self, Kind, Record};
use super::segment::{self, Tail};

/// Writes the snapshot of all records before `end`, which must be in files that are done. Returns its length in bytes.
pub(crate) fn compact(folder: &Path, end: u64) -> Result<u64, JournalError> {
    let files = folder::list(folder)?;
    let done: Vec<_> = files
        .segments
        .into_iter()
        .filter(|(first, _)| *first < end)
        .collect();
    let sources = files.snapshot.iter().chain(&done).map(|(_, path)| path);
    let mut needed = Needed::default();
    for path in sources.clone() {
        segment::scan(path, &segment::read(path)?, Tail::Whole, |found| {
            needed
                .note(found)
                .map_err(|error| unreadable(path, found, &error))
        })?;
    }
    let partial = folder.join("snapshot.partial");
    let file = File::create(&partial).map_err(JournalError::io("making", &partial))?;
    let mut out = BufWriter::new(file);
    let mut length = MAGIC.len() as u64;
    let mut put = |bytes: &[u8]| {
        out.write_all(bytes)
            .map_err(JournalError::io("writing", &partial))
    };
    put(MAGIC)?;
    let mut buffer = Vec::new();
    for path in sources {
        segment::scan(path, &segment::read(path)?, Tail::Whole, |found| {
            buffer.clear();
            needed
                .copy(found, &mut buffer)
                .map_err(|error| unreadable(path, found, &error))?;
            length += buffer.len() as u64;
            put(&buffer)
        })?;
    }
    let file = out
        .into_inner()
        .map_err(|error| JournalError::io("writing", &partial)(error.into_error()))?;
    // The files that it replaces go next: a machine that dies then must find it whole.
    file.sync_all()
        .map_err(JournalError::io("syncing", &partial))?;
    let snapshot = folder::snapshot_path(folder, end - 1);
    fs::rename(&partial, &snapshot).map_err(JournalError::io("renaming", &partial))?;
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(JournalError::io("syncing", folder))?;
    // Listing removes what the snapshot covers.
    folder::list(folder)?;
    Ok(length)
}

fn unreadable(path: &Path, record: Record<'_>, error: &prost::DecodeError) -> JournalError {
    let what = format!("record {} does not parse: {error}", record.index);
    JournalError::corrupt(path, 0, what)
}

/// What the first reading finds out for the second.
#[derive(Default)]
struct Needed {
    opened: u64,
    forgotten: FxHashSet<u64>,
    ended: FxHashSet<u64>,
    /// The last index that says how far a result is, by job and result.
    delivered: FxHashMap<(u64, u32), u64>,
    /// The last index that says how a worker is.
    workers: FxHashMap<String, u64>,
    /// By job: name and version.
    flows: FxHashMap<u64, (String, Bytes)>,
    kept_flows: Option<FxHashSet<(String, Bytes)>>,
}

impl Needed {
    fn note(&mut self, record: Record<'_>) -> Result<(), prost::DecodeError> {
        match record.kind {
            Kind::Opened => self.opened = record.index,
            Kind::Flow => {}
            Kind::Job => {
                let spec = JobSpec::decode(record.body)?;
                self.flows.insert(spec.job, (spec.flow, spec.flow_version));
            }
            Kind::Delivered => {
                let said = Delivered::decode(record.body)?;
                self.delivered.insert((said.job, said.port), record.index);
            }
            Kind::Ended => {
                self.ended.insert(Ended::decode(record.body)?.job);
            }
            Kind::Forgotten => {
                let job = Forgotten::decode(record.body)?.job;
                self.forgotten.insert(job);
                self.flows.remove(&job);
            }
            Kind::Worker => {
                let said = WorkerKnown::decode(record.body)?;
                self.workers.insert(said.name, record.index);
            }
        }
        Ok(())
    }

    /// Appends the record as far as it is needed.
    fn copy(&mut self, record: Record<'_>, out: &mut Vec<u8>) -> Result<(), prost::DecodeError> {
        let mut put = |body: &[u8]| {
            record::append(out, record.term, record.index, record.kind, |out| {
                out.extend_from_slice(body);
            });
        };
        match record.kind {
            Kind::Opened if record.index == self.opened => put(record.body),
            // Those of this life count as written for jobs to come.
            Kind::Flow if record.index > self.opened || self.keeps_flow(record.body)? => {
                put(record.body);
            }
            Kind::Job => {
                let mut spec = JobSpec::decode(record.body)?;
                if self.ended.contains(&spec.job) && !self.forgotten.contains(&spec.job) {
                    spec.inputs.clear();
                    spec.parameters.clear();
                    put(&spec.encode_to_vec());
                } else if !self.forgotten.contains(&spec.job) {
                    put(record.body);
                }
            }
            Kind::Delivered => {
                let said = Delivered::decode(record.body)?;
                let over = self.ended.contains(&said.job) || self.forgotten.contains(&said.job);
                if !over && self.delivered.get(&(said.job, said.port)) == Some(&record.index) {
                    put(record.body);
                }
            }
            Kind::Ended if !self.forgotten.contains(&Ended::decode(record.body)?.job) => {
                put(record.body);
            }
            Kind::Worker => {
                let said = WorkerKnown::decode(record.body)?;
                if said.up && self.workers.get(&said.name) == Some(&record.index) {
                    put(record.body);
                }
            }
            Kind::Opened | Kind::Flow | Kind::Ended | Kind::Forgotten => {}
        }
        Ok(())
    }

    fn keeps_flow(&mut self, body: &[u8]) -> Result<bool, prost::DecodeError> {
        let flow = v1::Flow::decode(body)?;
        let kept = self
            .kept_flows
            .get_or_insert_with(|| self.flows.values().cloned().collect());
        Ok(kept.contains(&(flow.name, flow.version)))
    }
}
