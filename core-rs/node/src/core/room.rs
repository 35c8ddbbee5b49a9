//! Room for what is sent and not yet needed: in memory, then on disk, up to the job's quota on this worker (rules 10, 11).

use std::path::PathBuf;
use std::sync::Arc;

use omniflow_flow::{EdgeId, Item, Key, NodeId};
use omniflow_wire::v1;

use crate::core::job::{Context, Job};
use crate::core::retention::Kept;
use crate::core::site::Subject;
use crate::core::stored::{self, ITEM_BYTES, Stored};
use crate::spill::{Spill, SpillError};

/// A payload of less takes nearly as much to remember where it is.
const WORTH_THE_DISK: usize = 256;

/// What a worker may keep for consumers.
#[derive(Debug)]
pub(crate) struct Keeping {
    /// Bytes in memory, over all jobs.
    pub(crate) memory: usize,
    /// Bytes of one job, in memory and on disk.
    pub(crate) of_job: usize,
    pub(crate) spill: Spill,
}

/// In memory alone.
impl From<usize> for Keeping {
    fn from(memory: usize) -> Self {
        Self {
            memory,
            of_job: usize::MAX,
            spill: Spill::new(PathBuf::new(), 0),
        }
    }
}

/// Why nothing more can be kept.
#[derive(Debug)]
pub(crate) enum Stall {
    /// The job has as much as a job may.
    Quota { used: usize, limit: usize },
    /// So has the worker, and this does not go to disk.
    Memory { used: usize, limit: usize },
    /// Nor has the disk any room.
    Disk {
        used: usize,
        limit: usize,
        error: SpillError,
    },
}

impl Stall {
    fn message(&self, edge: &str) -> String {
        let kept = |used: &usize, limit: &usize, who: &str| {
            format!(
                "edge {edge}: {used} of {limit} bytes that {who} may keep for consumers are in use"
            )
        };
        match self {
            Self::Quota { used, limit } => kept(used, limit, "one job on this worker"),
            Self::Memory { used, limit } => kept(used, limit, "this worker"),
            Self::Disk { used, limit, error } => {
                format!("{}, and on disk: {error}", kept(used, limit, "this worker"))
            }
        }
    }

    fn cure(&self) -> &'static str {
        match self {
            Self::Quota { .. } => {
                "raise the worker's retention_job_bytes, or let the consumer begin before its producer is far ahead"
            }
            Self::Memory { .. } => {
                "raise the worker's retention_bytes, send smaller frames, or run fewer jobs at once"
            }
            Self::Disk { .. } => {
                "raise the worker's retention_disk_bytes or retention_bytes, or name a retention_folder with more room"
            }
        }
    }
}

impl Job {
    /// Keeps an item, giving up what is kept only in case that an attempt is repeated when there is no other room.
    pub(super) fn keep(
        &mut self,
        edge: EdgeId,
        key: &Key,
        kept: &Kept,
        cx: &mut Context<'_>,
    ) -> Result<(), Stall> {
        let cost = stored::cost(&kept.item);
        while self.sent.bytes() + cost > cx.site.keeping.of_job {
            if !self.give_up(edge, key, cx) {
                return Err(Stall::Quota {
                    used: self.sent.bytes(),
                    limit: cx.site.keeping.of_job,
                });
            }
        }
        // A mark is little, and there is one of a stream: what is on disk must not stand there without its end.
        let is_mark = !matches!(kept.item, Item::Frame { .. });
        while !is_mark && cx.site.retained_bytes + cost > cx.site.keeping.memory {
            if let Some(freed) = self.sent.give_up() {
                cx.site.take_back(freed);
            } else if let Some(away) = self.put_away(edge, key, kept, cx)? {
                cx.site.retained_bytes += ITEM_BYTES;
                self.sent.keep(edge, key, away);
                return Ok(());
            }
        }
        cx.site.retained_bytes += cost;
        self.sent.keep(edge, key, Stored::Here(kept.clone()));
        Ok(())
    }

