//! The sending end of one port for one key: numbers frames, and knows which of its edges nobody wants.

use crate::effect::Effect;
use crate::ids::EdgeId;
use crate::item::Item;
use crate::key::Key;
use crate::payload::Payload;
use crate::spec::PortSpec;

/// See the module.
#[derive(Debug)]
pub(super) struct Outlet {
    stream: bool,
    optional: bool,
    sent: u64,
    over: bool,
    refused: Vec<EdgeId>,
}

/// Where what an outlet sends goes.
#[derive(Clone, Copy)]
pub(super) struct Lane<'a> {
    pub(super) edges: &'a [EdgeId],
    pub(super) key: &'a Key,
    pub(super) epoch: u32,
}

/// Why an outlet did not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutletError {
    Full,
    NotAStream,
    Missing,
}

impl Outlet {
    pub(super) fn new(port: &PortSpec) -> Self {
        let kind = &port.value_type;
        Self {
            stream: kind.stream,
            optional: kind.optional,
            sent: 0,
            over: false,
            refused: Vec::new(),
        }
    }

    pub(super) fn frame<P: Payload>(
        &mut self,
        lane: Lane<'_>,
        payload: P,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), OutletError> {
        if self.over {
            return Err(OutletError::Full);
        }
        let seq = self.sent;
        self.sent += 1;
        self.over = !self.stream;
        self.send(lane, Item::Frame { seq, payload }, effects);
        Ok(())
    }

    pub(super) fn end<P: Payload>(
        &mut self,
        lane: Lane<'_>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), OutletError> {
        if !self.stream {
            return Err(OutletError::NotAStream);
        }
        if self.over {
            return Err(OutletError::Full);
        }
        self.over = true;
        self.send(lane, Item::End { count: self.sent }, effects);
        Ok(())
    }

    /// END of frames that went out elsewhere: one to each key of a scope.
    pub(super) fn end_with<P: Payload>(
        &mut self,
        lane: Lane<'_>,
        count: u64,
        effects: &mut Vec<Effect<P>>,
    ) {
        self.over = true;
        self.send(lane, Item::End { count }, effects);
    }

    /// Frames sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether nothing more may be sent.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Leaves the port empty, if its type allows that.
    pub(super) fn leave_out<P: Payload>(
        &mut self,
        lane: Lane<'_>,
        effects: &mut Vec<Effect<P>>,
    ) -> Result<(), OutletError> {
        if self.over || self.sent > 0 {
            return Err(OutletError::Full);
        }
        if !self.optional {
            return Err(OutletError::Missing);
        }
        self.close(lane, effects);
        Ok(())
    }

    /// The path is dead: CLOSED, whatever the type says (rule 2).
    pub(super) fn close<P: Payload>(&mut self, lane: Lane<'_>, effects: &mut Vec<Effect<P>>) {
        self.over = true;
        self.send(lane, Item::Closed, effects);
    }

    /// Its activation is over: whatever is open becomes CLOSED or END. `missing` was asked before.
    pub(super) fn finish<P: Payload>(&mut self, lane: Lane<'_>, effects: &mut Vec<Effect<P>>) {
        if self.over {
            return;
        }
        if self.optional && self.sent == 0 {
            self.close(lane, effects);
        } else {
            self.over = true;
            self.send(lane, Item::End { count: self.sent }, effects);
        }
    }

    /// Whether its activation may not be over yet: a required plain port is still empty.
    pub(super) fn missing(&self) -> bool {
        !self.over && !self.stream && !self.optional
    }

    /// Sends nothing more on this edge. Whether that is news.
    pub(super) fn refuse(&mut self, edge: EdgeId) -> bool {
        let news = !self.refused.contains(&edge);
        if news {
            self.refused.push(edge);
        }
        news
    }

    /// Sends on this edge again.
    pub(super) fn resume(&mut self, edge: EdgeId) {
        self.refused.retain(|refused| *refused != edge);
    }

    /// Whether any of its edges wants what it still sends.
    pub(super) fn wanted(&self, edges: &[EdgeId]) -> bool {
        self.refused.len() < edges.len()
    }

    fn send<P: Payload>(&self, lane: Lane<'_>, item: Item<P>, effects: &mut Vec<Effect<P>>) {
        let Some((last, before)) = lane.edges.split_last() else {
            return;
        };
        for edge in before {
            self.send_on(*edge, lane, item.clone(), effects);
        }
        self.send_on(*last, lane, item, effects);
    }

    fn send_on<P: Payload>(
        &self,
        edge: EdgeId,
        lane: Lane<'_>,
        item: Item<P>,
        effects: &mut Vec<Effect<P>>,
    ) {
        if !self.refused.contains(&edge) {
            effects.push(Effect::Send {
                edge,
                key: lane.key.clone(),
                epoch: lane.epoch,
                item,
            });
        }
    }
}
