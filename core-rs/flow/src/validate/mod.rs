//! Finds every reason why a graph can never work.
//!
//! First whether all references hold and control nodes have their shapes (nothing else can be asked of a graph with broken
//! ones), then everything else at once, so that a user sees all problems of a flow in one go.

mod choices;
mod conditions;
mod names;
mod paths;
mod references;
mod scopes;
mod shapes;
mod types;

use crate::graph::Wiring;
use crate::ids::{EdgeId, NodeId};
use crate::layout::Layout;
use crate::problem::{Problem, ProblemCode};
use crate::spec::GraphSpec;

/// What validation learned about a graph without problems.
pub(crate) struct Checked {
    pub(crate) wiring: Wiring,
    pub(crate) layout: Layout,
    pub(crate) order: Vec<NodeId>,
}

/// Checks everything that can be checked without a cluster.
pub(crate) fn validate(spec: &GraphSpec) -> Result<Checked, Vec<Problem>> {
    let mut problems = references::check(spec);
    problems.extend(shapes::check(spec));
    if problems.is_empty() {
        let wiring = Wiring::new(spec);
        let layout = Layout::new(spec, &wiring);
        let order = paths::order(spec, &wiring);
        names::check(spec, &mut problems);
        types::check(spec, &mut problems);
        choices::check(spec, &wiring, &mut problems);
        scopes::check(spec, &wiring, &layout, &mut problems);
        scopes::check_loops(spec, &wiring, &mut problems);
        paths::check(spec, &wiring, &order, &mut problems);
        if problems.is_empty() {
            return Ok(Checked {
                wiring,
                layout,
                order: order.sorted,
            });
        }
    }
    // Problems of the flow itself last; a stable sort keeps the order of the checks within a node.
    problems.sort_by_key(|problem| (problem.node.is_none(), problem.node));
    Err(problems)
}

/// A problem in the making.
fn problem(code: ProblemCode, message: String, cure: impl Into<String>) -> Problem {
    Problem {
        code,
        message,
        cure: cure.into(),
        node: None,
        edge: None,
    }
}

impl Problem {
    fn at_node(self, node: usize) -> Self {
        Self {
            node: Some(NodeId(node as u32)),
            ..self
        }
    }

    fn at_edge(self, edge: EdgeId) -> Self {
        Self {
            edge: Some(edge),
            ..self
        }
    }
}
