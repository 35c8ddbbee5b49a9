//! `collect`, `ordered` and `unordered`: what leaves the keys of an `each` (rule 4).

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::effect::Fault;
use crate::payload::Payload;

use super::{InnerTaking, Ports, Step};

/// The port of END(count).
const COUNT: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    List,
    Ordered,
    Unordered,
}

/// See the module.
#[derive(Debug)]
pub(in crate::resolver) struct Gather<P> {
    way: Way,
    /// What came, by index.
    came: FxHashMap<u32, Came<P>>,
    /// Of `unordered`: what is to be passed on, by arrival.
    arrived: Vec<u32>,
    /// Of `ordered`: the first index that was not passed on.
    next: u32,
    /// The highest index that came, plus one.
    beyond: u64,
}

/// What came of one key.
#[derive(Debug)]
struct Came<P> {
    /// Of a value; `None` for a closed key.
    digest: Option<u64>,
    /// Until it is passed on.
    value: Option<P>,
}

impl<P: Payload> Gather<P> {
    pub(super) fn list() -> Self {
        Self::new(Way::List)
    }

    pub(super) fn ordered() -> Self {
        Self::new(Way::Ordered)
    }

    pub(super) fn unordered() -> Self {
        Self::new(Way::Unordered)
    }

    fn new(way: Way) -> Self {
        Self {
            way,
            came: FxHashMap::default(),
            arrived: Vec::new(),
            next: 0,
            beyond: 0,
        }
    }

    pub(super) fn take(
        &mut self,
        index: u32,
        value: Option<P>,
    ) -> Result<InnerTaking, &'static str> {
        let digest = value.as_ref().map(Payload::digest);
        match self.came.entry(index) {
            Entry::Occupied(known) => Ok(match known.get().digest == digest {
                true => InnerTaking::Duplicate,
                false => InnerTaking::Contradiction,
            }),
            Entry::Vacant(place) => {
                if self.way == Way::Unordered && value.is_some() {
                    self.arrived.push(index);
                }
                place.insert(Came { digest, value });
                self.beyond = self.beyond.max(u64::from(index) + 1);
                Ok(InnerTaking::Taken)
            }
        }
    }

    pub(super) fn advance(&mut self, ports: &mut Ports<'_, P>) -> Step {
        if ports.inlets[COUNT].closed() {
            return Step::Over;
        }
        match self.way {
            Way::List => {}
            Way::Unordered => self.pass_on_at_once(ports),
            Way::Ordered => self.pass_on_in_order(ports),
        }
        match ports.inlets[COUNT].ended_with() {
            Some(count) if self.beyond > count => {
                return Step::Failed(Fault::BadValue {
                    name: ports.place.spec.name.clone(),
                    wanted: "a key for each item of its `each`",
                });
            }
            Some(count) if count == self.came.len() as u64 => {}
            _ => return Step::Going,
        }
        match self.way {
            Way::List => {
                let values = (0..self.came.len() as u32).filter_map(|index| self.value(index));
                let values = values.collect();
                ports.frame(0, P::list(values));
            }
            Way::Ordered | Way::Unordered => ports.end(0),
        }
        Step::Over
    }

    fn pass_on_at_once(&mut self, ports: &mut Ports<'_, P>) {
        for index in std::mem::take(&mut self.arrived) {
            if let Some(payload) = self.value(index) {
                ports.frame(0, payload);
            }
        }
    }

    fn pass_on_in_order(&mut self, ports: &mut Ports<'_, P>) {
        while let Some(came) = self.came.get_mut(&self.next) {
            if let Some(payload) = came.value.take() {
                ports.frame(0, payload);
            }
            self.next += 1;
        }
    }

    /// The value of a key, if it has one that was not passed on.
    fn value(&mut self, index: u32) -> Option<P> {
        self.came.get_mut(&index)?.value.take()
    }

    pub(super) fn holds(&self) -> (usize, usize) {
        let held = self.came.values().filter_map(|came| came.value.as_ref());
        held.fold((0, 0), |(frames, bytes), held| {
            (frames + 1, bytes + held.size())
        })
    }
}

/// `collect` of a stream.
pub(super) fn list_of_stream<P: Payload>(items: &mut Vec<P>, ports: &mut Ports<'_, P>) -> Step {
    while let Some((_, payload)) = ports.inlets[0].hand_on() {
        items.push(payload);
    }
    if ports.inlets[0].ended().is_none() {
        return Step::Going;
    }
    ports.frame(0, P::list(std::mem::take(items)));
    Step::Over
}
