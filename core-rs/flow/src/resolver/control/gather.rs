//! `collect`, `ordered` and `unordered`: what leaves the keys of an `each` (rule 4).

use std::collections::BTreeMap;

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
    /// What came, by index: the digest of a value, `None` for a closed key.
    came: FxHashMap<u32, Option<u64>>,
    /// Values that were not passed on.
    held: BTreeMap<u32, P>,
    /// Of `ordered`: the first index that was not passed on.
    next: u32,
    /// The highest index that came, plus one.
    beyond: u64,
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
            held: BTreeMap::new(),
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
        if let Some(known) = self.came.get(&index) {
            return Ok(match *known == digest {
                true => InnerTaking::Duplicate,
                false => InnerTaking::Contradiction,
            });
        }
        self.came.insert(index, digest);
        self.beyond = self.beyond.max(u64::from(index) + 1);
        if let Some(payload) = value {
            self.held.insert(index, payload);
        }
        Ok(InnerTaking::Taken)
    }

    pub(super) fn advance(&mut self, ports: &mut Ports<'_, P>) -> Step {
        if ports.inlets[COUNT].closed() {
            return Step::Over;
        }
        match self.way {
            Way::List => {}
            Way::Unordered => {
                for payload in std::mem::take(&mut self.held).into_values() {
                    ports.frame(0, payload);
                }
            }
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
                let values = std::mem::take(&mut self.held).into_values();
                ports.frame(0, P::list(values.collect()));
            }
            Way::Ordered | Way::Unordered => ports.end(0),
        }
        Step::Over
    }

    fn pass_on_in_order(&mut self, ports: &mut Ports<'_, P>) {
        while self.came.contains_key(&self.next) {
            if let Some(payload) = self.held.remove(&self.next) {
                ports.frame(0, payload);
            }
            self.next += 1;
        }
    }

    pub(super) fn holds(&self) -> (usize, usize) {
        (self.held.len(), self.held.values().map(Payload::size).sum())
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
