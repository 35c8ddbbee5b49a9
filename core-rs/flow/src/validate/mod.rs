//! Finds every reason why a graph can never work.

use crate::graph::Wiring;
use crate::ids::NodeId;
use crate::problem::Problem;
use crate::spec::GraphSpec;

/// What validation learned about a graph without problems.
pub(crate) struct Checked {
    pub(crate) wiring: Wiring,
    pub(crate) order: Vec<NodeId>,
}

/// Checks everything that can be checked without a cluster.
pub(crate) fn validate(_spec: &GraphSpec) -> Result<Checked, Vec<Problem>> {
    Ok(Checked {
        wiring: Wiring::default(),
        order: Vec::new(),
    })
}