    /// On disk. None: something was given up instead, and there may be room in memory now.
    fn put_away(
        &mut self,
        edge: EdgeId,
        key: &Key,
        kept: &Kept,
        cx: &mut Context<'_>,
    ) -> Result<Option<Stored>, Stall> {
        let (used, limit) = (cx.site.retained_bytes, cx.site.keeping.memory);
        let mut stall = Stall::Memory { used, limit };
        if let Item::Frame { seq, payload } = &kept.item
            && payload.len() >= WORTH_THE_DISK
            && cx.site.keeping.spill.limit() > 0
            && self.flow.wires.is_paced(edge)
        {
            match cx.site.keeping.spill.put(payload) {
                Ok(slot) => {
                    let (epoch, seq) = (kept.epoch, *seq);
                    return Ok(Some(Stored::Away { epoch, seq, slot }));
                }
                Err(error) => stall = Stall::Disk { used, limit, error },
            }
        }
        match self.give_up(edge, key, cx) {
            true => Ok(None),
            false => Err(stall),
        }
    }

    /// Gives up something that has been read: then whoever read it cannot run again. Of the stream first that is short of
    /// room.
    fn give_up(&mut self, edge: EdgeId, key: &Key, cx: &mut Context<'_>) -> bool {
        let freed = self.sent.give_up();
        let freed = freed.or_else(|| {
            let read = self.credits.read(edge, key);
            self.sent.give_up_read(edge, key, read)
        });
        let freed = freed.or_else(|| {
            let lanes = self.sent.edges().map(|(edge, key)| (edge, key.clone()));
            lanes
                .collect::<Vec<_>>()
                .into_iter()
                .find_map(|(edge, key)| {
                    let read = self.credits.read(edge, &key);
                    self.sent.give_up_read(edge, &key, read)
                })
        });
        let found = freed.is_some();
        freed.into_iter().for_each(|freed| cx.site.take_back(freed));
        found
    }

    /// Rule 10: nothing more can be kept, so the job fails, naming the edge.
    pub(super) fn stall(
        &mut self,
        edge: EdgeId,
        key: &Key,
        epoch: u32,
        stall: &Stall,
        cx: &mut Context<'_>,
    ) {
        let error = v1::Error {
            code: v1::ErrorCode::FlowStalled.into(),
            message: stall.message(&self.flow.edge_name(edge)),
            cure: stall.cure().to_owned(),
            ..Default::default()
        };
        self.fail_at(edge, key, epoch, error, cx);
    }

    /// What was put on disk is not there any more.
    pub(super) fn unreadable(
        &mut self,
        edge: EdgeId,
        key: &Key,
        error: &SpillError,
        cx: &mut Context<'_>,
    ) {
        let error = v1::Error {
            code: v1::ErrorCode::Internal.into(),
            message: format!("edge {}: {error}", self.flow.edge_name(edge)),
            cure: "check the disk of the worker's retention_folder".to_owned(),
            ..Default::default()
        };
        self.give_out(edge, key, error, cx);
    }

    /// The job cannot go on here, for something of this edge is lost.
    pub(super) fn give_out(
        &mut self,
        edge: EdgeId,
        key: &Key,
        error: v1::Error,
        cx: &mut Context<'_>,
    ) {
        let producer = self.flow.wires.producer(edge);
        let epoch = producer.map_or(0, |producer| self.epoch_of(producer, key));
        self.fail_at(edge, key, epoch, error, cx);
    }

    fn fail_at(
        &mut self,
        edge: EdgeId,
        key: &Key,
        epoch: u32,
        error: v1::Error,
        cx: &mut Context<'_>,
    ) {
        self.failed = true;
        let subject = Subject {
            job: self.info.id,
            node: self.flow.wires.producer(edge).unwrap_or(NodeId(0)),
            key,
            epoch,
        };
        let flow = Arc::clone(&self.flow);
        cx.site.failed(&subject, Some(&flow), error, cx.now, cx.out);
        self.stop_all(cx.site);
    }
}
