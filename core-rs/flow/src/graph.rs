//! A graph that can work: what resolvers run.

use crate::ids::{EdgeId, NodeId, PortIx};
use crate::item::Item;
use crate::key::Key;
use crate::layout::{Home, Layout, Reader};
use crate::problem::Problem;
use crate::spec::{Destination, EdgeSpec, GraphSpec, NodeSpec, Origin, PortSpec};
use crate::validate;

/// A validated graph: every index in it names something, every input port of a node is fed by exactly one edge, every
/// result by at least one, no cycle is without a bound, and nothing leaves a scope but through a node that closes it.
#[derive(Debug)]
pub struct Graph {
    spec: GraphSpec,
    wiring: Wiring,
    layout: Layout,
    order: Vec<NodeId>,
    /// By node.
    resumes: Vec<bool>,
}

/// Which edges touch which ports.
#[derive(Debug, Default)]
pub(crate) struct Wiring {
    /// By node, by input port; several only in graphs that do not validate.
    pub(crate) node_inputs: Vec<Vec<Vec<EdgeId>>>,
    /// By node, by output port.
    pub(crate) node_outputs: Vec<Vec<Vec<EdgeId>>>,
    /// By input of the flow.
    pub(crate) inputs: Vec<Vec<EdgeId>>,
    /// By result of the flow.
    pub(crate) results: Vec<Vec<EdgeId>>,
}

impl Wiring {
    /// Of a flow all of whose references hold.
    pub(crate) fn new(spec: &GraphSpec) -> Self {
        let mut wiring = Self {
            node_inputs: spec
                .nodes
                .iter()
                .map(|node| vec![Vec::new(); node.inputs.len()])
                .collect(),
            node_outputs: spec
                .nodes
                .iter()
                .map(|node| vec![Vec::new(); node.outputs.len()])
                .collect(),
            inputs: vec![Vec::new(); spec.inputs.len()],
            results: vec![Vec::new(); spec.results.len()],
        };
        for (index, edge) in spec.edges.iter().enumerate() {
            let id = EdgeId(index as u32);
            match edge.from {
                Origin::Input { port } => wiring.inputs[port.index()].push(id),
                Origin::Node { node, port } => {
                    wiring.node_outputs[node.index()][port.index()].push(id)
                }
            }
            match edge.to {
                Destination::Node { node, port } => {
                    wiring.node_inputs[node.index()][port.index()].push(id)
                }
                Destination::Result { port } => wiring.results[port.index()].push(id),
            }
        }
        wiring
    }
}

impl Graph {
    /// Validates a flow. The problems come in node order; they are what `omniflow flow check` shows.
    pub fn new(spec: GraphSpec) -> Result<Self, Vec<Problem>> {
        let validate::Checked {
            wiring,
            layout,
            order,
        } = validate::validate(&spec)?;
        let nodes = (0..spec.nodes.len() as u32).map(NodeId);
        let resumes = nodes.map(|node| resumes(&spec, &wiring, &layout, node));
        Ok(Self {
            resumes: resumes.collect(),
            spec,
            wiring,
            layout,
            order,
        })
    }

    /// The flow as it was written.
    pub fn spec(&self) -> &GraphSpec {
        &self.spec
    }

    /// The flow's inputs; `PortIx` of an input indexes them.
    pub fn inputs(&self) -> &[PortSpec] {
        &self.spec.inputs
    }

    /// The flow's results; `PortIx` of a result indexes them.
    pub fn results(&self) -> &[PortSpec] {
        &self.spec.results
    }

    /// All nodes; `NodeId` indexes them.
    pub fn nodes(&self) -> &[NodeSpec] {
        &self.spec.nodes
    }

    /// One node, if it exists.
    pub fn node(&self, node: NodeId) -> Option<&NodeSpec> {
        self.spec.nodes.get(node.index())
    }

    /// One edge with its two ends, if it exists. `edge.to` says whom a frame is for, `edge.from` whom it came from.
    pub fn edge(&self, edge: EdgeId) -> Option<&EdgeSpec> {
        self.spec.edges.get(edge.index())
    }

    /// The edges that leave an output of a node or an input of the flow. Empty for a port that does not exist.
    pub fn edges_from(&self, origin: Origin) -> &[EdgeId] {
        let found = match origin {
            Origin::Input { port } => self.wiring.inputs.get(port.index()),
            Origin::Node { node, port } => self
                .wiring
                .node_outputs
                .get(node.index())
                .and_then(|ports| ports.get(port.index())),
        };
        found.map_or(&[], Vec::as_slice)
    }

