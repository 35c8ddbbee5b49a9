//! At a role that reads streams through control nodes at its side: what those let its producers send.
//!
//! A merge lets each of them send what the reader has room for beyond what has come of all. The streams of a zip come as
//! far as that of them that is read furthest, for none goes on without the others; one that waits for another holds nobody
//! up, since that other one may wait for the same producer.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use omniflow_flow::{EdgeId, Item, Key, NodeId, PortIx};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Amount, Grant, Granted, Lane, Told, WINDOW};
use crate::core::job::{Context, Job};
use crate::passages::Passage;

/// Of streams that come through control nodes here.
#[derive(Debug, Default)]
pub(crate) struct Passing {
    /// What has come.
    came: FxHashMap<Lane, Amount>,
    /// What ports of roles that read from a zip have said, by the first source of each.
    said: FxHashMap<Lane, Granted>,
    /// Streams that would hold their producers up if they did not wait for others.
    waiting: FxHashSet<Lane>,
}

impl Passing {
    fn came(&self, edge: EdgeId, key: &Key) -> Amount {
        let came = self.came.get(&(edge, key.clone()));
        came.copied().unwrap_or_default()
    }

    /// The reader begins again, or its rounds are over.
    pub(super) fn forget(&mut self, is_over: impl Fn(&Lane) -> bool) {
        self.came.retain(|lane, _| !is_over(lane));
        self.said.retain(|lane, _| !is_over(lane));
        self.waiting.retain(|lane| !is_over(lane));
    }
}

impl Job {
    /// What an activation's port lets its producers send, behind whatever control nodes they are.
    pub(super) fn grant_through(
        &mut self,
        passage: &Passage,
        (port, key): (PortIx, &Key),
        granted: Granted,
        cx: &mut Context<'_>,
    ) {
        let joint = match passage.zip {
            None => granted,
            Some(_) => self.joint(passage, port, key, granted),
        };
        for (number, lane) in passage.lanes.iter().enumerate() {
            let came = |edge: &EdgeId| self.credits.passing.came(*edge, key);
            let of_all = lane
                .sources
                .iter()
                .map(came)
                .fold(Amount::default(), Amount::plus);
            let room = joint.grant.passes.minus(of_all);
            let waits = passage
                .zip
                .is_some_and(|zip| self.resolver.waits(zip, PortIx(number as u32), key));
            for edge in &lane.sources {
                let passes = match lane.merged {
                    true => self.credits.passing.came(*edge, key).plus(room),
                    false => joint.grant.passes,
                };
                let at = (*edge, key.clone());
                match waits && joint.grant.holds {
                    true => self.credits.passing.waiting.insert(at),
                    false => self.credits.passing.waiting.remove(&at),
                };
                let holds = joint.grant.holds && !waits;
                let grant = Grant { passes, holds };
                self.tell_of(*edge, key.clone(), Granted { grant, ..granted }, cx);
            }
        }
    }

    /// What all ports of a zip's reader say together.
    fn joint(&mut self, passage: &Passage, port: PortIx, key: &Key, granted: Granted) -> Granted {
        let said = &mut self.credits.passing.said;
        let lanes = passage.ports.iter().zip(&passage.lanes);
        let first = |lane: &crate::passages::Lane| Some((*lane.sources.first()?, key.clone()));
        let own = lanes.clone().find(|(of, _)| **of == port);
        if let Some(at) = own.and_then(|(_, lane)| first(lane)) {
            said.insert(at, granted);
        }
        let nothing = Grant {
            passes: WINDOW,
            holds: false,
        };
        let grants = lanes.map(|(_, lane)| {
            let said = first(lane).and_then(|at| said.get(&at));
            said.filter(|said| said.epoch == granted.epoch)
                .map_or(nothing, |said| said.grant)
        });
        let furthest = |one: Grant, other: Grant| Grant {
            passes: Amount {
                frames: one.passes.frames.max(other.passes.frames),
                bytes: one.passes.bytes.max(other.passes.bytes),
            },
            // The one that is read furthest decides: the other one has as much unread for its sake.
            holds: match one.passes.frames.cmp(&other.passes.frames) {
                Ordering::Less => other.holds,
                Ordering::Equal => one.holds || other.holds,
                Ordering::Greater => one.holds,
            },
        };
        let grant = grants.reduce(furthest).unwrap_or(granted.grant);
        Granted { grant, ..granted }
    }

    /// Something has come to a control node at the side of its reader, for the first time.
    pub(crate) fn note_came(
        &mut self,
        edge: EdgeId,
        key: &Key,
        item: &Item<Bytes>,
        cx: &mut Context<'_>,
    ) {
        let flow = Arc::clone(&self.flow);
        let Some((passage, number)) = flow.wires.passes_through(edge) else {
            return;
        };
        if let (Item::Frame { payload, .. }, Some(producer)) = (item, flow.wires.producer(edge)) {
            let bytes = self.read_bytes(producer, payload) as u64;
            let came = self.credits.passing.came.entry((edge, key.clone()));
            let came = came.or_default();
            *came = came.plus(Amount { frames: 1, bytes });
        }
        if let Some(zip) = passage.zip {
            self.look_who_waits(passage, zip, (edge, number), key, cx);
        }
    }

    /// A stream that has come as far as it may and waits for another must not hold its producer up; one that waits no
    /// longer does again.
    fn look_who_waits(
        &mut self,
        passage: &Passage,
        zip: NodeId,
        (edge, number): (EdgeId, usize),
        key: &Key,
        cx: &mut Context<'_>,
    ) {
        let waiting = &self.credits.passing.waiting;
        let at = (edge, key.clone());
        if waiting.is_empty()
            && !self
                .credits
                .told
                .get(&at)
                .is_some_and(|told| told.granted.grant.holds)
        {
            return;
        }
        let came = self.credits.passing.came(edge, key);
        let holds =
            |told: &Told| told.granted.grant.holds && !told.granted.grant.passes.has_room(came);
        if self.credits.told.get(&at).is_some_and(holds)
            && self.resolver.waits(zip, PortIx(number as u32), key)
        {
            self.credits.passing.waiting.insert(at.clone());
            self.tell_whether_it_holds(at, false, cx);
        }
        let lanes = passage.lanes.iter().enumerate();
        let of_zip = lanes.flat_map(|(number, lane)| {
            let sources = lane.sources.iter();
            sources.map(move |edge| (PortIx(number as u32), (*edge, key.clone())))
        });
        for (number, at) in of_zip.collect::<Vec<_>>() {
            if self.credits.passing.waiting.contains(&at) && !self.resolver.waits(zip, number, key)
            {
                self.credits.passing.waiting.remove(&at);
                self.tell_whether_it_holds(at, true, cx);
            }
        }
    }

    fn tell_whether_it_holds(&mut self, (edge, key): Lane, holds: bool, cx: &mut Context<'_>) {
        if let Some(told) = self.credits.told.get(&(edge, key.clone())) {
            let mut granted = told.granted;
            granted.grant.holds = holds;
            self.tell_of(edge, key, granted, cx);
        }
    }
}
