//! What a new attempt of a resumable node goes on from (rule 12): the frames that its readers have been given, with the state
//! that they carry.

use crate::effect::Effect;
use crate::error::ResolverError;
use crate::ids::{NodeId, PortIx};
use crate::key::Key;
use crate::payload::Payload;
use crate::spec::{Destination, Origin};

use super::Resolver;

/// The one output of a resumable node.
const OUTPUT: PortIx = PortIx(0);

/// The frames of a resumable node that a place has delivered, from the first on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered<P> {
    /// As they came: with their state.
    pub frames: Vec<P>,
    /// END has been delivered, too.
    pub ended: bool,
}

/// By input port of a run that is over: what it was given by resumable nodes.
pub(super) type Given<P> = Box<[(PortIx, Delivered<P>)]>;

impl<P> Default for Delivered<P> {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            ended: false,
        }
    }
}

impl<P> Delivered<P> {
    /// Nothing was.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty() && !self.ended
    }

    /// Of what two places hold of one node, that which has more.
    pub fn longer(self, other: Self) -> Self {
        let length = |of: &Self| (of.frames.len(), of.ended);
        match length(&other) > length(&self) {
            true => other,
            false => self,
        }
    }
}

impl<P: Payload> Resolver<P> {
    /// What this place holds of what attempts of a resumable node (`Graph::resumes`) have sent for a key: outside of scopes,
    /// until the job is over; inside, until its reader is. Call `producer_restarted` first: what earlier attempts still send
    /// is then dropped, so that nothing comes on top.
    pub fn delivered(&self, node: NodeId, key: &Key) -> Delivered<P> {
        let mut longest = Delivered::default();
        if !self.graph.resumes(node) {
            return longest;
        }
        for edge in self.graph.edges_from(Origin::Node { node, port: OUTPUT }) {
            let held = match self.graph.edge(*edge).map(|spec| spec.to) {
                Some(Destination::Node { node, port }) => {
                    let run = self.nodes[node.index()].runs.get(key);
                    run.and_then(|run| run.delivered(port))
                }
                Some(Destination::Result { port }) => {
                    let results = self.results.as_ref();
                    let run = results.and_then(|results| results.get(port.index()));
                    run.and_then(|run| run.delivered(*edge))
                }
                None => None,
            };
            let Some((kept, ended)) = held else {
                continue;
            };
            if (kept.len(), ended) > (longest.frames.len(), longest.ended) {
                longest = Delivered {
                    frames: kept.to_vec(),
                    ended,
                };
            }
        }
        longest
    }

    /// An attempt of a resumable node that has just begun (its `Activate` was the last that was heard of it) goes on from what
    /// was delivered: that is sent to all readers, under its epoch, as if it had said it itself. Whoever has it drops it; the
    /// next frame of the activation is the one after.
    ///
    /// Fails like `emit` and `end`.
    pub fn resume(
        &mut self,
        node: NodeId,
        key: &Key,
        delivered: &Delivered<P>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), ResolverError> {
        for frame in &delivered.frames {
            self.emit(node, key, OUTPUT, frame.clone(), effects)?;
        }
        if delivered.ended {
            self.end(node, key, OUTPUT, effects)?;
        }
        Ok(())
    }
}
