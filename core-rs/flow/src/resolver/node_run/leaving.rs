//! How a run ends: closed, over, or because nobody wants it (rules 2 and 5).

use crate::effect::Effect;
use crate::ids::{EdgeId, PortIx};
use crate::payload::Payload;
use crate::resolver::delivered::{Delivered, Given};
use crate::resolver::few::Few;
use crate::resolver::outlet::{Lane, Outlet, OutletError};
use crate::resolver::place::Place;

use super::{NodeRun, Phase};

impl<P: Payload> NodeRun<P> {
    /// Dead-path elimination (rule 2).
    pub(super) fn close(&mut self, place: Place<'_>, epoch: u32, effects: &mut Vec<Effect<P>>) {
        self.epoch = Some(epoch);
        if self.control.is_none() {
            effects.push(Effect::NodeClosed {
                node: place.node,
                key: place.key.clone(),
            });
        }
        self.close_outputs(place, effects);
    }

    /// Closes the outputs that have not ended. Those into a scope that never begins need no mark.
    pub(super) fn close_outputs(&mut self, place: Place<'_>, effects: &mut Vec<Effect<P>>) {
        let epoch = self.epoch.unwrap_or_default();
        for (port, outlet) in self.outlets.iter_mut().enumerate() {
            if outlet.is_over() || !place.leaves_in_own_scope(port) {
                continue;
            }
            outlet.close(
                Lane {
                    edges: place.edges_out(port),
                    key: place.key,
                    epoch,
                },
                effects,
            );
        }
        self.leave(place, effects);
    }

    /// Over: tells producers that may still be sending, and frees everything but the fact.
    pub(super) fn leave(&mut self, place: Place<'_>, effects: &mut Vec<Effect<P>>) {
        self.given = self.given_by_resumable();
        for (port, inlet) in self.inlets.iter_mut().enumerate() {
            if inlet.refuse() {
                place.unwanted(port, effects);
            }
        }
        self.phase = Phase::Over;
        self.inlets = Few::None;
        self.outlets = Few::None;
        if self.control.take().is_some()
            && let Some(scope) = place.closes()
        {
            effects.push(Effect::ScopeLeft {
                scope,
                key: place.key.clone(),
                by: place.node,
            });
        }
    }

    fn given_by_resumable(&self) -> Option<Given<P>> {
        let ports = (0..).map(PortIx).zip(self.inlets.iter());
        let given = ports.filter_map(|(port, inlet)| {
            let (frames, ended) = inlet.delivered()?;
            let frames = frames.to_vec();
            Some((port, Delivered { frames, ended }))
        });
        let given: Vec<_> = given.collect();
        (!given.is_empty()).then(|| given.into())
    }

    /// The activation is over. Fails with the first required plain output that got nothing; then it still runs.
    pub(in crate::resolver) fn finish(
        &mut self,
        place: Place<'_>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), (PortIx, OutletError)> {
        if let Some(port) = self.outlets.iter().position(Outlet::missing) {
            return Err((PortIx(port as u32), OutletError::Missing));
        }
        let epoch = self.epoch.unwrap_or_default();
        for (port, outlet) in self.outlets.iter_mut().enumerate() {
            outlet.finish(
                Lane {
                    edges: place.edges_out(port),
                    key: place.key,
                    epoch,
                },
                effects,
            );
        }
        self.leave(place, effects);
        Ok(())
    }

    /// A consumer wants no more on this edge.
    pub(in crate::resolver) fn refuse_output(
        &mut self,
        place: Place<'_>,
        port: PortIx,
        edge: EdgeId,
        effects: &mut Vec<Effect<P>>,
    ) {
        let Some(outlet) = self.outlets.get_mut(port.index()) else {
            return;
        };
        // What goes into a scope goes to all of its keys, whatever one of them says.
        if !place.leaves_in_own_scope(port.index()) || !outlet.refuse(edge) {
            return;
        }
        if self.control.is_none() {
            self.tell_unneeded(place, effects);
        } else if self.running() && !self.wanted(place) {
            self.leave(place, effects);
        }
    }

    /// A consumer wants to read on after all.
    pub(in crate::resolver) fn resume_output(
        &mut self,
        port: PortIx,
        edge: EdgeId,
    ) -> Option<(u64, bool)> {
        let outlet = self.outlets.get_mut(port.index())?;
        outlet.resume(edge);
        Some((outlet.sent(), outlet.is_over()))
    }

    pub(super) fn wanted(&self, place: Place<'_>) -> bool {
        let wanted = |(port, outlet): (usize, &Outlet)| {
            place.leaves_in_own_scope(port) && outlet.wanted(place.edges_out(port))
        };
        self.outlets.iter().enumerate().any(wanted)
    }

    pub(super) fn tell_unneeded(&self, place: Place<'_>, effects: &mut Vec<Effect<P>>) {
        if self.running() && !self.wanted(place) {
            effects.push(Effect::Unneeded {
                node: place.node,
                key: place.key.clone(),
            });
        }
    }
}
