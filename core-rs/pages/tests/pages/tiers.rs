//! Pages in three tiers: what is brought when it is wanted, what leaves, and that content is never mixed up.

use std::collections::BTreeMap;

use omniflow_pages::{
    Acquired, EntryId, Move, PageAllocator, PageError, PageId, Run, Tier, TierError, TierPools,
    Tiers, Worth,
};
use proptest::prelude::*;

/// Tiers, and what lies in each of their pages.
struct Bench {
    pools: [PageAllocator; 3],
    tiers: Tiers,
    contents: BTreeMap<(Tier, PageId), u64>,
    /// What each entry must hold.
    entries: BTreeMap<EntryId, u64>,
    begun: Vec<Move>,
    written: u64,
}

impl Bench {
    fn new(device: u32, host: u32, disk: u32) -> Self {
        let pools = [device, host, disk].map(|pages| PageAllocator::new(pages, 0).unwrap());
        let tiers = Tiers::new(TierPools {
            device: pools[0].clone(),
            host: Some(pools[1].clone()),
            disk: Some(pools[2].clone()),
        });
        Self {
            pools,
            tiers,
            contents: BTreeMap::new(),
            entries: BTreeMap::new(),
            begun: Vec::new(),
            written: 0,
        }
    }

    /// A chain of new entries on the device, `None` when there is no room.
    fn compute(&mut self, pages: usize, worth: Worth) -> Option<Vec<EntryId>> {
        let run = self.pools[0].allocate(pages).ok()?;
        let mut parent = None;
        let chain = run.hold(0..pages).into_iter().map(|page| {
            self.written += 1;
            self.contents
                .insert((Tier::Device, page.id()), self.written);
            let entry = self.tiers.insert(page, parent, worth).unwrap();
            self.entries.insert(entry, self.written);
            parent = Some(entry);
            entry
        });
        Some(chain.collect())
    }

    fn one(&mut self, recompute_us: u64, chance: f64) -> EntryId {
        let worth = Worth::new(recompute_us, 4096, chance).unwrap();
        self.compute(1, worth).unwrap()[0]
    }

    fn make_room(&mut self, tier: Tier, pages: usize) -> Vec<EntryId> {
        let room = self.tiers.make_room(tier, pages).unwrap();
        for gone in &room.dropped {
            self.entries.remove(gone);
        }
        self.begun.extend(room.begun);
        room.dropped
    }

    fn acquire(&mut self, entries: &[EntryId]) -> Result<Acquired, TierError> {
        let acquired = self.tiers.acquire("", entries)?;
        self.begun.extend(acquired.begun.iter().copied());
        Ok(acquired)
    }

    fn perform(&mut self, what: Move) {
        let content = self.contents[&what.from];
        self.contents.insert(what.to, content);
        self.tiers.finish(what.id).unwrap();
    }

    fn perform_all(&mut self) {
        for what in std::mem::take(&mut self.begun) {
            self.perform(what);
        }
    }

    fn holds(&self, run: &Run, entries: &[EntryId]) -> bool {
        let found = run
            .pages()
            .iter()
            .map(|&page| self.contents[&(Tier::Device, page)]);
        found.eq(entries.iter().map(|entry| self.entries[entry]))
    }

    fn check(&self) {
        self.tiers.check().unwrap();
        self.pools.iter().for_each(|pool| pool.check().unwrap());
    }

    fn tiers_of(&self, entry: EntryId) -> [bool; 3] {
        self.tiers
            .residence(entry)
            .unwrap()
            .map(|page| page.is_some())
    }
}

#[test]
fn who_saves_least_time_for_its_bytes_leaves_first() {
    let mut bench = Bench::new(4, 8, 8);
    let dear = bench.one(900, 0.5);
    let unlikely = bench.one(900, 0.1);
    let cheap = bench.one(50, 1.0);
    bench.make_room(Tier::Device, 2);
    assert_eq!(
        bench
            .begun
            .iter()
            .map(|what| what.entry)
            .collect::<Vec<_>>(),
        [cheap]
    );
    bench.make_room(Tier::Device, 3);
    bench.perform_all();
    bench
        .tiers
        .set_worth(dear, Worth::new(900, 4096, 0.0).unwrap())
        .unwrap();
    bench.make_room(Tier::Device, 4);
    bench.perform_all();
    let on_host = [false, true, false];
    assert_eq!(
        [dear, unlikely, cheap].map(|entry| bench.tiers_of(entry)),
        [on_host; 3]
    );
    assert_eq!(bench.pools[0].free(), 4);
    bench.check();
}

