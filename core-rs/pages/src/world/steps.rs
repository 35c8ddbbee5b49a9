//! What may happen in the world, at random.

use proptest::prelude::*;

use super::process::Process;
use super::{Broken, World};
use crate::{OwnerId, PageError, Tier, TierError, Worth};

#[derive(Clone, Debug)]
pub(super) enum Step {
    Join,
    Grant(usize),
    GiveBack(usize),
    Crash(usize),
    LoseBook,
    Report(usize),
    Tick(u64),
    /// Something that one process does to the `which`-th of its things, with `amount` of it.
    Do(usize, What, usize, usize),
    /// The first leases a run to the second for a while.
    Lease(usize, usize, usize, u64),
    Renew(usize, usize, u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Allocate,
    AllocateForTenant,
    Extend,
    Truncate,
    Fork,
    Write,
    Pin,
    Unpin,
    DropRun,
    EndRead,
    Cache,
    Acquire,
    MakeRoom,
    FinishMove,
    AbortMove,
    Forget,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    use What::*;
    let which = || 0..1000_usize;
    let what = prop::sample::select(vec![
        Allocate,
        Allocate,
        AllocateForTenant,
        Extend,
        Truncate,
        Fork,
        Write,
        Write,
        Pin,
        Unpin,
        DropRun,
        DropRun,
        EndRead,
        Cache,
        Cache,
        Acquire,
        Acquire,
        MakeRoom,
        MakeRoom,
        FinishMove,
        FinishMove,
        AbortMove,
        Forget,
    ]);
    prop_oneof![
        2 => Just(Step::Join),
        4 => which().prop_map(Step::Grant),
        2 => which().prop_map(Step::GiveBack),
        1 => which().prop_map(Step::Crash),
        1 => Just(Step::LoseBook),
        3 => which().prop_map(Step::Report),
        2 => (1..20_u64).prop_map(Step::Tick),
        30 => (which(), what, which(), 0..12_usize).prop_map(|(who, what, which, amount)| Step::Do(who, what, which, amount)),
        5 => (which(), which(), which(), 1..40_u64).prop_map(|(owner, reader, run, length)| Step::Lease(owner, reader, run, length)),
        2 => (which(), which(), 1..40_u64).prop_map(|(reader, read, length)| Step::Renew(reader, read, length)),
    ]
}

impl World {
    pub(super) fn take(&mut self, step: Step) -> Result<(), Broken> {
        match step {
            Step::Join if self.processes.len() < 5 => {
                self.join();
            }
            Step::Join => {}
            Step::Grant(who) => self.at(who, Self::grant),
            Step::GiveBack(who) => self.at(who, Self::give_back),
            Step::Crash(who) => self.at(who, Self::crash),
            Step::LoseBook => self.lose_book(),
            Step::Report(which) => self.report(which),
            Step::Tick(by) => self.tick(by),
            Step::Renew(who, which, length) => {
                self.at(who, |world, reader| world.renew(reader, which, length));
            }
            Step::Lease(owner, reader, which, length) => {
                if let (Some(owner), Some(reader)) = (self.pick(owner), self.pick(reader))
                    && owner != reader
                {
                    self.lease(owner, reader, which, length);
                }
            }
            Step::Do(who, what, which, amount) => {
                if let Some(owner) = self.pick(who) {
                    self.act(owner, what, which, amount)?;
                }
            }
        }
        self.check()
    }

    fn at(&mut self, who: usize, act: impl FnOnce(&mut Self, OwnerId)) {
        if let Some(owner) = self.pick(who) {
            act(self, owner);
        }
    }

