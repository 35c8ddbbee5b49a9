//! `loop`: rounds, one after another, until a port says that it is over (rules 5 and 6).

use std::collections::BTreeMap;

use crate::effect::Fault;
use crate::ids::PortIx;
use crate::payload::Payload;

use super::{InnerTaking, Ports, Step};

/// What came on an inner port in this round.
#[derive(Clone, Debug)]
enum Slot<P> {
    Empty,
    Value(P),
    Closed,
}

/// See the module. Kept are the current round and, after a loss, what is said again of later ones; no round that is over.
#[derive(Debug)]
pub(in crate::resolver) struct LoopRun<P> {
    carried: usize,
    emitted: usize,
    max_rounds: u32,
    round: u32,
    current: Round<P>,
    /// Later rounds that something came of.
    later: BTreeMap<u32, Round<P>>,
}

/// Nexts, until, emits of one round, by inner input port.
#[derive(Debug)]
struct Round<P> {
    slots: Vec<Slot<P>>,
    missing: usize,
}

impl<P> Round<P> {
    fn new(ports: usize) -> Self {
        Self {
            slots: (0..ports).map(|_| Slot::Empty).collect(),
            missing: ports,
        }
    }

    /// What came on one port, which is empty from now on.
    fn take(&mut self, slot: usize) -> Slot<P> {
        std::mem::replace(&mut self.slots[slot], Slot::Empty)
    }
}

impl<P: Payload> LoopRun<P> {
    pub(super) fn new(carried: u32, emitted: u32, max_rounds: u32) -> Self {
        let (carried, emitted) = (carried as usize, emitted as usize);
        Self {
            carried,
            emitted,
            max_rounds,
            round: 0,
            current: Round::new(carried + 1 + emitted),
            later: BTreeMap::new(),
        }
    }

    pub(super) fn fire(&mut self, ports: &mut Ports<'_, P>) {
        let key = ports.place.key.child(0);
        for port in 0..self.carried {
            if let Some((_, start)) = ports.inlets[port].hand_on() {
                ports.inner_frame(port, &key, start);
            }
        }
    }

    pub(super) fn take(
        &mut self,
        port: PortIx,
        round: u32,
        value: Option<P>,
    ) -> Result<InnerTaking, &'static str> {
        if round < self.round {
            return Ok(InnerTaking::Duplicate);
        }
        if round >= self.max_rounds {
            return Err("something of a round beyond the bound");
        }
        let inner = self.carried + 1 + self.emitted;
        let slot = port.index().checked_sub(self.carried);
        let slot = slot
            .filter(|slot| *slot < inner)
            .ok_or("an edge from a loop's body into a port that starts it")?;
        let round = match round == self.round {
            true => &mut self.current,
            false => self.later.entry(round).or_insert_with(|| Round::new(inner)),
        };
        let slot = &mut round.slots[slot];
        let same = match (&*slot, &value) {
            (Slot::Empty, _) => {
                *slot = value.map_or(Slot::Closed, Slot::Value);
                round.missing -= 1;
                return Ok(InnerTaking::Taken);
            }
            (Slot::Value(known), Some(again)) => known.digest() == again.digest(),
            (Slot::Closed, None) => true,
            _ => false,
        };
        Ok(match same {
            true => InnerTaking::Duplicate,
            false => InnerTaking::Contradiction,
        })
    }

    pub(super) fn advance(&mut self, ports: &mut Ports<'_, P>) -> Step {
        while self.current.missing == 0 {
            let step = self.end_round(ports);
            if step != Step::Going {
                return step;
            }
        }
        Step::Going
    }

    /// Everything of the current round has come.
    fn end_round(&mut self, ports: &mut Ports<'_, P>) -> Step {
        let until = self.carried;
        for emit in 0..self.emitted {
            if let Slot::Value(payload) = self.current.take(until + 1 + emit) {
                ports.frame(2 * self.carried + emit, payload);
            }
        }
        let over = match self.current.take(until) {
            Slot::Value(until) => match until.truth() {
                Some(over) => over,
                None => {
                    return Step::Failed(Fault::BadValue {
                        name: ports.place.spec.name.clone(),
                        wanted: "a boolean from `until`",
                    });
                }
            },
            Slot::Closed | Slot::Empty => return self.end_without_value(ports),
        };
        if over {
            return self.end(ports);
        }
        let nexts = &self.current.slots[..self.carried];
        if !nexts.iter().all(|next| matches!(next, Slot::Value(_))) {
            return self.end_without_value(ports);
        }
        if self.round + 1 >= self.max_rounds {
            return Step::Failed(Fault::LoopLimit {
                name: ports.place.spec.name.clone(),
                max_rounds: self.max_rounds,
            });
        }
        self.begin_next_round(ports);
        Step::Going
    }

    fn begin_next_round(&mut self, ports: &mut Ports<'_, P>) {
        self.round += 1;
        let key = ports.place.key.child(self.round);
        for port in 0..self.carried {
            if let Slot::Value(next) = self.current.take(port) {
                ports.inner_frame(port, &key, next);
            }
        }
        match self.later.remove(&self.round) {
            Some(known) => self.current = known,
            // All its slots are empty by now.
            None => self.current.missing = self.current.slots.len(),
        }
    }

    fn end(&mut self, ports: &mut Ports<'_, P>) -> Step {
        for next in 0..self.carried {
            match self.current.take(next) {
                Slot::Value(last) => ports.frame(self.carried + next, last),
                Slot::Closed | Slot::Empty => ports.close(self.carried + next),
            }
        }
        self.streams().for_each(|port| ports.end(port));
        Step::Over
    }

    /// What has carried something ends; the rest is closed with the node.
    fn end_without_value(&self, ports: &mut Ports<'_, P>) -> Step {
        for port in self.streams() {
            if ports.outlets[port].sent() > 0 {
                ports.end(port);
            }
        }
        Step::Over
    }

    fn streams(&self) -> std::ops::Range<usize> {
        2 * self.carried..2 * self.carried + self.emitted
    }

    pub(super) fn holds(&self) -> (usize, usize) {
        let rounds = self.later.values().chain([&self.current]);
        let slots = rounds.flat_map(|round| &round.slots);
        let sizes = slots.filter_map(|slot| match slot {
            Slot::Value(payload) => Some(payload.size()),
            Slot::Empty | Slot::Closed => None,
        });
        sizes.fold((0, 0), |(frames, bytes), size| (frames + 1, bytes + size))
    }
}
