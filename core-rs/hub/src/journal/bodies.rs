//! What records say. Numbers of fields are in files, and stay.

use std::collections::BTreeMap;

use bytes::Bytes;
use omniflow_wire::v1;
use prost::Message;

/// A life of the scheduler begins.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Opened {
    /// 1 for the first.
    #[prost(uint32, tag = "1")]
    pub(crate) life: u32,
    /// Drawn at random, so that no two lives are taken for each other.
    #[prost(fixed64, tag = "2")]
    pub(crate) mark: u64,
}

/// A job is accepted. Times are microseconds since 1970.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct JobSpec {
    #[prost(uint64, tag = "1")]
    pub(crate) job: u64,
    #[prost(string, tag = "2")]
    pub(crate) flow: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) flow_version: Bytes,
    #[prost(string, tag = "4")]
    pub(crate) tenant: String,
    #[prost(sint32, tag = "5")]
    pub(crate) priority: i32,
    #[prost(string, tag = "6")]
    pub(crate) idempotency_key: String,
    #[prost(bool, tag = "7")]
    pub(crate) detach: bool,
    #[prost(uint64, tag = "8")]
    pub(crate) arrived_us: u64,
    #[prost(uint64, tag = "9")]
    pub(crate) deadline_us: u64,
    #[prost(uint64, tag = "10")]
    pub(crate) arrival: u64,
    #[prost(double, tag = "11")]
    pub(crate) order: f64,
    #[prost(fixed64, tag = "12")]
    pub(crate) fingerprint: u64,
    #[prost(message, repeated, tag = "13")]
    pub(crate) inputs: Vec<v1::Input>,
    #[prost(btree_map = "string, message", tag = "14")]
    pub(crate) parameters: BTreeMap<String, v1::Value>,
}

/// So many frames of a result, of this content, may be with a client.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Delivered {
    #[prost(uint64, tag = "1")]
    pub(crate) job: u64,
    #[prost(uint32, tag = "2")]
    pub(crate) port: u32,
    #[prost(uint64, tag = "3")]
    pub(crate) frames: u64,
    #[prost(fixed64, tag = "4")]
    pub(crate) digest: u64,
}

/// A job has ended, with these results that its client may not have yet.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Ended {
    #[prost(uint64, tag = "1")]
    pub(crate) job: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) at_us: u64,
    #[prost(message, optional, tag = "3")]
    pub(crate) error: Option<v1::Error>,
    #[prost(message, optional, tag = "4")]
    pub(crate) report: Option<v1::Report>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) results: Vec<KeptResult>,
    /// Since the arrival; 0: no frame came.
    #[prost(uint64, tag = "6")]
    pub(crate) last_result_us: u64,
}

/// What is kept of one result.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeptResult {
    /// Frames before these were acknowledged.
    #[prost(uint64, tag = "1")]
    pub(crate) base: u64,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) frames: Vec<Bytes>,
    #[prost(enumeration = "v1::Mark", tag = "3")]
    pub(crate) mark: i32,
    #[prost(uint64, tag = "4")]
    pub(crate) count: u64,
}

/// An ended job's record is needed no longer.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Forgotten {
    #[prost(uint64, tag = "1")]
    pub(crate) job: u64,
}

/// A worker's link is up, or it is dead: its successor waits for those that were up (rule 14).
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WorkerKnown {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) incarnation: String,
    #[prost(bool, tag = "3")]
    pub(crate) up: bool,
}
