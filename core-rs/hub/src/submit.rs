//! Whether a request fits its flow. What does not is refused here, naming the field, before anything is started.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use bytes::Bytes;
use omniflow_control::{Code, Fault, FlowId, key};
use omniflow_flow::{Graph, NodeKind, PortSpec};
use omniflow_wire::v1;
use prost::Message;
use rustc_hash::FxHasher;

use crate::flows::{FlowEntry, Flows};
use crate::job_data::{InputData, keep};
use crate::nearest::nearest;
use crate::value_check::{kind_name, kind_of, kind_of_port, kind_of_value};
use crate::workers::Workers;

type Checked<T> = Result<T, Box<Fault>>;

/// A request that fits its flow.
pub(crate) struct Prepared {
    pub(crate) flow: FlowId,
    pub(crate) inputs: Vec<InputData>,
    pub(crate) parameters: BTreeMap<String, v1::Value>,
}

impl Prepared {
    pub(crate) fn input_bytes(&self) -> usize {
        self.inputs.iter().map(InputData::bytes).sum()
    }
}

/// Of what a request asks for; the same request sent again has the same.
pub(crate) fn fingerprint(request: &v1::SubmitRequest) -> u64 {
    let mut hasher = FxHasher::default();
    (&request.flow, &request.flow_version).hash(&mut hasher);
    for input in &request.inputs {
        (&input.name, &input.frames).hash(&mut hasher);
    }
    for (name, value) in &request.parameters {
        (name, value.encode_to_vec()).hash(&mut hasher);
    }
    hasher.finish()
}

pub(crate) fn prepare(
    request: &mut v1::SubmitRequest,
    flows: &Flows,
    workers: &Workers,
    max_input_bytes: usize,
) -> Checked<Prepared> {
    let entry = find_flow(request, flows)?;
    check_size(&request.inputs, max_input_bytes)?;
    let inputs = take_inputs(std::mem::take(&mut request.inputs), &entry.graph)?;
    let parameters = std::mem::take(&mut request.parameters);
    for (name, value) in &parameters {
        check_parameter(name, value, entry, workers)?;
    }
    Ok(Prepared {
        flow: entry.id,
        inputs,
        parameters,
    })
}

fn known<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

fn find_flow<'a>(request: &v1::SubmitRequest, flows: &'a Flows) -> Checked<&'a FlowEntry> {
    if let Some(entry) = flows.find(&request.flow, &request.flow_version) {
        return Ok(entry);
    }
    let fault = if flows.find(&request.flow, &Bytes::new()).is_some() {
        let cure = "register that version again, or leave flow_version empty for the newest one";
        let message = format!(
            "flow {:?} is registered, but not in the version asked for",
            request.flow
        );
        Fault::new(Code::UnknownFlow, message, cure).field("flow_version")
    } else {
        let names = known(flows.names().into_iter());
        let message = format!(
            "no flow is called {:?}; registered are: {names}",
            request.flow
        );
        let hint = nearest(&request.flow, flows.names().into_iter());
        let hint = hint.map_or_else(String::new, |name| format!("did you mean {name:?}? "));
        let cure = format!("{hint}register the flow first, or correct its name");
        Fault::new(Code::UnknownFlow, message, cure).field("flow")
    };
    Err(fault.into())
}

fn check_size(inputs: &[v1::Input], limit: usize) -> Checked<()> {
    let sizes = inputs.iter().map(|input| {
        (
            input.frames.iter().map(Bytes::len).sum::<usize>(),
            &input.name,
        )
    });
    let (mut total, mut largest) = (0, (0, ""));
    for (size, name) in sizes {
        total += size;
        largest = largest.max((size, name));
    }
    if total <= limit {
        return Ok(());
    }
    let message = format!(
        "the job's inputs have {total} bytes, and the cluster takes {limit}; the largest is {:?}",
        largest.1
    );
    let cure = format!(
        "send less, e.g. a smaller picture, or raise {}",
        key("max_input_bytes")
    );
    Err(Fault::new(Code::TooLarge, message, cure)
        .field(format!("inputs.{}", largest.1))
        .into())
}

fn take_inputs(inputs: Vec<v1::Input>, graph: &Graph) -> Checked<Vec<InputData>> {
    let ports = graph.inputs();
    let mut given: Vec<Option<Vec<Bytes>>> = vec![None; ports.len()];
    for input in inputs {
        let field = format!("inputs.{}", input.name);
        let Some(index) = ports.iter().position(|port| port.name == input.name) else {
            let names = known(ports.iter().map(|port| port.name.as_str()));
            let message = format!("the flow has no input {:?}; it has: {names}", input.name);
            return Err(Fault::invalid(field, message, "name one of them").into());
        };
        if given[index].replace(input.frames).is_some() {
            let message = format!("input {:?} is given twice", input.name);
            return Err(Fault::invalid(
                field,
                message,
                "give each input once, with all its frames",
            )
            .into());
        }
    }
    ports
        .iter()
        .zip(given)
        .map(|(port, frames)| take_input(port, frames))
        .collect()
}

