//! `check_flow` and `FlowProblem`: validation from the crate `omniflow_flow`. `flow_version`: from `omniflow_hub`.

use omniflow_flow::{Problem, from_wire};
use omniflow_wire::v1;
use prost::Message;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;

/// Adds the class and the function of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<FlowProblem>()?;
    module.add_function(wrap_pyfunction!(check_flow, module)?)?;
    module.add_function(wrap_pyfunction!(flow_version, module)?)
}

/// One reason why a graph can never work.
#[pyclass(module = "omniflow_core._native", frozen, get_all)]
pub struct FlowProblem {
    code: &'static str,
    message: String,
    cure: String,
    node: Option<u32>,
    edge: Option<u32>,
}

impl From<Problem> for FlowProblem {
    fn from(problem: Problem) -> Self {
        Self {
            code: problem.code.as_str(),
            message: problem.message,
            cure: problem.cure,
            node: problem.node.map(|node| node.0),
            edge: problem.edge.map(|edge| edge.0),
        }
    }
}

#[pymethods]
impl FlowProblem {
    fn __repr__(&self) -> String {
        format!(
            "FlowProblem({}: {}; {})",
            self.code, self.message, self.cure
        )
    }
}

/// Problems of a serialized `omniflow.v1.Flow`, in node order; empty when it is valid.
#[pyfunction]
fn check_flow(py: Python<'_>, flow: &[u8]) -> PyResult<Vec<FlowProblem>> {
    let problems = py
        .detach(|| v1::Flow::decode(flow).map(|flow| from_wire::graph(&flow).err()))
        .map_err(|error| errors::wire("omniflow.v1.Flow", &error))?;
    let problems = problems.into_iter().flatten();
    Ok(problems.map(FlowProblem::from).collect())
}

/// The version of a serialized `omniflow.v1.Flow`: a hash of its content.
#[pyfunction]
fn flow_version<'py>(py: Python<'py>, flow: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let version = py.detach(|| omniflow_hub::flow_version(flow));
    Ok(PyBytes::new(py, &version.map_err(errors::hub)?))
}
