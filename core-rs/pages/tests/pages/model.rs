//! The allocator against a model that anyone can check by eye: a count per page.

use std::collections::BTreeMap;

use omniflow_pages::{Generation, Page, PageAllocator, PageError, PageId, Run};
use proptest::prelude::*;

const PAGES: u32 = 150;
const RESERVED: u32 = 3;

#[derive(Clone, Debug)]
enum Step {
    Allocate(usize),
    Extend(usize, usize),
    Truncate(usize, usize),
    Share(usize, usize),
    Hold(usize, usize),
    DropRun(usize),
    DropPage(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..1000_usize;
    prop_oneof![
        4 => (0..40_usize).prop_map(Step::Allocate),
        3 => (which.clone(), 0..20_usize).prop_map(|(run, pages)| Step::Extend(run, pages)),
        2 => (which.clone(), 0..20_usize).prop_map(|(run, pages)| Step::Truncate(run, pages)),
        2 => (which.clone(), 0..20_usize).prop_map(|(run, pages)| Step::Share(run, pages)),
        1 => (which.clone(), 0..20_usize).prop_map(|(run, page)| Step::Hold(run, page)),
        4 => which.clone().prop_map(Step::DropRun),
        1 => which.prop_map(Step::DropPage),
    ]
}

#[derive(Default)]
struct Model {
    references: BTreeMap<PageId, u32>,
    freed: BTreeMap<PageId, u64>,
}

impl Model {
    fn free(&self) -> usize {
        (PAGES - RESERVED) as usize - self.references.len()
    }

    fn is_free(&self, page: u32) -> bool {
        (RESERVED..PAGES).contains(&page) && !self.references.contains_key(&PageId(page))
    }

    fn hold(&mut self, pages: &[PageId]) {
        pages
            .iter()
            .for_each(|page| *self.references.entry(*page).or_default() += 1);
    }

    fn give_back(&mut self, pages: &[PageId]) {
        for page in pages {
            let count = self.references.get_mut(page).unwrap();
            *count -= 1;
            if *count == 0 {
                self.references.remove(page);
                *self.freed.entry(*page).or_default() += 1;
            }
        }
    }

    fn has_room_in_a_row(&self, wanted: usize) -> bool {
        (RESERVED..PAGES).any(|start| (start..start + wanted as u32).all(|page| self.is_free(page)))
    }

    /// What the rules say of newly allocated `pages` that follow `before`.
    fn accept(&mut self, before: Option<PageId>, pages: &[PageId]) -> Result<(), TestCaseError> {
        let mut seen = std::collections::BTreeSet::new();
        for page in pages {
            prop_assert!(self.is_free(page.0), "{page} was in use or is reserved");
            prop_assert!(seen.insert(*page), "{page} handed out twice");
        }
        let in_a_row = pages.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0);
        prop_assert!(
            in_a_row || !self.has_room_in_a_row(pages.len()),
            "scattered although there was room in a row"
        );
        if let (Some(before), Some(first)) = (before, pages.first()) {
            let behind =
                (before.0 + 1..=before.0 + pages.len() as u32).all(|page| self.is_free(page));
            prop_assert!(
                !behind || first.0 == before.0 + 1,
                "not behind the last page although that was free"
            );
        }
        self.hold(pages);
        Ok(())
    }
}

struct Bench {
    allocator: PageAllocator,
    model: Model,
    runs: Vec<Run>,
    pages: Vec<Page>,
}

