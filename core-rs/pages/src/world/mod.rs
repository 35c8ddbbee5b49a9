//! Several processes on one pool, with crashes, to show that no page is lost, handed out twice, or changed under a reader.
//!
//! A process is its own allocator and tiers over the shared generations; the book of extents hears of deaths. Dying takes
//! everything along without giving anything back, as `kill -9` does.

mod leaks;
mod process;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use process::{Process, Read};

use crate::{
    Claim, ExtentId, ExtentLayout, Extents, Moment, OwnerId, PageId, PrivateGenerations, Returned,
};

const LAYOUT: ExtentLayout = ExtentLayout {
    pages: 70,
    reserved: 2,
    extent_pages: 8,
};

/// What an end that should have left nothing behind found, or a rule that was broken on the way.
type Broken = String;

#[derive(Debug)]
struct World {
    book: Extents,
    generations: Arc<PrivateGenerations>,
    processes: BTreeMap<OwnerId, Process>,
    /// Who was asked to report what it reads of whom, and has not yet.
    asked: BTreeSet<(OwnerId, OwnerId)>,
    /// What lies in each page: a number that is written once.
    contents: Vec<u64>,
    written: u64,
    now: Moment,
    born: u64,
}

impl World {
    fn new() -> Self {
        Self {
            book: Extents::new(LAYOUT).unwrap(),
            generations: Arc::new(PrivateGenerations::new(LAYOUT.pages)),
            processes: BTreeMap::new(),
            asked: BTreeSet::new(),
            contents: vec![0; LAYOUT.pages as usize],
            written: 0,
            now: Moment(0),
            born: 0,
        }
    }

    fn join(&mut self) -> OwnerId {
        self.born += 1;
        let owner = OwnerId(self.born);
        self.book.join(owner).unwrap();
        self.processes.insert(
            owner,
            Process::new(self.generations.clone(), LAYOUT.reserved),
        );
        owner
    }

    /// The `which`-th living process, counted around.
    fn pick(&self, which: usize) -> Option<OwnerId> {
        let count = self.processes.len();
        self.processes
            .keys()
            .nth(which.checked_rem(count)?)
            .copied()
    }

    fn grant(&mut self, owner: OwnerId) {
        if let Ok(grant) = self.book.grant(owner) {
            self.must_be_unused(grant.adoptable()).unwrap();
            let process = self.processes.get_mut(&owner).unwrap();
            process.allocator.adopt(grant.adoptable()).unwrap();
            process.extents.insert(grant.extent);
            process.withheld.extend(grant.withheld);
        }
    }

    fn give_back(&mut self, owner: OwnerId) {
        let process = self.processes.get_mut(&owner).unwrap();
        let retired = |extent: &&ExtentId| {
            let pages = LAYOUT.pages_of(**extent);
            process.allocator.retire(pages).is_ok()
        };
        if let Some(extent) = process.extents.iter().find(retired).copied() {
            process.extents.remove(&extent);
            let pages = LAYOUT.pages_of(extent);
            process.withheld.retain(|page| !pages.contains(&page.0));
            self.book.give_back(owner, extent).unwrap();
        }
    }

    /// Something new is written to pages that are the writer's alone.
    fn write(&mut self, pages: &[PageId]) {
        for page in pages {
            self.written += 1;
            self.contents[page.index()] = self.written;
        }
    }

    /// Pages that anyone living uses, or reads under a lease that has not ended.
    fn in_use(&self) -> BTreeSet<PageId> {
        let living = self.processes.values();
        living.flat_map(|process| process.uses(self.now)).collect()
    }

    fn must_be_unused(&self, pages: impl Iterator<Item = PageId>) -> Result<(), Broken> {
        let in_use = self.in_use();
        let mut seen = BTreeSet::new();
        for page in pages {
            if in_use.contains(&page) || !seen.insert(page) {
                return Err(format!("page {page} was handed out while in use"));
            }
        }
        Ok(())
    }

    fn lease(&mut self, owner: OwnerId, reader: OwnerId, which: usize, length: u64) {
        let process = &self.processes[&owner];
        let Some(run) = process
            .runs
            .get(which.checked_rem(process.runs.len()).unwrap_or(0))
        else {
            return;
        };
        let until = Moment(self.now.0 + length);
        let stamped = run.stamped();
        let lease = process.allocator.lease(&stamped, reader, until).unwrap();
        let read = Read {
            owner,
            lease,
            at_book: false,
            until,
            noted: stamped
                .into_iter()
                .map(|stamped| (stamped, self.contents[stamped.page.index()]))
                .collect(),
        };
        self.processes.get_mut(&reader).unwrap().reads.push(read);
    }

    /// A reader has done: it tells the owner, or the book if the owner is dead and it has reported.
    fn end_read(&mut self, read: &Read) {
        if read.at_book {
            let returned = self.book.end(read.lease).unwrap_or_default();
            self.adopt(returned);
        } else if let Some(owner) = self.processes.get(&read.owner) {
            let _ = owner.allocator.end_lease(read.lease);
        }
    }

    fn renew(&mut self, reader: OwnerId, which: usize, length: u64) {
        let until = Moment(self.now.0 + length);
        let now = self.now;
        let reads = &mut self.processes.get_mut(&reader).unwrap().reads;
        let Some(at) = which.checked_rem(reads.len()) else {
            return;
        };
        let (owner, lease, at_book) = (reads[at].owner, reads[at].lease, reads[at].at_book);
        let renewed = if at_book {
            self.book.renew(lease, now, until).is_ok()
        } else {
            let owner = self.processes.get(&owner);
            owner.is_some_and(|owner| owner.allocator.renew(lease, now, until).is_ok())
        };
        if renewed {
            self.processes.get_mut(&reader).unwrap().reads[at].until = until;
        }
    }