    fn act(
        &mut self,
        owner: OwnerId,
        what: What,
        which: usize,
        amount: usize,
    ) -> Result<(), Broken> {
        let in_use = self.in_use();
        let process = self.processes.get_mut(&owner).unwrap();
        let run = which.checked_rem(process.runs.len());
        let mut new = Vec::new();
        match (what, run) {
            (What::Allocate | What::AllocateForTenant, _) => {
                let tenant = if matches!(what, What::Allocate) {
                    ""
                } else {
                    ["a", "b"][which % 2]
                };
                process.allocator.set_quota("a", Some(7));
                if let Some(run) = unless_full(process.allocator.allocate_for(tenant, amount))? {
                    new = run.pages().to_vec();
                    process.runs.push(run);
                }
                process.allocator.set_quota("a", None);
            }
            (What::Extend, Some(at)) => {
                let before = process.runs[at].len();
                if unless_full(process.runs[at].extend(amount))?.is_some() {
                    new = process.runs[at].pages()[before..].to_vec();
                }
            }
            (What::Write, Some(at)) => {
                if let Some(copies) = unless_full(process.runs[at].write(amount..amount + 3))? {
                    new = copies.targets().to_vec();
                }
            }
            (What::EndRead, _) => {
                if let Some(at) = which.checked_rem(process.reads.len()) {
                    let read = process.reads.swap_remove(at);
                    self.end_read(&read);
                }
            }
            (_, run) => process.act(what, run, which, amount)?,
        }
        if let Some(page) = new.iter().find(|page| in_use.contains(page)) {
            return Err(format!("page {page} was handed out while in use"));
        }
        self.write(&new);
        Ok(())
    }
}

impl Process {
    fn act(
        &mut self,
        what: What,
        run: Option<usize>,
        which: usize,
        amount: usize,
    ) -> Result<(), Broken> {
        match (what, run) {
            (What::Truncate, Some(at)) => self.runs[at].truncate(amount),
            (What::Fork, Some(at)) => self.runs.push(self.runs[at].share(amount)),
            (What::Pin, Some(at)) => self.pins.push(self.runs[at].pin()),
            (What::DropRun, Some(at)) => drop(self.runs.swap_remove(at)),
            (What::Cache, Some(at)) => self.cache(at, which, amount),
            (What::Unpin, _) => drop(self.pins.pop()),
            (What::Acquire, _) => self.acquire(which, amount)?,
            (What::MakeRoom, _) => self.make_room(which, amount),
            (What::FinishMove, _) => self.end_move(which, true)?,
            (What::AbortMove, _) => self.end_move(which, false)?,
            (What::Forget, _) => {
                if let Some(at) = which.checked_rem(self.entries.len())
                    && self.tiers.remove(self.entries[at]).is_ok()
                {
                    self.entries.swap_remove(at);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The pages of a run become a chain of entries.
    fn cache(&mut self, at: usize, which: usize, amount: usize) {
        let mut parent = None;
        for (index, page) in self.runs[at].hold(0..amount).into_iter().enumerate() {
            let worth = Worth::new(100 - index as u64, 1, (which % 10) as f64 / 10.0).unwrap();
            let entry = self.tiers.insert(page, parent, worth).unwrap();
            parent = Some(entry);
            self.entries.push(entry);
        }
    }

    fn acquire(&mut self, which: usize, amount: usize) -> Result<(), Broken> {
        let from = which.checked_rem(self.entries.len()).unwrap_or(0);
        let wanted: Vec<_> = self
            .entries
            .iter()
            .skip(from)
            .take(amount)
            .copied()
            .collect();
        match self.tiers.acquire("", &wanted) {
            Ok(acquired) => {
                self.moves.extend(acquired.begun);
                self.runs.push(acquired.run);
                Ok(())
            }
            Err(TierError::Page(PageError::OutOfPages { .. })) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn make_room(&mut self, which: usize, amount: usize) {
        let tier = Tier::ALL[which % 3];
        let room = self.tiers.make_room(tier, amount).unwrap();
        self.moves.extend(room.begun);
        self.entries.retain(|entry| !room.dropped.contains(entry));
    }

    fn end_move(&mut self, which: usize, finish: bool) -> Result<(), Broken> {
        let Some(at) = which.checked_rem(self.moves.len()) else {
            return Ok(());
        };
        let id = self.moves.swap_remove(at).id;
        let ended = if finish {
            self.tiers.finish(id).map(drop)
        } else {
            self.tiers.abort(id)
        };
        ended.map_err(|error| error.to_string())?;
        match self.tiers.finish(id) {
            Err(TierError::UnknownMove(_)) => Ok(()),
            other => Err(format!("a late completion did something: {other:?}")),
        }
    }
}

/// No page, or no quota, is an answer; anything else is a bug.
fn unless_full<T>(result: Result<T, PageError>) -> Result<Option<T>, Broken> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(PageError::OutOfPages { .. } | PageError::QuotaExceeded { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
