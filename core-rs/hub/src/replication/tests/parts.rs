//! What a world is made of.

use std::collections::{BTreeSet, VecDeque};

use crate::journal::{Extent, Run};
use crate::replication::agreement::Agreement;

/// Something that happens. What cannot happen now does not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// A leader has a new entry.
    Submit(usize),
    /// Its journal's thread takes what there is: it is on its way to the standby.
    Take(usize),
    /// And is written.
    Persist(usize),
    ToFollower,
    ToLeader,
    Connect,
    Cut,
    Leave,
    Pass(u64),
    /// A question to etcd is answered.
    Mark(usize),
    /// It is done, and the answer is lost.
    MarkAnswerLost(usize),
    /// It gets stuck on its way, and its sender gives up.
    MarkDelayed(usize),
    DelayedArrives,
    Etcd(bool),
    /// The leader's key vanishes, while the leader may go on.
    LeaderExpires,
    Elect(usize),
    Crash(usize),
    Restart(usize),
}

/// Who wrote it, and a number that nothing else has.
pub(super) type Entry = (u64, u64);

#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) down: bool,
    /// On disk.
    pub(super) log: Vec<Entry>,
    pub(super) leads: Option<Leads>,
}

#[derive(Debug)]
pub(super) struct Leads {
    pub(super) term: u64,
    pub(super) agreement: Agreement,
    pub(super) made: Vec<Entry>,
    pub(super) taken: Vec<Entry>,
}

#[derive(Debug)]
pub(super) enum Message {
    Begin(usize),
    Records(Vec<Entry>),
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) number: u64,
    pub(super) leader: usize,
    pub(super) down: VecDeque<Message>,
    pub(super) acks: VecDeque<u64>,
}

#[derive(Debug)]
pub(super) struct Etcd {
    pub(super) up: bool,
    pub(super) set: BTreeSet<usize>,
    pub(super) revision: u64,
    pub(super) leader: Option<usize>,
    pub(super) term: u64,
}

/// A write that is under way, on condition that the set is at that revision.
#[derive(Debug)]
pub(super) struct Delayed {
    pub(super) set: BTreeSet<usize>,
    pub(super) revision: u64,
}

pub(super) fn name(node: usize) -> String {
    format!("journal-{node}")
}

pub(super) fn extent(log: &[Entry]) -> Extent {
    let mut extent = Extent {
        last: log.len() as u64,
        ..Extent::default()
    };
    for (first, (term, _)) in (1..).zip(log) {
        if extent.runs.last().is_none_or(|run| run.term != *term) {
            extent.runs.push(Run {
                term: *term,
                mark: 0,
                first,
            });
        }
    }
    extent
}
