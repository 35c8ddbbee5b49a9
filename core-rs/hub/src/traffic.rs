//! What went over the ports of attempts: from workers' events to the job table, and from there into reports.

use omniflow_control::{Attempt, Micros, PortTraffic, Traffic};
use omniflow_flow::{Graph, NodeId, PortSpec};
use omniflow_wire::v1;

/// Of an event that happened `at`; none where it says nothing of it.
pub(crate) fn of_event(
    outputs: Vec<v1::PortCount>,
    inputs: Vec<v1::PortCount>,
    at: Micros,
) -> Option<Box<Traffic>> {
    if outputs.is_empty() && inputs.is_empty() {
        return None;
    }
    let before = |us: u64| Micros(at.0.saturating_sub(us));
    let of_port = |count: v1::PortCount| PortTraffic {
        port: count.port,
        frames: count.frames,
        bytes: count.bytes,
        first: before(count.first_before_us),
        last: before(count.last_before_us),
        sampled: count.sampled_before_us.into_iter().map(before).collect(),
    };
    Some(Box::new(Traffic {
        outputs: outputs.into_iter().map(of_port).collect(),
        inputs: inputs.into_iter().map(of_port).collect(),
    }))
}

/// For the report.
pub(crate) fn outputs(attempt: &Attempt, graph: &Graph) -> Vec<v1::PortTraffic> {
    let spec = graph.node(NodeId(attempt.node));
    let ports = spec.map_or(&[][..], |spec| &spec.outputs);
    let traffic = attempt.traffic.iter().flat_map(|traffic| &traffic.outputs);
    traffic.map(|port| to_wire(port, ports)).collect()
}

/// For the report.
pub(crate) fn inputs(attempt: &Attempt, graph: &Graph) -> Vec<v1::PortTraffic> {
    let spec = graph.node(NodeId(attempt.node));
    let ports = spec.map_or(&[][..], |spec| &spec.inputs);
    let traffic = attempt.traffic.iter().flat_map(|traffic| &traffic.inputs);
    traffic.map(|port| to_wire(port, ports)).collect()
}

/// Back from a report of an earlier life.
pub(crate) fn restored(
    report: &v1::ActivationReport,
    graph: &Graph,
    node: u32,
) -> Option<Box<Traffic>> {
    if report.outputs.is_empty() && report.inputs.is_empty() {
        return None;
    }
    let spec = graph.node(NodeId(node))?;
    let back = |traffic: &[v1::PortTraffic], ports: &[PortSpec]| {
        traffic.iter().map(|port| from_wire(port, ports)).collect()
    };
    Some(Box::new(Traffic {
        outputs: back(&report.outputs, &spec.outputs),
        inputs: back(&report.inputs, &spec.inputs),
    }))
}

fn to_wire(port: &PortTraffic, ports: &[PortSpec]) -> v1::PortTraffic {
    v1::PortTraffic {
        port: ports
            .get(port.port as usize)
            .map_or_else(String::new, |spec| spec.name.clone()),
        frames: port.frames,
        bytes: port.bytes,
        first_us: port.first.0,
        last_us: port.last.0,
        sampled_us: port.sampled.iter().map(|at| at.0).collect(),
    }
}

fn from_wire(port: &v1::PortTraffic, ports: &[PortSpec]) -> PortTraffic {
    let index = ports.iter().position(|spec| spec.name == port.port);
    PortTraffic {
        port: index.unwrap_or_default() as u32,
        frames: port.frames,
        bytes: port.bytes,
        first: Micros(port.first_us),
        last: Micros(port.last_us),
        sampled: port.sampled_us.iter().copied().map(Micros).collect(),
    }
}
