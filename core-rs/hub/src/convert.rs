//! Between the job table's words and those of the wire.

use omniflow_control::{Attempt, Code, Fault, Job, JobId, NodeState};
use omniflow_flow::{Graph, Key, NodeId};
use omniflow_wire::v1;

use crate::traffic;

/// A job's number as clients see it.
pub fn job_name(job: JobId) -> String {
    format!("{:016x}", job.0)
}

/// The number of a job as clients name it.
pub fn job_id(name: &str) -> Option<JobId> {
    let hexadecimal = name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(name, 16)
        .ok()
        .filter(|_| hexadecimal)
        .map(JobId)
}

pub(crate) fn error(fault: &Fault) -> v1::Error {
    v1::Error {
        code: fault.code as i32,
        message: fault.message.clone(),
        field: fault.field.clone(),
        node: fault.node.clone(),
        worker: fault.worker.clone(),
        cause: fault.cause.clone(),
        cure: fault.cure.clone(),
        retry_after_ms: fault.retry_after_ms,
    }
}

pub(crate) fn fault(error: v1::Error) -> Fault {
    Fault {
        code: Code::from_number(error.code),
        message: error.message,
        field: error.field,
        node: error.node,
        worker: error.worker,
        cause: error.cause,
        cure: error.cure,
        retry_after_ms: error.retry_after_ms,
    }
}

/// Why a control node here fails its job, with its line in the user's file.
pub(crate) fn flow_fault(
    graph: &Graph,
    node: NodeId,
    key: &Key,
    fault: &omniflow_flow::Fault,
) -> Fault {
    use omniflow_flow::Fault as Why;
    let (code, cure) = match fault {
        Why::LoopLimit { .. } => (
            Code::LoopLimit,
            "raise max_rounds in the flow, or see why `until` never became true",
        ),
        Why::BadRoute { .. } => (
            Code::BadRoute,
            "let the method choose one of these branches, or add a branch of that name to the flow",
        ),
        Why::BadValue { .. } => (
            Code::BadOutput,
            "let the method that makes the value return what the flow says",
        ),
    };
    let spec = graph.node(node);
    let line = spec.and_then(|spec| spec.source.as_ref());
    let line = line.map_or_else(String::new, |at| {
        format!(" ({}:{}, in `{}`)", at.file, at.line, at.function)
    });
    let at = match key.is_root() {
        true => String::new(),
        false => format!(" for key {key}"),
    };
    let name = spec.map_or("", |spec| &spec.name);
    Fault::new(code, format!("{fault}{at}{line}"), cure).at(name, "")
}

pub(crate) fn wire_state(state: NodeState) -> v1::node_progress::State {
    use v1::node_progress::State;
    match state {
        NodeState::Bound => State::Unspecified,
        NodeState::Queued => State::Queued,
        NodeState::Started => State::Started,
        NodeState::FirstFrame => State::FirstFrame,
        NodeState::Done => State::Done,
        NodeState::Failed => State::Failed,
        NodeState::Lost => State::Lost,
        NodeState::Stopped => State::Stopped,
    }
}

pub(crate) fn node_state(state: i32) -> Option<NodeState> {
    use v1::node_progress::State;
    match State::try_from(state).ok()? {
        State::Unspecified => None,
        State::Queued => Some(NodeState::Queued),
        State::Started => Some(NodeState::Started),
        State::FirstFrame => Some(NodeState::FirstFrame),
        State::Done => Some(NodeState::Done),
        State::Failed => Some(NodeState::Failed),
        State::Lost => Some(NodeState::Lost),
        State::Stopped => Some(NodeState::Stopped),
    }
}

fn node_name(graph: &Graph, node: u32) -> String {
    graph
        .nodes()
        .get(node as usize)
        .map_or_else(String::new, |node| node.name.clone())
}

pub(crate) fn report(job: &Job, graph: &Graph) -> v1::Report {
    let activations = job.attempts.iter().map(|attempt| v1::ActivationReport {
        node: node_name(graph, attempt.node),
        key: attempt.key.path().to_vec(),
        worker: attempt.worker_name.to_string(),
        attempt: attempt.epoch,
        queued_us: attempt.queued_us,
        started_us: attempt.started_us,
        first_frame_us: attempt.first_frame_us,
        ended_us: attempt.ended_us,
        state: wire_state(attempt.state).into(),
        features: attempt.features.iter().cloned().collect(),
        outputs: traffic::outputs(attempt, graph),
        inputs: traffic::inputs(attempt, graph),
    });
    v1::Report {
        jct_us: job.jct_us(),
        first_frame_us: job.first_frame.map_or(0, |first| first.since(job.arrived)),
        activations: activations.collect(),
        arrived_unix_us: job.arrived.0,
    }
}

/// One step of an attempt, as told to those who asked for progress.
pub(crate) fn progress(attempt: &Attempt, state: NodeState, graph: &Graph) -> v1::NodeProgress {
    let done = state == NodeState::Done;
    v1::NodeProgress {
        node: node_name(graph, attempt.node),
        key: attempt.key.path().to_vec(),
        worker: attempt.worker_name.to_string(),
        attempt: attempt.epoch,
        state: wire_state(state).into(),
        at_us: match state {
            NodeState::Bound => attempt.bound_us,
            NodeState::Queued => attempt.queued_us,
            NodeState::Started => attempt.started_us,
            NodeState::FirstFrame => attempt.first_frame_us,
            NodeState::Done | NodeState::Failed | NodeState::Lost | NodeState::Stopped => {
                attempt.ended_us
            }
        },
        features: if done {
            attempt.features.iter().cloned().collect()
        } else {
            Default::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_control_are_those_of_the_wire() {
        for code in Code::ALL {
            let wire = v1::ErrorCode::try_from(*code as i32).unwrap();
            let name = wire.as_str_name().replace('_', "");
            assert_eq!(format!("{code:?}").to_uppercase(), name);
        }
    }

    #[test]
    fn job_names_survive_text() {
        for job in [JobId(0), JobId(7 << 32 | 5), JobId(u64::MAX)] {
            assert_eq!(job_id(&job_name(job)), Some(job));
        }
        for wrong in [
            "",
            "5",
            "+000000000000005",
            "zzzzzzzzzzzzzzzz",
            "00000000000000001",
        ] {
            assert_eq!(job_id(wrong), None);
        }
    }
}
