//! What leader and standby say over their link. Records travel as they lie in files, so these messages belong to them and not
//! to the contract of workers; their kinds are others than those of workers' links, so that neither takes the other for one.

use bytes::Bytes;
use omniflow_link::Message;

/// What both sides have to speak.
pub(crate) const PROTOCOL: u32 = 1;

/// Standby: whose journal it has, and how far it reaches.
pub(crate) const FOLLOW: u8 = 101;
/// Leader: where the standby has to go on, or why it may not.
pub(crate) const BEGIN: u8 = 102;
/// Leader: a piece of a snapshot file.
pub(crate) const SNAPSHOT: u8 = 103;
/// Leader: a piece of the records that follow.
pub(crate) const RECORDS: u8 = 104;
/// Standby: what it has written.
pub(crate) const ACK: u8 = 105;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Run {
    #[prost(uint64, tag = "1")]
    pub(crate) term: u64,
    #[prost(fixed64, tag = "2")]
    pub(crate) mark: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) first: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Follow {
    #[prost(uint32, tag = "1")]
    pub(crate) protocol: u32,
    #[prost(string, tag = "2")]
    pub(crate) cluster: String,
    /// The standby's name, for people.
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    /// Which journal: what etcd knows it by.
    #[prost(string, tag = "4")]
    pub(crate) journal: String,
    /// The leader that it means to follow.
    #[prost(uint64, tag = "5")]
    pub(crate) term: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) base: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) last: u64,
    #[prost(message, repeated, tag = "8")]
    pub(crate) runs: Vec<Run>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Begin {
    /// Set: why it may not follow; nothing comes.
    #[prost(string, tag = "1")]
    pub(crate) refusal: String,
    /// Everything after this record is to be cut off.
    #[prost(uint64, tag = "2")]
    pub(crate) keep: u64,
    /// The last record that the snapshot covers, which comes next; 0: none comes.
    #[prost(uint64, tag = "3")]
    pub(crate) snapshot: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) snapshot_bytes: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Ack {
    /// The last record that is in the standby's journal.
    #[prost(uint64, tag = "1")]
    pub(crate) last: u64,
    /// Bytes of pieces that have come on this link: how the leader knows when there is room for more.
    #[prost(uint64, tag = "2")]
    pub(crate) bytes: u64,
}

/// A message of the link, which has one stream.
pub(crate) fn message(kind: u8, body: &impl prost::Message) -> Message {
    piece(kind, body.encode_to_vec().into())
}

/// One whose body is bytes of a file.
pub(crate) fn piece(kind: u8, body: Bytes) -> Message {
    Message {
        kind,
        stream: 1,
        head: Bytes::new(),
        body,
    }
}

/// The message in a body.
pub(crate) fn parse<M: prost::Message + Default>(
    what: &'static str,
    body: Bytes,
) -> Result<M, String> {
    M::decode(body).map_err(|error| format!("malformed {what}: {error}"))
}

impl From<crate::journal::Run> for Run {
    fn from(run: crate::journal::Run) -> Self {
        Self {
            term: run.term,
            mark: run.mark,
            first: run.first,
        }
    }
}

impl From<Run> for crate::journal::Run {
    fn from(run: Run) -> Self {
        Self {
            term: run.term,
            mark: run.mark,
            first: run.first,
        }
    }
}