    /// The edge that feeds an input port of a node. `None` for a port that does not exist.
    pub fn edge_into(&self, node: NodeId, port: PortIx) -> Option<EdgeId> {
        self.wiring
            .node_inputs
            .get(node.index())?
            .get(port.index())?
            .first()
            .copied()
    }

    /// The edges that feed a result: several are an `any_of`. Empty for a result that does not exist.
    pub fn edges_into_result(&self, port: PortIx) -> &[EdgeId] {
        self.wiring
            .results
            .get(port.index())
            .map_or(&[], Vec::as_slice)
    }

    /// All nodes, each after those that feed it; a `loop` after what starts it, and its body after the loop.
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }

    /// At whose side a node runs (rule 7). Role nodes are bound; control nodes are hosted by resolvers themselves, where
    /// their home is.
    pub fn home(&self, node: NodeId) -> Home {
        match node.index() < self.spec.nodes.len() {
            true => self.layout.home(node),
            false => Home::Scheduler,
        }
    }

    /// The control nodes that run at the side of a role node: they start again when it does.
    pub fn companions(&self, node: NodeId) -> &[NodeId] {
        match node.index() < self.spec.nodes.len() {
            true => self.layout.companions(node),
            false => &[],
        }
    }

    /// What a bind of a node names for a key: its fan-out indices. Rounds are left out, for nodes of a loop are bound
    /// once for all of them.
    pub fn bind_key(&self, node: NodeId, key: &Key) -> Key {
        match self.spec.nodes.get(node.index()) {
            Some(spec) => self.layout.bind_key(spec.scope, key).0,
            None => key.clone(),
        }
    }

    /// How many indices the bind keys of a node have: 0, it is bound once for the job.
    pub fn bind_depth(&self, node: NodeId) -> usize {
        let spec = self.spec.nodes.get(node.index());
        spec.map_or(0, |spec| self.layout.bind_depth(spec.scope))
    }

    /// Who takes what is sent on an edge for a key. `None` for an edge that does not exist.
    pub fn reader(&self, edge: EdgeId, key: &Key) -> Option<Reader> {
        let Destination::Node { node, port } = self.edge(edge)?.to else {
            return Some(Reader::Scheduler);
        };
        let spec = &self.spec.nodes[node.index()];
        let outer = key.prefix(self.layout.depth(spec.scope));
        let inner = spec.input_scope(port) != spec.scope;
        let Home::Node(home) = self.layout.home(node) else {
            return Some(Reader::Scheduler);
        };
        let run = if inner { &outer } else { key };
        let scope = self.spec.nodes[home.index()].scope;
        Some(match self.layout.bind_key(scope, run) {
            (key, true) => Reader::One(home, key),
            (key, false) => Reader::Every(home, key),
        })
    }

    /// Whether it goes to the scheduler while its reader is not bound (rule 7): CLOSED, and what opens a gate. Frames wait.
    pub fn is_mark<P>(&self, edge: EdgeId, item: &Item<P>) -> bool {
        let to_gate = self.edge(edge).is_some_and(|edge| match edge.to {
            Destination::Node { node, port } => {
                self.spec.nodes[node.index()].inputs[port.index()].gate
            }
            Destination::Result { .. } => false,
        });
        to_gate || matches!(item, Item::Closed)
    }

    /// Whether a new attempt of the node goes on from what its readers hold (rule 12): the flow says that its frames carry
    /// what that takes, they all leave by one stream, it runs once for each bind (which nodes of a loop do not), and nothing
    /// that runs at its side, and dies with it, reads from it.
    pub fn resumes(&self, node: NodeId) -> bool {
        self.resumes
            .get(node.index())
            .is_some_and(|resumes| *resumes)
    }

    /// Whether that is so of the node that an edge comes from.
    pub fn is_resumed(&self, edge: EdgeId) -> bool {
        match self.edge(edge).map(|edge| edge.from) {
            Some(Origin::Node { node, .. }) => self.resumes(node),
            Some(Origin::Input { .. }) | None => false,
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }
}

fn resumes(spec: &GraphSpec, wiring: &Wiring, layout: &Layout, node: NodeId) -> bool {
    let planned = &spec.nodes[node.index()];
    let in_loop = || {
        let mut around = layout.around(planned.scope).iter();
        around.any(|scope| spec.scopes[scope.index() - 1].is_loop)
    };
    let at_its_side = |edge: &EdgeId| match spec.edges[edge.index()].to {
        Destination::Node { node: reader, .. } => {
            reader != node && layout.home(reader) == Home::Node(node)
        }
        Destination::Result { .. } => false,
    };
    let stream = matches!(&planned.outputs[..], [only] if only.value_type.stream);
    planned.options.resumable
        && stream
        && !in_loop()
        && !wiring.node_outputs[node.index()][0].iter().any(at_its_side)
}
