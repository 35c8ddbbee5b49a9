//! Flows with control nodes, by hand.

use std::collections::BTreeMap;

use omniflow_node::{ActivationHandle, NodeError};
use omniflow_wire::v1;
use omniflow_wire::v1::node::Control;

use super::{read_list, read_text, text, truth};

pub fn text_type() -> v1::Type {
    of(v1::Kind::Text)
}

pub fn truth_type() -> v1::Type {
    of(v1::Kind::Boolean)
}

fn of(kind: v1::Kind) -> v1::Type {
    v1::Type {
        kind: kind.into(),
        ..Default::default()
    }
}

pub fn list() -> v1::Type {
    v1::Type {
        item: Some(Box::new(text_type())),
        ..of(v1::Kind::List)
    }
}

pub fn stream(of: v1::Type) -> v1::Type {
    v1::Type { stream: true, ..of }
}

fn optional(of: v1::Type) -> v1::Type {
    v1::Type {
        optional: true,
        ..of
    }
}

/// Builds a flow call by call, as the DSL does.
pub struct Builder(v1::Flow);

pub fn out(node: u32, port: u32) -> v1::End {
    v1::End {
        place: v1::end::Place::Node.into(),
        node,
        port,
    }
}

fn port(name: String, of: v1::Type) -> v1::Port {
    v1::Port {
        parameter: name.clone(),
        name,
        r#type: Some(of),
        gate: false,
    }
}

impl Builder {
    pub fn new(name: &str) -> Self {
        Self(v1::Flow {
            name: name.to_owned(),
            ..Default::default()
        })
    }

    pub fn input(&mut self, name: &str, of: v1::Type) -> v1::End {
        self.0.inputs.push(port(name.to_owned(), of));
        v1::End {
            place: v1::end::Place::Input.into(),
            node: 0,
            port: self.0.inputs.len() as u32 - 1,
        }
    }

    /// A role node in a scope; what it reads, what it makes.
    pub fn role(
        &mut self,
        role: &str,
        scope: u32,
        inputs: &[(&str, v1::Type, v1::End)],
        outputs: &[(&str, v1::Type)],
    ) -> u32 {
        let node = v1::Node {
            name: format!("{role}.run"),
            role: role.to_owned(),
            method: "run".to_owned(),
            options: Some(v1::NodeOptions {
                deterministic: true,
                ..Default::default()
            }),
            source: Some(v1::Source {
                file: "flow.py".to_owned(),
                line: 7,
                function: self.0.name.clone(),
            }),
            ..Default::default()
        };
        let inputs = inputs
            .iter()
            .map(|(name, of, from)| ((*name).to_owned(), of.clone(), *from));
        let outputs = outputs
            .iter()
            .map(|(name, of)| port((*name).to_owned(), of.clone()));
        self.add(node, scope, inputs.collect(), outputs.collect())
    }

    pub fn control(
        &mut self,
        name: &str,
        scope: u32,
        control: Control,
        inputs: &[(v1::Type, v1::End)],
        outputs: &[v1::Type],
    ) -> u32 {
        let node = v1::Node {
            name: name.to_owned(),
            control: Some(control),
            source: Some(v1::Source {
                file: "flow.py".to_owned(),
                line: 3,
                function: self.0.name.clone(),
            }),
            ..Default::default()
        };
        let inputs = inputs
            .iter()
            .enumerate()
            .map(|(index, (of, from))| (format!("in{index}"), of.clone(), *from));
        let outputs = outputs
            .iter()
            .enumerate()
            .map(|(index, of)| port(format!("out{index}"), of.clone()));
        self.add(node, scope, inputs.collect(), outputs.collect())
    }

    fn add(
        &mut self,
        node: v1::Node,
        scope: u32,
        inputs: Vec<(String, v1::Type, v1::End)>,
        outputs: Vec<v1::Port>,
    ) -> u32 {
        let index = self.0.nodes.len() as u32;
        let ports = (0..inputs.len() as u32).collect();
        for (at, (_, of, from)) in inputs.iter().enumerate() {
            self.edge(*from, out(index, at as u32), of.clone());
        }
        let inputs = inputs.into_iter().map(|(name, of, _)| port(name, of));
        self.0.nodes.push(v1::Node {
            inputs: inputs.collect(),
            outputs,
            trigger: vec![v1::Alternative { ports }],
            scope,
            ..node
        });
        index
    }

