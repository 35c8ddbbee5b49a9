//! One result of the flow, at the scheduler: the first of its edges to bring something is the one it reads (rules 1, 9).

use crate::effect::{Arrival, Effect};
use crate::graph::Graph;
use crate::ids::{EdgeId, PortIx};
use crate::item::Item;
use crate::key::Key;
use crate::payload::Payload;

use super::inlet::Inlet;

/// See the module.
#[derive(Debug)]
pub(super) struct ResultRun<P> {
    port: PortIx,
    /// One for each edge, in the graph's order.
    inlets: Vec<(EdgeId, Inlet<P>)>,
    /// Which of them it reads.
    source: Option<usize>,
    over: bool,
}

impl<P: Payload> ResultRun<P> {
    pub(super) fn new(graph: &Graph, port: PortIx, stream: bool) -> Self {
        // An edge into a result is never optional here: CLOSED leaves the choice to the other edges.
        let inlet = |edge: &EdgeId| {
            let keeps = stream && graph.is_resumed(*edge);
            (*edge, Inlet::new(stream, false).keeping(keeps))
        };
        Self {
            port,
            inlets: graph.edges_into_result(port).iter().map(inlet).collect(),
            source: None,
            over: false,
        }
    }

    pub(super) fn over(&self) -> bool {
        self.over
    }

    /// What came on an edge from a resumable node, and whether END did.
    pub(super) fn delivered(&self, edge: EdgeId) -> Option<(&[P], bool)> {
        let mut inlets = self.inlets.iter();
        let (_, inlet) = inlets.find(|(known, _)| *known == edge)?;
        inlet.delivered()
    }

    pub(super) fn producer_restarted(&mut self, edge: EdgeId, epoch: u32) {
        if let Some((_, inlet)) = self.inlets.iter_mut().find(|(known, _)| *known == edge) {
            inlet.restart(epoch);
        }
    }

    /// Takes an arrival in and does all that follows from it.
    pub(super) fn accept(
        &mut self,
        edge: EdgeId,
        epoch: u32,
        item: Item<P>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<Arrival, &'static str> {
        let Some(index) = self.inlets.iter().position(|(known, _)| *known == edge) else {
            return Ok(Arrival::Unwanted);
        };
        let taking = self.inlets[index].1.take(epoch, item)?;
        if let Some(seq) = taking.contradiction {
            effects.push(Effect::Contradiction {
                edge,
                key: Key::ROOT,
                seq,
            });
        }
        if taking.arrival == Arrival::Taken {
            if self.source.is_none() && self.inlets[index].1.ready() {
                self.choose(index, effects);
            }
            self.pass_on(effects);
            self.close_if_dead(effects);
        }
        Ok(taking.arrival)
    }

    fn choose(&mut self, index: usize, effects: &mut Vec<Effect<P>>) {
        self.source = Some(index);
        for (other, (edge, inlet)) in self.inlets.iter_mut().enumerate() {
            if other != index && inlet.refuse() {
                effects.push(Effect::Unwanted {
                    edge: *edge,
                    key: Key::ROOT,
                });
            }
        }
    }

    fn pass_on(&mut self, effects: &mut Vec<Effect<P>>) {
        let Some((_, inlet)) = self.source.and_then(|index| self.inlets.get_mut(index)) else {
            return;
        };
        while let Some((seq, payload)) = inlet.hand_on() {
            effects.push(Effect::Result {
                port: self.port,
                item: Item::Frame { seq, payload },
            });
        }
        if let Some(count) = inlet.ended() {
            self.over = true;
            if inlet.is_stream() {
                effects.push(Effect::Result {
                    port: self.port,
                    item: Item::End { count },
                });
            }
        }
    }

    fn close_if_dead(&mut self, effects: &mut Vec<Effect<P>>) {
        if !self.over && self.inlets.iter().all(|(_, inlet)| inlet.closed()) {
            self.over = true;
            effects.push(Effect::Result {
                port: self.port,
                item: Item::Closed,
            });
        }
    }

    /// Frames held, and their bytes.
    pub(super) fn holds(&self) -> (usize, usize) {
        let holds = self.inlets.iter().map(|(_, inlet)| inlet.holds());
        holds.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
    }

    /// Verifies the invariants.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        self.inlets
            .iter()
            .try_for_each(|(_, inlet)| inlet.check())?;
        if self.inlets.iter().any(|(_, inlet)| inlet.holds_back()) {
            return Err("a result holds frames back");
        }
        Ok(())
    }
}
