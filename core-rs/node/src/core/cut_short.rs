//! What a reader did not want to its end: it was sent no further, so that what is kept of it has none (rule 11).
//!
//! A new attempt of that reader may read on. It is given what other readers of the same port were sent, when there are any;
//! else whoever sent it was stopped and has to run again, which is for the scheduler to decide.

use omniflow_flow::{EdgeId, Key, Reader};
use omniflow_wire::v1;
use rustc_hash::FxHashSet;

use crate::core::binds::NewPlace;
use crate::core::job::{Context, Job};
use crate::core::outputs::Target;
use crate::core::peers::SELF;
use crate::core::retention::Kept;

/// By edge and key.
#[derive(Debug, Default)]
pub(crate) struct CutShort(FxHashSet<(EdgeId, Key)>);

impl CutShort {
    /// The keys of an edge that were.
    pub(crate) fn keys(&self, edge: EdgeId) -> impl Iterator<Item = &Key> {
        let of_edge = self.0.iter().filter(move |(of, _)| *of == edge);
        of_edge.map(|(_, key)| key)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// It is sent anew.
    pub(crate) fn forget(&mut self, edge: EdgeId, key: &Key) {
        self.0.remove(&(edge, key.clone()));
    }

    /// Their scope has ended.
    pub(crate) fn forget_inside(&mut self, edges: &[EdgeId], outer: &Key) {
        self.0
            .retain(|(edge, key)| !(key.extends(outer) && edges.contains(edge)));
    }

    /// A loop at this key has begun a round.
    pub(crate) fn drop_rounds_before(&mut self, edges: &[EdgeId], outer: &Key, round: u32) {
        self.0.retain(|(edge, key)| {
            let of = key.path().get(outer.depth());
            let over = of.is_some_and(|of| *of < round);
            !(over && key.extends(outer) && edges.contains(edge))
        });
    }
}

impl Job {
    /// The reader of something that is sent from here wants no more of it, which may be all of it.
    pub(crate) fn note_cut(&mut self, edge: EdgeId, key: &Key) {
        let whole = self.sent.extent(edge, key, self.is_stream(edge)).1;
        let read_by_one = matches!(self.flow.graph.reader(edge, key), Some(Reader::One(..)));
        if !whole
            && read_by_one
            && !self.flow.wires.is_internal(edge)
            && !self.sent.is_gone(edge, key)
            && !self.is_left(edge, key)
        {
            self.cut.0.insert((edge, key.clone()));
        }
    }

    /// A new attempt of a reader is to have what the one before did not want.
    pub(crate) fn read_on(&mut self, bind: &NewPlace, cx: &mut Context<'_>) {
        let flow = std::sync::Arc::clone(&self.flow);
        let for_it = |(edge, key): &&(EdgeId, Key)| match flow.graph.reader(*edge, key) {
            Some(Reader::One(node, at)) => node == bind.node && at == bind.key,
            _ => false,
        };
        let cut: Vec<_> = self.cut.0.iter().filter(for_it).cloned().collect();
        for (edge, key) in cut {
            self.cut.forget(edge, &key);
            // What its producer sends from elsewhere is elsewhere.
            let here = self.producers_place(edge, &key) == Some(Target::Peer(SELF));
            if here && !self.go_on_sending(edge, &key, cx) {
                let message = format!(
                    "edge {}: an earlier attempt did not read it to its end, and whoever sent it was stopped then",
                    flow.edge_name(edge)
                );
                return self.refuse(bind, v1::ErrorCode::NotReplayable, message, cx);
            }
        }
    }

    /// Whether all of it is there again, or will come.
    fn go_on_sending(&mut self, edge: EdgeId, key: &Key, cx: &mut Context<'_>) -> bool {
        let stream = self.is_stream(edge);
        let (kept, _) = self.sent.extent(edge, key, stream);
        let sending = self.resolver.wanted_again(edge, key);
        if sending == Some((kept as u64, false)) {
            return true;
        }
        let enough = |frames: usize, whole: bool| match sending {
            Some((sent, false)) => frames as u64 == sent,
            Some((_, true)) | None => whole,
        };
        let found = self.flow.wires.beside(edge).iter().find_map(|other| {
            let (frames, whole) = self.sent.extent(*other, key, stream);
            let behind = self.sent.behind(*other, key, kept)?;
            let load = |stored: &crate::core::stored::Stored| stored.load(&cx.site.keeping.spill);
            enough(frames, whole).then(|| behind.map(load).collect::<Result<Vec<Kept>, _>>())
        });
        match found {
            None => false,
            Some(Err(error)) => {
                self.unreadable(edge, key, &error, cx);
                true
            }
            Some(Ok(items)) => {
                for kept in items {
                    if let Err(stall) = self.keep(edge, key, &kept, cx) {
                        self.stall(edge, key, kept.epoch, &stall, cx);
                        return true;
                    }
                }
                true
            }
        }
    }

    fn is_stream(&self, edge: EdgeId) -> bool {
        let spec = self.flow.graph.edge(edge);
        spec.is_some_and(|spec| spec.value_type.stream)
    }
}