    fn tick(&mut self, by: u64) {
        self.now.0 += by;
        for process in self.processes.values() {
            process.allocator.expire(self.now);
        }
        let returned = self.book.expire(self.now);
        self.adopt(returned);
    }

    fn adopt(&mut self, returned: Vec<Returned>) {
        for Returned { owner, page } in returned {
            self.must_be_unused([page].into_iter()).unwrap();
            let process = self.processes.get_mut(&owner).unwrap();
            assert!(
                process.withheld.remove(&page),
                "page {page} was not withheld"
            );
            process.allocator.adopt([page]).unwrap();
        }
    }

    /// `kill -9`, and everybody hears of it.
    fn crash(&mut self, owner: OwnerId) {
        std::mem::forget(self.processes.remove(&owner));
        for process in self.processes.values() {
            process.allocator.drop_holder(owner);
        }
        self.asked.retain(|&(reader, _)| reader != owner);
        let death = self.book.died(owner).unwrap();
        self.asked
            .extend(death.ask.into_iter().map(|reader| (reader, owner)));
        self.adopt(death.returned);
    }

    /// The process that keeps the book dies; the next one hears of all who live what they have.
    fn lose_book(&mut self) {
        self.asked.clear();
        let processes = self.processes.iter();
        let claims: Vec<Claim> = processes
            .map(|(&owner, process)| process.claim(owner))
            .collect();
        let restored = Extents::restore(LAYOUT, &claims).unwrap();
        self.book = restored.book;
        for (process, leases) in self.processes.values_mut().zip(restored.leases) {
            for (read, lease) in process.reads.iter_mut().zip(leases) {
                if let Some(lease) = lease {
                    (read.lease, read.at_book) = (lease, true);
                }
            }
        }
        self.adopt(restored.returned);
        let returned = self.book.expire(self.now);
        self.adopt(returned);
    }

    /// The `which`-th of those asked says what it still reads.
    fn report(&mut self, which: usize) {
        let count = self.asked.len();
        let Some(asked) = which
            .checked_rem(count)
            .and_then(|at| self.asked.iter().nth(at).copied())
        else {
            return;
        };
        self.asked.remove(&asked);
        let (reader, dead) = asked;
        let process = self.processes.get_mut(&reader).unwrap();
        let lives = |read: &&mut Read| read.owner == dead && read.until > self.now;
        let mut reads: Vec<&mut Read> = process.reads.iter_mut().filter(lives).collect();
        let said = reads
            .iter()
            .map(|read| (read.pages(), read.until))
            .collect();
        let leases = self.book.report(reader, dead, said).unwrap();
        for (read, lease) in reads.iter_mut().zip(leases) {
            (read.lease, read.at_book) = (lease, true);
        }
    }

    /// What must hold after every step.
    fn check(&self) -> Result<(), Broken> {
        self.book.check().map_err(|corrupt| corrupt.to_string())?;
        let mut own = 0;
        for (owner, process) in &self.processes {
            process
                .check()
                .map_err(|what| format!("owner {owner}: {what}"))?;
            own += process.allocator.counters().own;
            for read in &process.reads {
                self.check_read(process, read)?;
            }
        }
        let counters = self.book.counters();
        let granted = counters.owned * LAYOUT.extent_pages as usize;
        if own > granted || own + counters.withheld < granted {
            return Err(format!("{own} pages are handed out of {granted} granted"));
        }
        Ok(())
    }

    /// A page whose generation is as noted holds what it held; while the lease lives, that is so.
    fn check_read(&self, reader: &Process, read: &Read) -> Result<(), Broken> {
        for &(stamped, content) in &read.noted {
            let verified = reader.allocator.verify(stamped.page, stamped.generation);
            if verified.is_ok() && self.contents[stamped.page.index()] != content {
                return Err(format!(
                    "page {} changed under its generation",
                    stamped.page
                ));
            }
            if read.until > self.now && verified.is_err() {
                return Err(format!("page {} was freed under its lease", stamped.page));
            }
        }
        Ok(())
    }

    /// All work ends, all reports come in, all extents go back: nothing may be left.
    fn end(mut self) -> Result<(), Broken> {
        let owners: Vec<OwnerId> = self.processes.keys().copied().collect();
        for &owner in &owners {
            let reads = std::mem::take(&mut self.processes.get_mut(&owner).unwrap().reads);
            reads.iter().for_each(|read| self.end_read(read));
        }
        while !self.asked.is_empty() {
            self.report(0);
        }
        for &owner in &owners {
            let process = self.processes.get_mut(&owner).unwrap();
            process
                .end()
                .map_err(|what| format!("owner {owner}: {what}"))?;
            (0..LAYOUT.extents()).for_each(|_| self.give_back(owner));
            if !self.processes[&owner].extents.is_empty() {
                return Err(format!("owner {owner} cannot give an extent back"));
            }
        }
        let counters = self.book.counters();
        if counters.free != LAYOUT.extents() || counters.withheld > 0 {
            return Err(format!("the book does not end empty: {counters:?}"));
        }
        self.book.check().map_err(|corrupt| corrupt.to_string())
    }
}
