//! What control nodes do once they have fired. They read inlets and write outlets as an activation would, at once.

mod gather;
mod lockstep;
mod loop_run;
mod merge;
mod route;

use crate::effect::{Effect, Fault};
use crate::ids::{EdgeId, PortIx};
use crate::item::Item;
use crate::key::Key;
use crate::payload::Payload;
use crate::spec::{NodeKind, NodeSpec};

use super::inlet::Inlet;
use super::outlet::{Lane, Outlet};
use super::place::Place;
use gather::Gather;
use loop_run::LoopRun;

/// A control node of one key.
#[derive(Debug)]
pub(super) enum Control<P> {
    /// How many keys it has made.
    Each(u32),
    Zip,
    Merge,
    /// Which input it reads.
    AnyOf(Option<usize>),
    Route,
    /// `collect` of a stream: what has come.
    List(Vec<P>),
    Gather(Gather<P>),
    Loop(LoopRun<P>),
}

/// What a control node touches.
pub(super) struct Ports<'a, P> {
    pub(super) place: Place<'a>,
    pub(super) epoch: u32,
    pub(super) inlets: &'a mut [Inlet<P>],
    pub(super) outlets: &'a mut [Outlet],
    pub(super) effects: &'a mut Vec<Effect<P>>,
}

/// How it stands with a control node after it has done what it could.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It waits for more.
    Going,
    /// It is over; what it has not ended is closed.
    Over,
    /// The job has failed.
    Failed(Fault),
}

impl<P: Payload> Control<P> {
    /// `None` for a role.
    pub(super) fn new(spec: &NodeSpec) -> Option<Self> {
        let root = spec.kind.inner_scope().is_none();
        Some(match &spec.kind {
            NodeKind::Role { .. } => return None,
            NodeKind::Each { .. } => Self::Each(0),
            NodeKind::Zip => Self::Zip,
            NodeKind::Merge => Self::Merge,
            NodeKind::AnyOf => Self::AnyOf(None),
            NodeKind::Route { .. } => Self::Route,
            NodeKind::Collect { .. } if root => Self::List(Vec::new()),
            NodeKind::Collect { .. } => Self::Gather(Gather::list()),
            NodeKind::Ordered { .. } => Self::Gather(Gather::ordered()),
            NodeKind::Unordered { .. } => Self::Gather(Gather::unordered()),
            NodeKind::Loop {
                carried,
                emitted,
                max_rounds,
                ..
            } => Self::Loop(LoopRun::new(*carried, *emitted, *max_rounds)),
        })
    }

    /// Its node has fired. The next thing is `advance`.
    pub(super) fn fire(&mut self, ports: &mut Ports<'_, P>) {
        if let Self::Loop(run) = self {
            run.fire(ports);
        }
    }

    /// Does all that follows from what has come: on this port in the node's own scope, or anywhere.
    pub(super) fn advance(&mut self, ports: &mut Ports<'_, P>, came: Option<PortIx>) -> Step {
        match self {
            Self::Each(made) => lockstep::each(made, ports),
            Self::Zip => lockstep::zip(ports),
            Self::Merge => merge::merge(ports, came),
            Self::AnyOf(chosen) => merge::any_of(chosen, ports),
            Self::Route => route::route(ports),
            Self::List(items) => gather::list_of_stream(items, ports),
            Self::Gather(gather) => gather.advance(ports),
            Self::Loop(run) => run.advance(ports),
        }
    }

    /// Keeps what came on an inner port, from inside the scope. Whether there is something new to `advance` with; the
    /// sequence number of a contradiction. An error says how it breaks the protocol.
    pub(super) fn take_inner(
        &mut self,
        port: PortIx,
        index: u32,
        item: Item<P>,
    ) -> Result<InnerTaking, &'static str> {
        let slot = match item {
            Item::Frame { seq: 0, payload } => Some(payload),
            Item::Closed => None,
            Item::Frame { .. } => return Err("a second frame on a plain edge"),
            Item::End { .. } => return Err("END on a plain edge"),
        };
        match self {
            Self::Gather(gather) => gather.take(index, slot),
            Self::Loop(run) => run.take(port, index, slot),
            _ => Err("an edge out of a scope into a node that closes none"),
        }
    }

    /// Frames held, and their bytes.
    pub(super) fn holds(&self) -> (usize, usize) {
        match self {
            Self::List(items) => (items.len(), items.iter().map(Payload::size).sum()),
            Self::Gather(gather) => gather.holds(),
            Self::Loop(run) => run.holds(),
            Self::Each(_) | Self::Zip | Self::Merge | Self::AnyOf(_) | Self::Route => (0, 0),
        }
    }
}

/// What something on an inner port did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InnerTaking {
    /// It is new.
    Taken,
    /// It was there already.
    Duplicate,
    /// It was there already, with another content.
    Contradiction,
}

impl<'a, P: Payload> Ports<'a, P> {
    /// One frame on an output in the node's own scope.
    pub(super) fn frame(&mut self, port: usize, payload: P) {
        let lane = self.lane(port);
        // A control node numbers its own frames: an outlet that were full would have ended, and the node with it.
        let _ = self.outlets[port].frame(lane, payload, self.effects);
    }

    /// END, whatever was sent.
    pub(super) fn end(&mut self, port: usize) {
        let lane = self.lane(port);
        let _ = self.outlets[port].end(lane, self.effects);
    }

    /// END of a number that was sent elsewhere.
    pub(super) fn end_with(&mut self, port: usize, count: u64) {
        let lane = self.lane(port);
        self.outlets[port].end_with(lane, count, self.effects);
    }

    /// CLOSED.
    pub(super) fn close(&mut self, port: usize) {
        let lane = self.lane(port);
        self.outlets[port].close(lane, self.effects);
    }

    /// The one frame of an output inside the scope that the node makes.
    pub(super) fn inner_frame(&mut self, port: usize, key: &Key, payload: P) {
        let edges = self.edges(port);
        let Some((last, before)) = edges.split_last() else {
            return;
        };
        for edge in before {
            self.inner_send(*edge, key, payload.clone());
        }
        self.inner_send(*last, key, payload);
    }

    fn inner_send(&mut self, edge: EdgeId, key: &Key, payload: P) {
        self.effects.push(Effect::Send {
            edge,
            key: key.clone(),
            epoch: self.epoch,
            item: Item::Frame { seq: 0, payload },
        });
    }

    fn edges(&self, port: usize) -> &'a [EdgeId] {
        self.place.edges_out(port)
    }

    fn lane(&self, port: usize) -> Lane<'a> {
        Lane {
            edges: self.place.edges_out(port),
            key: self.place.key,
            epoch: self.epoch,
        }
    }
}
