//! From `omniflow.v1.Flow` to a graph: the one conversion for all who run flows.

use omniflow_wire::v1;

use crate::graph::Graph;
use crate::problem::Problem;

/// Converts and validates. The problems are those of `Graph::new`, plus `broken-reference` for what cannot be converted
/// at all (an end without a place, a port without a type).
pub fn graph(flow: &v1::Flow) -> Result<Graph, Vec<Problem>> {
    let _ = flow;
    unimplemented!()
}