fn take_input(port: &PortSpec, frames: Option<Vec<Bytes>>) -> Checked<InputData> {
    let (field, of) = (|| format!("inputs.{}", port.name), &port.value_type);
    let kind = kind_name(kind_of_port(&of.kind));
    let frames = match frames {
        Some(frames) if of.stream || !frames.is_empty() => frames,
        _ if of.optional => return Ok(InputData::Closed),
        _ => {
            let message = format!("input {:?} is missing", port.name);
            return Err(Fault::invalid(
                field(),
                message,
                format!("give it a value of kind {kind}"),
            )
            .into());
        }
    };
    for (index, frame) in frames.iter().enumerate() {
        check_frame(port, index, frame, &kind)?;
    }
    if of.stream {
        return Ok(InputData::Stream(frames.into_iter().map(keep).collect()));
    }
    match <[Bytes; 1]>::try_from(frames) {
        Ok([frame]) => Ok(InputData::Plain(keep(frame))),
        Err(frames) => {
            let message = format!(
                "input {:?} takes one value, and {} were given",
                port.name,
                frames.len()
            );
            Err(Fault::invalid(
                field(),
                message,
                "give one; only an input of type Stream takes several",
            )
            .into())
        }
    }
}

fn check_frame(port: &PortSpec, index: usize, frame: &Bytes, kind: &str) -> Checked<()> {
    let field = || format!("inputs.{}", port.name);
    let name = &port.name;
    match kind_of(frame) {
        Ok(found) if found == kind_of_port(&port.value_type.kind) => Ok(()),
        Ok(found) => {
            let message = format!(
                "input {name:?} takes {kind}, and frame {index} of it is {}",
                kind_name(found)
            );
            Err(Fault::invalid(field(), message, format!("give a value of kind {kind}")).into())
        }
        Err(problem) => {
            let message = format!("frame {index} of input {name:?} does not parse: {problem}");
            let cure = format!("send a serialized omniflow.v1.Value of kind {kind}");
            Err(Fault::invalid(field(), message, cure).into())
        }
    }
}

fn check_parameter(
    name: &str,
    value: &v1::Value,
    entry: &FlowEntry,
    workers: &Workers,
) -> Checked<()> {
    let field = || format!("parameters.{name}");
    let invalid =
        |message: String, cure: String| Err(Fault::invalid(field(), message, cure).into());
    let nodes = || known(entry.graph.nodes().iter().map(|node| node.name.as_str()));
    // A node's name has dots itself.
    let found = name.rsplit_once('.').and_then(|(node, parameter)| {
        let index = entry
            .graph
            .nodes()
            .iter()
            .position(|spec| spec.name == node)?;
        Some((index, parameter))
    });
    let Some((index, parameter)) = found else {
        let message = format!(
            "{name:?} names no node of the flow; its nodes are: {}",
            nodes()
        );
        return invalid(
            message,
            "write node.parameter, e.g. llm.chat.temperature".to_owned(),
        );
    };
    let NodeKind::Role { role, method } = &entry.graph.nodes()[index].kind else {
        return Ok(());
    };
    let declared = workers.methods.get(&(role.clone(), method.clone()));
    let expected = declared.and_then(|method| {
        method
            .parameters
            .iter()
            .find(|known| known.name == parameter)
    });
    let constants = entry.flow.nodes.get(index).map(|node| &node.parameters);
    // A role that nobody ever registered is refused as such by the job table.
    if expected.is_none()
        && declared.is_some()
        && !constants.is_some_and(|known| known.contains_key(parameter))
    {
        let names = known(
            declared
                .iter()
                .flat_map(|method| method.parameters.iter().map(|known| known.name.as_str())),
        );
        let message = format!("{role}.{method} has no parameter {parameter:?}; it has: {names}");
        return invalid(message, "name one of them".to_owned());
    }
    let wanted = expected
        .and_then(|expected| expected.r#type.as_ref())
        .map(v1::Type::kind);
    let given = kind_of_value(value);
    let fits = match wanted {
        None | Some(v1::Kind::Unspecified) => given != v1::Kind::Unspecified,
        // Whole numbers are real numbers.
        Some(v1::Kind::Real) => matches!(given, v1::Kind::Real | v1::Kind::Integer),
        Some(wanted) => given == wanted,
    };
    if fits {
        return Ok(());
    }
    let wanted = in_words(wanted);
    let message = format!(
        "parameter {name:?} takes {wanted}, and {} was given",
        kind_name(given)
    );
    invalid(message, format!("give {wanted}"))
}

/// What one would type for a parameter of the kind.
fn in_words(kind: Option<v1::Kind>) -> String {
    match kind {
        Some(v1::Kind::Real) => "a number such as 0.2".to_owned(),
        Some(v1::Kind::Integer) => "a whole number such as 3".to_owned(),
        Some(v1::Kind::Boolean) => "true or false".to_owned(),
        Some(v1::Kind::List) => "a list such as [\"a\", \"b\"]".to_owned(),
        Some(kind) => kind_name(kind),
        None => "a value".to_owned(),
    }
}
