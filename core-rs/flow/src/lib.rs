//! The dataflow graph, its validation and the resolver: pure state machines without clock or I/O.
//!
//! - [`GraphSpec`] is a flow as the DSL wrote it; [`Graph::new`] validates it or returns every [`Problem`].
//! - [`Resolver`] runs one job at one place: arrivals in, [`Effect`]s out. See its methods for the contract.
//! - The conversion from `omniflow.v1.Flow` is `from_wire::graph`, behind the cargo feature `wire`, so that there is
//!   one of it and that those who only simulate need no protobuf:
//!   `omniflow-flow = { workspace = true, features = ["wire"] }`.

mod credits;
mod effect;
mod error;
mod graph;
mod ids;
mod item;
mod key;
mod layout;
mod payload;
mod problem;
mod resolver;
mod spec;
mod validate;
mod value_type;

#[cfg(feature = "wire")]
pub mod from_wire;

pub use credits::{Amount, Grant, Meter};
pub use effect::{ActivationInput, Arrival, Effect, Fault, InputValue};
pub use error::ResolverError;
pub use graph::Graph;
pub use ids::{EdgeId, NodeId, PortIx, ScopeId};
pub use item::Item;
pub use key::Key;
pub use layout::{Home, Reader};
pub use payload::Payload;
pub use problem::{Problem, ProblemCode};
pub use resolver::{Delivered, Footprint, Parked, Resolver};
pub use spec::{
    Destination, EdgeSpec, GraphSpec, NodeKind, NodeOptions, NodeSpec, Origin, PortSpec, ScopeSpec,
    SourcePlace,
};
pub use value_type::{ValueKind, ValueType};