    /// One more input of a node, which a branch feeds.
    pub fn gate(&mut self, node: u32, branch: v1::End, of: v1::Type) {
        let spec = &mut self.0.nodes[node as usize];
        let at = spec.inputs.len() as u32;
        let mut gate = port(format!("gate{at}"), of.clone());
        gate.gate = true;
        gate.parameter = String::new();
        spec.inputs.push(gate);
        spec.trigger[0].ports.push(at);
        self.edge(branch, out(node, at), of);
    }

    /// A scope that the next node to be made will make.
    pub fn scope(&mut self, kind: v1::scope::Kind, parent: u32) -> u32 {
        self.0.scopes.push(v1::Scope {
            kind: kind.into(),
            parent,
            node: self.0.nodes.len() as u32,
            name: "body".to_owned(),
        });
        self.0.scopes.len() as u32
    }

    pub fn edge(&mut self, from: v1::End, to: v1::End, of: v1::Type) {
        self.0.edges.push(v1::Edge {
            from: Some(from),
            to: Some(to),
            r#type: Some(of),
        });
    }

    pub fn result(&mut self, name: &str, of: v1::Type, from: v1::End) {
        let index = self.0.results.len() as u32;
        self.0.results.push(port(name.to_owned(), of.clone()));
        let to = v1::End {
            place: v1::end::Place::Result.into(),
            node: 0,
            port: index,
        };
        self.edge(from, to, of);
    }

    pub fn done(self) -> v1::Flow {
        self.0
    }
}

/// `words = split(question); all = collect(shout(word, question) for word in each(words)); answer = join(all)`.
pub fn fan_out() -> v1::Flow {
    let mut flow = Builder::new("fan_out");
    let question = flow.input("question", text_type());
    let split = flow.role(
        "split",
        0,
        &[("input", text_type(), question)],
        &[("output", stream(text_type()))],
    );
    let scope = flow.scope(v1::scope::Kind::Each, 0);
    let each = flow.control(
        "each",
        0,
        Control::Each(v1::Each { scope }),
        &[(stream(text_type()), out(split, 0))],
        &[text_type(), stream(truth_type())],
    );
    let shout = flow.role(
        "shout",
        scope,
        &[
            ("input", text_type(), out(each, 0)),
            ("whole", text_type(), question),
        ],
        &[("output", text_type())],
    );
    let collect = flow.control(
        "collect",
        0,
        Control::Collect(v1::Collect { scope }),
        &[
            (text_type(), out(shout, 0)),
            (stream(truth_type()), out(each, 1)),
        ],
        &[list()],
    );
    let join = flow.role(
        "join",
        0,
        &[("input", list(), out(collect, 0))],
        &[("output", text_type())],
    );
    flow.result("words", text_type(), out(join, 0));
    flow.done()
}

/// `return ordered(shout(word) for word in each(words))`: fan-out and what gathers it are at the scheduler.
pub fn fan_out_of_input() -> v1::Flow {
    let mut flow = Builder::new("fan_out_of_input");
    let words = flow.input("question", stream(text_type()));
    let scope = flow.scope(v1::scope::Kind::Each, 0);
    let each = flow.control(
        "each",
        0,
        Control::Each(v1::Each { scope }),
        &[(stream(text_type()), words)],
        &[text_type(), stream(truth_type())],
    );
    let shout = flow.role(
        "shout",
        scope,
        &[("input", text_type(), out(each, 0))],
        &[("output", text_type())],
    );
    let ordered = flow.control(
        "ordered",
        0,
        Control::Ordered(v1::Ordered { scope }),
        &[
            (text_type(), out(shout, 0)),
            (stream(truth_type()), out(each, 1)),
        ],
        &[stream(text_type())],
    );
    flow.result("words", stream(text_type()), out(ordered, 0));
    flow.done()
}