impl Bench {
    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Allocate(wanted) => match self.allocator.allocate(wanted) {
                Ok(run) => {
                    self.model.accept(None, run.pages())?;
                    self.runs.push(run);
                }
                Err(error) => self.must_be_full(wanted, &error)?,
            },
            Step::DropPage(which) if !self.pages.is_empty() => {
                let page = self.pages.swap_remove(which % self.pages.len());
                self.model.give_back(&[page.id()]);
                prop_assert_eq!(
                    page.is_sole(),
                    !self.model.references.contains_key(&page.id())
                );
            }
            Step::Extend(which, _)
            | Step::Truncate(which, _)
            | Step::Share(which, _)
            | Step::Hold(which, _)
                if !self.runs.is_empty() =>
            {
                let which = which % self.runs.len();
                self.take_on_run(step, which)?;
            }
            Step::DropRun(which) if !self.runs.is_empty() => {
                let run = self.runs.swap_remove(which % self.runs.len());
                self.model.give_back(run.pages());
            }
            _ => {}
        }
        Ok(())
    }

    fn take_on_run(&mut self, step: Step, which: usize) -> Result<(), TestCaseError> {
        let run = &mut self.runs[which];
        let before = run.pages().to_vec();
        match step {
            Step::Extend(_, wanted) => match run.extend(wanted) {
                Ok(()) => {
                    prop_assert_eq!(&run.pages()[..before.len()], &before[..]);
                    self.model
                        .accept(before.last().copied(), &run.pages()[before.len()..])?;
                }
                Err(error) => {
                    prop_assert_eq!(run.pages(), &before[..]);
                    self.must_be_full(wanted, &error)?;
                }
            },
            Step::Truncate(_, pages) => {
                run.truncate(pages);
                prop_assert_eq!(run.pages(), &before[..pages.min(before.len())]);
                self.model.give_back(&before[pages.min(before.len())..]);
            }
            Step::Share(_, pages) => {
                let shared = run.share(pages);
                prop_assert_eq!(shared.pages(), &before[..pages.min(before.len())]);
                self.model.hold(shared.pages());
                self.runs.push(shared);
            }
            Step::Hold(_, page) => {
                let held = run.hold(page..page + 1);
                prop_assert_eq!(held.len(), usize::from(page < before.len()));
                held.iter().for_each(|page| self.model.hold(&[page.id()]));
                self.pages.extend(held);
            }
            _ => unreachable!("not a step on a run"),
        }
        Ok(())
    }

    fn must_be_full(&self, wanted: usize, error: &PageError) -> Result<(), TestCaseError> {
        prop_assert_eq!(
            error,
            &PageError::OutOfPages {
                wanted,
                free: self.model.free()
            }
        );
        prop_assert!(wanted > self.model.free());
        Ok(())
    }

    fn agree(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.allocator.check(), Ok(()));
        prop_assert_eq!(self.allocator.free(), self.model.free());
        for page in (RESERVED..PAGES).map(PageId) {
            let freed = Generation(self.model.freed.get(&page).copied().unwrap_or(0));
            prop_assert_eq!(self.allocator.generation(page), Ok(freed));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn agrees_with_the_model_and_ends_empty(steps in prop::collection::vec(step(), 1..80)) {
        let allocator = PageAllocator::new(PAGES, RESERVED).unwrap();
        let mut bench = Bench { allocator, model: Model::default(), runs: Vec::new(), pages: Vec::new() };
        for step in steps {
            bench.take(step)?;
            bench.agree()?;
        }
        bench.runs.clear();
        bench.pages.clear();
        prop_assert_eq!(bench.allocator.free(), (PAGES - RESERVED) as usize);
        prop_assert_eq!(bench.allocator.check(), Ok(()));
    }
}

#[test]
fn a_pool_of_reserved_pages_only_is_refused() {
    let refused = PageAllocator::new(2, 2).map(|_| ()).unwrap_err();
    assert_eq!(
        refused,
        PageError::EmptyPool {
            pages: 2,
            reserved: 2
        }
    );
}

#[test]
fn a_freed_page_is_stale_for_who_noted_its_generation() {
    let allocator = PageAllocator::new(8, 1).unwrap();
    let run = allocator.allocate(1).unwrap();
    let page = run.pages()[0];
    let noted = allocator.generation(page).unwrap();
    let second = run.share(1);
    drop(run);
    assert_eq!(
        allocator.verify(page, noted),
        Ok(()),
        "a shared page lives on"
    );
    drop(second);
    let current = Generation(noted.0 + 1);
    assert_eq!(
        allocator.verify(page, noted),
        Err(PageError::StalePage {
            page,
            generation: noted,
            current
        })
    );
    let reserved = allocator.generation(PageId(0));
    assert_eq!(
        reserved,
        Err(PageError::UnknownPage {
            page: PageId(0),
            first: 1,
            end: 8
        })
    );
}

#[test]
fn a_handle_of_another_allocator_is_refused() {
    let (ours, theirs) = (
        PageAllocator::new(8, 1).unwrap(),
        PageAllocator::new(8, 1).unwrap(),
    );
    let held = theirs.allocate(2).unwrap().hold(0..2);
    assert_eq!(
        ours.run_of(&held).map(|_| ()).unwrap_err(),
        PageError::Foreign
    );
    assert_eq!(
        theirs.run_of(&held).unwrap().pages(),
        [held[0].id(), held[1].id()]
    );
}

#[test]
fn threads_share_one_allocator() {
    let allocator = PageAllocator::new(1025, 1).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..500 {
                    let mut run = allocator.allocate(round % 50).unwrap();
                    let shared = run.share(round % 7);
                    run.extend(3).unwrap();
                    drop(run);
                    drop(shared);
                }
            });
        }
    });
    assert_eq!(allocator.free(), 1024);
    assert_eq!(allocator.check(), Ok(()));
}
