//! The flows that clients may ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use omniflow_control::FlowId;
use omniflow_flow::{Graph, from_wire};
use omniflow_link::Message as LinkFrame;
use omniflow_wire::{LinkMessage, v1};
use prost::Message;

use crate::error::HubError;
use crate::feeds::Feeds;

/// One version of a flow.
pub(crate) struct FlowEntry {
    pub(crate) id: FlowId,
    pub(crate) flow: v1::Flow,
    pub(crate) graph: Arc<Graph>,
    pub(crate) feeds: Arc<Feeds>,
    pub(crate) serialized: Bytes,
    /// What each worker is sent before its first job of this flow.
    pub(crate) definition: LinkFrame,
}

impl FlowEntry {
    pub(crate) fn result_names(&self) -> Vec<String> {
        self.flow
            .results
            .iter()
            .map(|result| result.name.clone())
            .collect()
    }
}

/// Every version of every flow, and the newest of each name.
#[derive(Default)]
pub(crate) struct Flows {
    entries: Vec<FlowEntry>,
    versions: BTreeMap<(String, Bytes), FlowId>,
    newest: BTreeMap<String, FlowId>,
}

/// A flow that is not known yet, validated.
pub(crate) struct NewFlow {
    flow: v1::Flow,
    pub(crate) graph: Arc<Graph>,
}

impl NewFlow {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, HubError> {
        let mut flow = v1::Flow::decode(bytes).map_err(HubError::wire("Flow"))?;
        let graph = from_wire::graph(&flow);
        let graph = graph.map_err(|problems| HubError::FlowInvalid {
            name: flow.name.clone(),
            problems,
        })?;
        // Whatever the sender calls it: a version is its content.
        flow.version = content_hash(&flow);
        Ok(Self {
            flow,
            graph: Arc::new(graph),
        })
    }

    fn key(&self) -> (String, Bytes) {
        (self.flow.name.clone(), self.flow.version.clone())
    }

    pub(crate) fn version(&self) -> Bytes {
        self.flow.version.clone()
    }
}

impl Flows {
    /// Makes a known version the newest again. False when it is not known.
    pub(crate) fn renew(&mut self, new: &NewFlow) -> bool {
        let Some(id) = self.versions.get(&new.key()).copied() else {
            return false;
        };
        self.newest.insert(new.flow.name.clone(), id);
        true
    }

    pub(crate) fn add(&mut self, id: FlowId, new: NewFlow, term: u64) {
        self.versions.insert(new.key(), id);
        self.newest.insert(new.flow.name.clone(), id);
        let definition = v1::FlowDefinition {
            term,
            id: id.0,
            flow: Some(new.flow.clone()),
        };
        self.entries.push(FlowEntry {
            id,
            serialized: new.flow.encode_to_vec().into(),
            flow: new.flow,
            feeds: Arc::new(Feeds::new(&new.graph)),
            graph: new.graph,
            definition: link_frame(&definition.into(), 0),
        });
    }

    pub(crate) fn get(&self, id: FlowId) -> Option<&FlowEntry> {
        self.entries.get(id.0 as usize)
    }

    pub(crate) fn find(&self, name: &str, version: &Bytes) -> Option<&FlowEntry> {
        let id = if version.is_empty() {
            self.newest.get(name).copied()
        } else {
            self.versions
                .get(&(name.to_owned(), version.clone()))
                .copied()
        };
        id.and_then(|id| self.get(id))
    }

    /// Nobody finds the flow any more, in no version; jobs that have it keep its entry. False when it was not known.
    pub(crate) fn drop_name(&mut self, name: &str) -> bool {
        self.versions.retain(|(known, _), _| known != name);
        self.newest.remove(name).is_some()
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.newest.keys().map(String::as_str).collect()
    }

    pub(crate) fn serialized(&self) -> Vec<Bytes> {
        self.newest
            .values()
            .filter_map(|id| self.get(*id))
            .map(|entry| entry.serialized.clone())
            .collect()
    }
}

/// A link message ready to send.
pub(crate) fn link_frame(message: &LinkMessage, stream: u32) -> LinkFrame {
    let (kind, head, body) = message.encode();
    LinkFrame {
        kind,
        stream,
        head,
        body,
    }
}

/// The version of a serialized `Flow`: a hash of everything but the version itself, the docs and the places in the user's
/// source. The only place where versions are made.
pub fn flow_version(flow: &[u8]) -> Result<Bytes, HubError> {
    let flow = v1::Flow::decode(flow).map_err(HubError::wire("Flow"))?;
    Ok(content_hash(&flow))
}

fn content_hash(flow: &v1::Flow) -> Bytes {
    let mut bare = flow.clone();
    bare.version = Bytes::new();
    bare.doc = String::new();
    bare.source = None;
    for node in &mut bare.nodes {
        node.source = None;
    }
    Bytes::copy_from_slice(blake3::hash(&bare.encode_to_vec()).as_bytes())
}