/// `route(choice, loud=lambda: loud(question), quiet=lambda: quiet(question))`. The choice is the question, or, with
/// `planned`, what `plan` makes of it: then the route runs at `plan`'s side.
pub fn routed(planned: bool) -> v1::Flow {
    let mut flow = Builder::new(if planned { "planned" } else { "routed" });
    let question = flow.input("question", text_type());
    let choice = match planned {
        false => question,
        true => {
            let inputs = [("input", text_type(), question)];
            out(flow.role("plan", 0, &inputs, &[("output", text_type())]), 0)
        }
    };
    let branches = ["loud", "quiet"];
    let route = Control::Route(v1::Route {
        branches: branches.map(str::to_owned).to_vec(),
        exclusive: true,
    });
    let route = flow.control(
        "route",
        0,
        route,
        &[(text_type(), choice)],
        &[text_type(), text_type()],
    );
    let mut ends = Vec::new();
    for (index, branch) in (0..).zip(branches) {
        let inputs = [("input", text_type(), question)];
        let node = flow.role(branch, 0, &inputs, &[("output", text_type())]);
        flow.gate(node, out(route, index), text_type());
        ends.push((text_type(), out(node, 0)));
    }
    let any = flow.control(
        "any_of",
        0,
        Control::AnyOf(v1::AnyOf {}),
        &ends,
        &[text_type()],
    );
    flow.result("words", text_type(), out(any, 0));
    flow.done()
}

/// `loop(step, start=question, until="done", emit="part", max_rounds=…)`.
pub fn rounds(max_rounds: u32) -> v1::Flow {
    let mut flow = Builder::new("rounds");
    let question = flow.input("question", text_type());
    let scope = flow.scope(v1::scope::Kind::Loop, 0);
    let control = Control::Loop(v1::Loop {
        scope,
        carried: 1,
        emitted: 1,
        max_rounds,
    });
    // The body is made behind it, so that its ends are known by number only.
    let step = 1;
    let inputs = [
        (text_type(), question),
        (optional(text_type()), out(step, 0)),
        (truth_type(), out(step, 1)),
        (text_type(), out(step, 2)),
    ];
    let outputs = [text_type(), optional(text_type()), stream(text_type())];
    let node = flow.control("loop", 0, control, &inputs, &outputs);
    let made = flow.role(
        "step",
        scope,
        &[("input", text_type(), out(node, 0))],
        &[
            ("state", optional(text_type())),
            ("done", truth_type()),
            ("part", text_type()),
        ],
    );
    assert_eq!(made, step);
    flow.result("words", stream(text_type()), out(node, 2));
    flow.done()
}

pub fn input(activation: &ActivationHandle, name: &str) -> bytes::Bytes {
    activation.activation().value(name).unwrap().unwrap()
}

/// What the roles of the flows here do.
pub fn act(activation: &ActivationHandle) {
    let text_of = |name: &str| read_text(&input(activation, name));
    let emit = |value: &str| activation.emit("output", vec![text(value)]).unwrap();
    match activation.activation().role() {
        "split" => text_of("input").split(' ').for_each(|word| {
            emit(word);
        }),
        "join" => {
            let all = read_list(&input(activation, "input"));
            emit(&all.join(" "));
        }
        "step" => {
            // The state counts rounds down.
            let left: u32 = text_of("input").parse().unwrap();
            let next = left.saturating_sub(1).to_string();
            activation.emit("part", vec![text(&next)]).unwrap();
            activation.emit("state", vec![text(&next)]).unwrap();
            activation.emit("done", vec![truth(left <= 1)]).unwrap();
        }
        "plan" => {
            emit(&text_of("input"));
        }
        "quiet" => {
            emit(&text_of("input").to_lowercase());
        }
        _ => {
            emit(&text_of("input").to_uppercase());
        }
    }
    // With its value the scope that it is in may have ended: then nobody waits for the rest of it.
    match activation.finish(BTreeMap::new()) {
        Ok(()) | Err(NodeError::Cancelled { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}
