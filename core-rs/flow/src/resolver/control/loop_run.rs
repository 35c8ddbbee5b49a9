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
    /// The rounds from the current one on that something came of.
    rounds: BTreeMap<u32, Round<P>>,
}

/// Nexts, until, emits of one round, by inner input port.
#[derive(Debug)]
struct Round<P> {
    slots: Vec<Slot<P>>,
    missing: usize,
}

impl<P: Payload> LoopRun<P> {
    pub(super) fn new(carried: u32, emitted: u32, max_rounds: u32) -> Self {
        let (carried, emitted) = (carried as usize, emitted as usize);
        Self {
            carried,
            emitted,
            max_rounds,
            round: 0,
            rounds: BTreeMap::new(),
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
        let round = self.rounds.entry(round).or_insert_with(|| Round {
            slots: vec![Slot::Empty; inner],
            missing: inner,
        });
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
        loop {
            let step = self.advance_round(ports);
            if step != Step::Going || !self.round_is_over() {
                return step;
            }
        }
    }

    fn round_is_over(&self) -> bool {
        self.rounds
            .get(&self.round)
            .is_some_and(|round| round.missing == 0)
    }

    fn advance_round(&mut self, ports: &mut Ports<'_, P>) -> Step {
        if !self.round_is_over() {
            return Step::Going;
        }
        let Some(Round {
            slots: mut nexts, ..
        }) = self.rounds.remove(&self.round)
        else {
            return Step::Going;
        };
        let emits = nexts.split_off(self.carried + 1);
        for (emit, payload) in emits.into_iter().enumerate() {
            if let Slot::Value(payload) = payload {
                ports.frame(2 * self.carried + emit, payload);
            }
        }
        let over = match nexts.pop() {
            Some(Slot::Value(until)) => match until.truth() {
                Some(over) => over,
                None => {
                    return Step::Failed(Fault::BadValue {
                        name: ports.place.spec.name.clone(),
                        wanted: "a boolean from `until`",
                    });
                }
            },
            _ => return self.end_without_value(ports),
        };
        if over {
            return self.end(nexts, ports);
        }
        let Some(nexts) = nexts
            .into_iter()
            .map(Slot::value)
            .collect::<Option<Vec<P>>>()
        else {
            return self.end_without_value(ports);
        };
        self.round += 1;
        if self.round >= self.max_rounds {
            return Step::Failed(Fault::LoopLimit {
                name: ports.place.spec.name.clone(),
                max_rounds: self.max_rounds,
            });
        }
        let key = ports.place.key.child(self.round);
        for (port, next) in nexts.into_iter().enumerate() {
            ports.inner_frame(port, &key, next);
        }
        Step::Going
    }

    fn end(&self, nexts: Vec<Slot<P>>, ports: &mut Ports<'_, P>) -> Step {
        for (port, next) in (self.carried..).zip(nexts) {
            match next {
                Slot::Value(last) => ports.frame(port, last),
                Slot::Closed | Slot::Empty => ports.close(port),
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
        let slots = self.rounds.values().flat_map(|round| &round.slots);
        let sizes = slots.filter_map(|slot| match slot {
            Slot::Value(payload) => Some(payload.size()),
            Slot::Empty | Slot::Closed => None,
        });
        sizes.fold((0, 0), |(frames, bytes), size| (frames + 1, bytes + size))
    }
}

impl<P> Slot<P> {
    fn value(self) -> Option<P> {
        match self {
            Self::Value(payload) => Some(payload),
            Self::Empty | Self::Closed => None,
        }
    }
}