#[test]
fn a_hit_brings_a_page_back_and_keeps_the_copy_below() {
    let mut bench = Bench::new(4, 8, 8);
    let entries = bench.compute(3, Worth::new(10, 1, 1.0).unwrap()).unwrap();
    bench.make_room(Tier::Device, 4);
    bench.perform_all();
    let acquired = bench.acquire(&entries).unwrap();
    assert_eq!(acquired.begun.len(), 3);
    assert_eq!(
        acquired.run.spans().len(),
        1,
        "pages that come back lie in a row"
    );
    let second = bench.acquire(&entries[1..]).unwrap();
    assert!(
        second.begun.is_empty(),
        "what is on its way is not brought twice"
    );
    assert_eq!(second.awaited.len(), 2);
    bench.perform_all();
    assert!(bench.holds(&acquired.run, &entries));
    assert!(bench.holds(&second.run, &entries[1..]));
    assert_eq!(bench.tiers_of(entries[0]), [true, true, false]);
    drop((acquired, second));
    bench.make_room(Tier::Device, 4);
    assert!(
        bench.begun.is_empty(),
        "a copy that lies below, too, leaves at once"
    );
    assert_eq!(bench.pools[0].free(), 4);
    bench.check();
}

#[test]
fn what_is_read_where_it_lies_stays_meanwhile_and_counts_as_used_its_beginning_last() {
    let mut bench = Bench::new(1, 1, 4);
    let worth = Worth::new(10, 4096, 0.5).unwrap();
    // Nobody knows that these come behind each other.
    let slots = bench.pools[2].allocate(4).unwrap();
    let pages = slots.hold(0..4).into_iter();
    let entries: Vec<EntryId> = pages
        .map(|page| bench.tiers.insert(page, None, worth).unwrap())
        .collect();
    drop(slots);
    let on_device = bench.one(10, 0.5);
    let held = bench
        .tiers
        .hold(Tier::Disk, &[entries[0], entries[1], on_device, entries[2]])
        .unwrap();
    assert_eq!(held.len(), 2, "up to one that lies elsewhere");
    assert_eq!(bench.make_room(Tier::Disk, 4), [entries[2], entries[3]]);
    bench.tiers.check().unwrap();
    drop(held);
    assert_eq!(bench.make_room(Tier::Disk, 4), [entries[1], entries[0]]);
    let gone = bench.tiers.hold(Tier::Disk, &entries).unwrap_err();
    assert_eq!(gone, TierError::UnknownEntry(entries[0]));
    assert_eq!(bench.pools[2].counters().references, 0);
}

#[test]
fn an_aborted_move_leaves_nothing_pinned_and_a_late_completion_changes_nothing() {
    let mut bench = Bench::new(2, 2, 2);
    let entry = bench.one(10, 1.0);
    bench.make_room(Tier::Device, 2);
    let what = bench.begun.pop().unwrap();
    assert_eq!(
        bench.pools.each_ref().map(|pool| pool.counters().pinned),
        [1, 1, 0]
    );
    bench.tiers.abort(what.id).unwrap();
    assert_eq!(
        bench.pools.each_ref().map(|pool| pool.counters().pinned),
        [0, 0, 0]
    );
    assert_eq!(bench.pools[1].free(), 2);
    assert_eq!(
        bench.tiers.finish(what.id),
        Err(TierError::UnknownMove(what.id))
    );
    assert_eq!(bench.tiers_of(entry), [true, false, false]);
    bench.check();
}

#[test]
fn a_page_that_is_used_while_it_moves_away_stays() {
    let mut bench = Bench::new(2, 2, 2);
    let entry = bench.one(10, 1.0);
    bench.make_room(Tier::Device, 2);
    drop(bench.acquire(&[entry]).unwrap());
    bench.perform_all();
    assert_eq!(bench.tiers_of(entry), [true, true, false]);
    bench.check();
}

#[test]
fn what_somebody_holds_stays_until_let_go() {
    let mut bench = Bench::new(3, 3, 3);
    let entry = bench.one(10, 1.0);
    let acquired = bench.acquire(&[entry]).unwrap();
    bench.make_room(Tier::Device, 3);
    assert!(bench.begun.is_empty());
    drop(acquired);
    bench.make_room(Tier::Device, 3);
    assert_eq!(bench.begun.len(), 1);
    bench.check();
}

#[test]
fn a_sequence_is_dropped_from_its_end_when_no_tier_has_room() {
    let pools = PageAllocator::new(4, 0).unwrap();
    let mut tiers = Tiers::new(TierPools {
        device: pools.clone(),
        host: None,
        disk: None,
    });
    let run = pools.allocate(3).unwrap();
    let mut chain = Vec::new();
    for page in run.hold(0..3) {
        let parent = chain.last().copied();
        chain.push(
            tiers
                .insert(page, parent, Worth::new(1, 1, 1.0).unwrap())
                .unwrap(),
        );
    }
    drop(run);
    let refused = tiers.remove(chain[0]);
    assert_eq!(
        refused,
        Err(TierError::HasChildren {
            entry: chain[0],
            children: 1
        })
    );
    let room = tiers.make_room(Tier::Device, 3).unwrap();
    assert_eq!(room.dropped, [chain[2], chain[1]]);
    assert_eq!((room.free, room.coming), (3, 0));
    assert!(matches!(
        tiers.acquire("", &chain),
        Err(TierError::UnknownEntry(_))
    ));
    assert!(matches!(
        tiers.make_room(Tier::Disk, 1),
        Err(TierError::NoTier(Tier::Disk))
    ));
    tiers.check().unwrap();
}

#[test]
fn who_is_worth_more_takes_the_place_of_who_is_worth_less_below() {
    let mut bench = Bench::new(2, 1, 1);
    let less = bench.one(10, 0.1);
    bench.make_room(Tier::Device, 2);
    bench.perform_all();
    let more = bench.one(10, 0.9);
    assert_eq!(bench.make_room(Tier::Device, 2), [less]);
    bench.perform_all();
    assert_eq!(bench.tiers_of(more), [false, true, false]);
    bench.check();
}

#[test]
fn a_worth_that_is_no_number_is_refused() {
    for (bytes, chance) in [(0, 0.5), (1, f64::NAN), (1, -0.1), (1, 1.1)] {
        assert!(matches!(
            Worth::new(1, bytes, chance),
            Err(TierError::BadWorth { .. })
        ));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Compute(usize, u64, u8),
    Acquire(usize, usize),
    Drop(usize),
    MakeRoom(usize, usize),
    Finish(usize),
    Abort(usize),
    Remove(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let which = || 0..1000_usize;
    prop_oneof![
        4 => (1..5_usize, 0..100_u64, 0..=10_u8).prop_map(|(pages, time, chance)| Step::Compute(pages, time, chance)),
        4 => (which(), 1..6_usize).prop_map(|(from, count)| Step::Acquire(from, count)),
        3 => which().prop_map(Step::Drop),
        4 => (0..3_usize, 0..8_usize).prop_map(|(tier, pages)| Step::MakeRoom(tier, pages)),
        6 => which().prop_map(Step::Finish),
        2 => which().prop_map(Step::Abort),
        1 => which().prop_map(Step::Remove),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn an_acquired_page_holds_what_its_entry_held_wherever_it_has_been(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut bench = Bench::new(9, 6, 7);
        // Runs in use, with what each must hold once what it waits for has arrived.
        let mut held: Vec<(Acquired, Vec<u64>)> = Vec::new();
        for step in steps {
            match step {
                Step::Compute(pages, time, chance) => {
                    bench.compute(pages, Worth::new(time, 1, f64::from(chance) / 10.0).unwrap());
                }
                Step::Acquire(from, count) => {
                    let known: Vec<EntryId> = bench.entries.keys().copied().collect();
                    let from = from.checked_rem(known.len()).unwrap_or(0);
                    let wanted: Vec<EntryId> = known.into_iter().skip(from).take(count).collect();
                    match bench.acquire(&wanted) {
                        Ok(acquired) => {
                            let contents = wanted.iter().map(|entry| bench.entries[entry]).collect();
                            held.push((acquired, contents));
                        }
                        Err(TierError::Page(PageError::OutOfPages { .. })) => {}
                        Err(error) => prop_assert!(false, "{}", error),
                    }
                }
                Step::Drop(which) => {
                    if let Some(at) = which.checked_rem(held.len()) {
                        held.swap_remove(at);
                    }
                }
                Step::MakeRoom(tier, pages) => {
                    bench.make_room(Tier::ALL[tier], pages);
                }
                Step::Finish(which) => {
                    if let Some(at) = which.checked_rem(bench.begun.len()) {
                        let what = bench.begun.swap_remove(at);
                        bench.perform(what);
                    }
                }
                Step::Abort(which) => {
                    if let Some(at) = which.checked_rem(bench.begun.len()) {
                        let id = bench.begun.swap_remove(at).id;
                        bench.tiers.abort(id).unwrap();
                        let waits = |acquired: &Acquired| {
                            acquired.awaited.contains(&id) || acquired.begun.iter().any(|what| what.id == id)
                        };
                        held.retain(|(acquired, _)| !waits(acquired));
                    }
                }
                Step::Remove(which) => {
                    let entry = which.checked_rem(bench.entries.len()).and_then(|at| bench.entries.keys().nth(at).copied());
                    if let Some(entry) = entry && bench.tiers.remove(entry).is_ok() {
                        bench.entries.remove(&entry);
                    }
                }
            }
            bench.check();
            let going: Vec<_> = bench.tiers.moves().map(|what| what.id).collect();
            for (acquired, contents) in &held {
                let begun = acquired.begun.iter().map(|what| what.id);
                if begun.chain(acquired.awaited.iter().copied()).any(|id| going.contains(&id)) {
                    continue;
                }
                let found = acquired.run.pages().iter().map(|&page| bench.contents[&(Tier::Device, page)]);
                prop_assert!(found.eq(contents.iter().copied()), "a held page changed");
            }
        }
        held.clear();
        for what in std::mem::take(&mut bench.begun) {
            bench.tiers.abort(what.id).unwrap();
        }
        let Bench { pools, tiers, .. } = bench;
        drop(tiers);
        for pool in pools {
            prop_assert!(pool.counters().is_idle(), "{:?}", pool.counters());
        }
    }
}
