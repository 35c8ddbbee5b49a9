//! What a job must do, told without arrivals: values of whole edges, worked out backwards from what is asked for. Where order
//! of arrival decides (which alternative fires, how a merge interleaves), it follows what was seen, if that could be.

use std::collections::{BTreeMap, BTreeSet};

use omniflow_flow::{
    EdgeId, Graph, Key, NodeId, NodeKind, NodeSpec, Origin, Payload, PortIx, ScopeId,
};

use super::Word;
use super::cluster::Seen;
use super::role::{self, Carried};

/// See the module.
pub struct Oracle<'a> {
    graph: &'a Graph,
    inputs: &'a [Carried],
    seen: &'a Seen,
    known: BTreeMap<(NodeId, Key), Vec<Carried>>,
    /// Whether it is asked why the job has failed.
    failing: bool,
}

/// A loop that passes its bound, or a route to nowhere.
#[derive(Debug, PartialEq, Eq)]
pub struct Fails(pub NodeId);

type Told<T> = Result<T, Fails>;

impl<'a> Oracle<'a> {
    pub fn new(graph: &'a Graph, inputs: &'a [Carried], seen: &'a Seen) -> Self {
        Self {
            graph,
            inputs,
            seen,
            known: BTreeMap::new(),
            failing: false,
        }
    }

    /// Everything that was seen must be so, and everything that must be so was seen.
    pub fn judge(&mut self) -> Told<()> {
        for port in 0..self.graph.results().len() {
            self.judge_result(PortIx(port as u32))?;
        }
        for (node, spec) in (0..).map(NodeId).zip(self.graph.nodes()) {
            if spec.scope == ScopeId::ROOT && spec.kind.is_role() {
                self.outputs(node, &Key::ROOT)?;
            }
        }
        let seen = self.seen;
        for (node, key) in seen.fired.keys().chain(&seen.closed) {
            self.outputs(*node, key)?;
        }
        Ok(())
    }

    /// Whether this node must fail the job.
    pub fn fails(&mut self, node: NodeId, key: &Key) -> Told<()> {
        self.failing = true;
        self.outputs(node, key).map(|_| ())
    }

    fn judge_result(&mut self, port: PortIx) -> Told<()> {
        let edges = self.graph.edges_into_result(port).to_vec();
        let mut carried = Vec::new();
        for edge in edges {
            carried.push(self.carried(edge, &Key::ROOT)?);
        }
        let got = self.seen.results.get(&port).expect("every result ends");
        assert!(
            carried.contains(got),
            "{port:?} got {got:?}, not one of {carried:?}"
        );
        Ok(())
    }

    /// All that an edge carries for the key that its frames have.
    fn carried(&mut self, edge: EdgeId, key: &Key) -> Told<Carried> {
        let (node, port) = match self.graph.edge(edge).unwrap().from {
            Origin::Input { port } => return Ok(self.inputs[port.index()].clone()),
            Origin::Node { node, port } => (node, port),
        };
        let spec = self.graph.node(node).unwrap();
        if spec.output_scope(port) == spec.scope {
            return Ok(self.outputs(node, key)?[port.index()].clone());
        }
        let (outer, index) = key.split_last().unwrap();
        match spec.kind {
            NodeKind::Each { .. } => {
                let Carried::Many(words) = self.input(node, port, &outer)? else {
                    panic!("a key of an each that never was: {key} at {}", spec.name)
                };
                Ok(Carried::One(words[index as usize]))
            }
            NodeKind::Loop { carried, .. } => match index.checked_sub(1) {
                None => self.input(node, port, &outer),
                Some(before) => self.inner(node, PortIx(port.0 + carried), &outer.child(before)),
            },
            _ => panic!("{} makes no keys", spec.name),
        }
    }

    /// What comes to an input port in the node's own scope, or in one around it.
    fn input(&mut self, node: NodeId, port: PortIx, key: &Key) -> Told<Carried> {
        let edge = self.graph.edge_into(node, port).unwrap();
        let scope = match self.graph.edge(edge).unwrap().from {
            Origin::Input { .. } => ScopeId::ROOT,
            Origin::Node { node, port } => self.graph.node(node).unwrap().output_scope(port),
        };
        self.carried(edge, &key.prefix(self.depth(scope)))
    }

    /// What comes to an input port from inside a scope; `key` is of there.
    fn inner(&mut self, node: NodeId, port: PortIx, key: &Key) -> Told<Carried> {
        let edge = self.graph.edge_into(node, port).unwrap();
        self.carried(edge, key)
    }

    fn depth(&self, scope: ScopeId) -> usize {
        match scope {
            ScopeId::ROOT => 0,
            _ => 1 + self.depth(self.graph.spec().scopes[scope.index() - 1].parent),
        }
    }

    fn outputs(&mut self, node: NodeId, key: &Key) -> Told<Vec<Carried>> {
        if let Some(known) = self.known.get(&(node, key.clone())) {
            return Ok(known.clone());
        }
        let spec = self.graph.node(node).unwrap();
        let outputs = match spec.kind {
            NodeKind::Role { .. } => self.role(node, spec, key)?,
            _ if !self.begins(node, spec, key)? => vec![Carried::Nothing; spec.outputs.len()],
            NodeKind::Loop { carried, .. } => self.rounds(node, spec, carried as usize, key)?,
            _ => self.control(node, spec, key)?,
        };
        self.known.insert((node, key.clone()), outputs.clone());
        Ok(outputs)
    }

    // --- roles ----------------------------------------------------------------------------------------------------

    fn role(&mut self, node: NodeId, spec: &NodeSpec, key: &Key) -> Told<Vec<Carried>> {
        let trigger = match spec.trigger.is_empty() {
            true => vec![vec![]],
            false => spec.trigger.clone(),
        };
        let mut live = Vec::new();
        for (index, ports) in trigger.iter().enumerate() {
            if self.filled(node, spec, ports, key)? {
                live.push(index);
            }
        }
        let at = (node, key.clone());
        let name = &spec.name;
        let fired = self.seen.fired.get(&at).copied();
        // What runs in a scope by which nothing leaves any more need not run, and nobody reads it.
        let spared = live
            .first()
            .filter(|_| self.seen.unneeded(self.graph, spec.scope, key));
        let Some(fired) = fired.or(spared.copied()) else {
            assert!(live.is_empty(), "{name} {key} had to fire {live:?}");
            let closed =
                self.seen.closed.contains(&at) || self.seen.unneeded(self.graph, spec.scope, key);
            assert!(closed, "{name} {key} had to be closed");
            return Ok(vec![Carried::Nothing; spec.outputs.len()]);
        };
        assert!(
            live.contains(&fired),
            "{name} {key} fired {fired}, but only {live:?} could"
        );
        let mut read = Vec::new();
        for port in trigger[fired]
            .iter()
            .filter(|port| !spec.inputs[port.index()].gate)
        {
            read.push((*port, self.input(node, *port, key)?));
        }
        Ok(role::outputs(spec, node, &read))
    }

    fn filled(&mut self, node: NodeId, spec: &NodeSpec, ports: &[PortIx], key: &Key) -> Told<bool> {
        for port in ports {
            let optional = spec.inputs[port.index()].value_type.optional;
            if !optional && self.input(node, *port, key)? == Carried::Nothing {
                return Ok(false);
            }
        }
        Ok(true)
    }

    // --- control nodes --------------------------------------------------------------------------------------------

    fn own_ports(spec: &NodeSpec) -> (Vec<PortIx>, Vec<PortIx>) {
        (0..spec.inputs.len() as u32)
            .map(PortIx)
            .filter(|port| spec.input_scope(*port) == spec.scope)
            .partition(|port| spec.inputs[port.index()].gate)
    }

    fn begins(&mut self, node: NodeId, spec: &NodeSpec, key: &Key) -> Told<bool> {
        let (gates, values) = Self::own_ports(spec);
        if !self.filled(node, spec, &gates, key)? {
            return Ok(false);
        }
        if !matches!(spec.kind, NodeKind::Merge | NodeKind::AnyOf) {
            return self.filled(node, spec, &values, key);
        }
        for port in values {
            if self.input(node, port, key)? != Carried::Nothing {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn control(&mut self, node: NodeId, spec: &NodeSpec, key: &Key) -> Told<Vec<Carried>> {
        let (_, values) = Self::own_ports(spec);
        let mut read = Vec::new();
        for port in &values {
            read.push(self.input(node, *port, key)?);
        }
        Ok(match &spec.kind {
            NodeKind::Each { .. } => {
                let made = shortest(&read);
                let mut outputs = vec![Carried::Nothing; spec.outputs.len() - 1];
                outputs.push(Carried::Many(vec![Word(0); made]));
                outputs
            }
            NodeKind::Zip => {
                let count = shortest(&read);
                let cut = |one: &Carried| Carried::Many(words(one)[..count].to_vec());
                read.iter().map(cut).collect()
            }
            NodeKind::Merge => vec![self.interleaved(node, key, &read)],
            NodeKind::AnyOf => vec![self.chosen(node, key, &read)],
            NodeKind::Collect { scope } if *scope == ScopeId::ROOT => {
                vec![Carried::One(Word::list(words(&read[0])))]
            }
            NodeKind::Collect { .. } => {
                let left = self.left(node, key, words(&read[0]).len())?;
                vec![Carried::One(Word::list(left))]
            }
            NodeKind::Ordered { .. } => {
                vec![Carried::Many(self.left(
                    node,
                    key,
                    words(&read[0]).len(),
                )?)]
            }
            NodeKind::Unordered { .. } => {
                let left = self.left(node, key, words(&read[0]).len())?;
                let each: Vec<Carried> = left.into_iter().map(Carried::One).collect();
                vec![self.interleaved(node, key, &each)]
            }
            NodeKind::Route {
                branches,
                exclusive,
            } => {
                let [Carried::One(choice)] = read[..] else {
                    panic!("a route begins with a choice")
                };
                let chosen = choice.names().unwrap();
                let known = chosen.iter().all(|name| branches.contains(name));
                if !known || (*exclusive && chosen.len() != 1) {
                    return Err(Fails(node));
                }
                let output = |branch: &String| match chosen.contains(branch) {
                    true => Carried::One(choice),
                    false => Carried::Nothing,
                };
                branches.iter().map(output).collect()
            }
            kind => panic!("{kind:?} is told elsewhere"),
        })
    }

    /// The values that leave the keys of a scope, in order, without the closed ones.
    fn left(&mut self, node: NodeId, key: &Key, count: usize) -> Told<Vec<Word>> {
        let mut left = Vec::new();
        for index in 0..count as u32 {
            if let Carried::One(word) = self.inner(node, PortIx(0), &key.child(index))? {
                left.push(word);
            }
        }
        Ok(left)
    }

    /// What was seen to leave the node, if it is made of these in an order that they allow; of what nobody read to the end,
    /// the rest follows in any order.
    fn interleaved(&self, node: NodeId, key: &Key, parts: &[Carried]) -> Carried {
        let parts: Vec<Vec<Word>> = parts.iter().map(words).collect();
        let seen = self.seen.sent.get(&(node, key.clone()));
        let mut all = seen.cloned().unwrap_or_default();
        // How far each part may have been read: the same word may have come from several.
        let mut read = BTreeSet::from([vec![0; parts.len()]]);
        for word in &all {
            let further = |read: &Vec<usize>| {
                let next = |part: &usize| parts[*part].get(read[*part]) == Some(word);
                let mut further = Vec::new();
                for part in (0..parts.len()).filter(next) {
                    further.push(read.clone());
                    further.last_mut().unwrap()[part] += 1;
                }
                further
            };
            read = read.iter().flat_map(further).collect();
            assert!(
                !read.is_empty(),
                "{node:?} {key} sent {word:?} out of order, or from nowhere"
            );
        }
        for (part, read) in parts.iter().zip(read.first().unwrap()) {
            all.extend(&part[*read..]);
        }
        Carried::Many(all)
    }

    fn chosen(&self, node: NodeId, key: &Key, read: &[Carried]) -> Carried {
        let seen = self
            .seen
            .sent
            .get(&(node, key.clone()))
            .cloned()
            .unwrap_or_default();
        let fits = |one: &&Carried| **one != Carried::Nothing && words(one).starts_with(&seen);
        let whole = read.iter().find(|one| fits(one) && words(one) == seen);
        whole
            .or_else(|| read.iter().find(fits))
            .unwrap_or_else(|| panic!("{node:?} {key} sent {seen:?}, which none of {read:?} is"))
            .clone()
    }

    fn rounds(
        &mut self,
        node: NodeId,
        spec: &NodeSpec,
        carried: usize,
        key: &Key,
    ) -> Told<Vec<Carried>> {
        let NodeKind::Loop {
            emitted,
            max_rounds,
            ..
        } = spec.kind
        else {
            panic!("only loops have rounds")
        };
        let mut emits = vec![Vec::new(); emitted as usize];
        for round in 0..max_rounds {
            let inner = key.child(round);
            for (emit, words) in emits.iter_mut().enumerate() {
                let port = PortIx((2 * carried + 1 + emit) as u32);
                if let Carried::One(word) = self.inner(node, port, &inner)? {
                    words.push(word);
                }
            }
            let mut nexts = Vec::new();
            for port in carried..2 * carried {
                nexts.push(self.inner(node, PortIx(port as u32), &inner)?);
            }
            let until = self.inner(node, PortIx(2 * carried as u32), &inner)?;
            let over = matches!(until, Carried::One(word) if word.truth() == Some(true));
            let dead = until == Carried::Nothing || nexts.contains(&Carried::Nothing);
            if !over && !dead {
                continue;
            }
            let stream = |words: Vec<Word>| match over || !words.is_empty() {
                true => Carried::Many(words),
                false => Carried::Nothing,
            };
            let states = vec![Carried::Nothing; carried];
            let finals = match over {
                true => nexts,
                false => states.clone(),
            };
            let streams = emits.into_iter().map(stream);
            return Ok(states.into_iter().chain(finals).chain(streams).collect());
        }
        // One that nobody read any more was stopped before its bound.
        let stopped = spec
            .kind
            .inner_scope()
            .is_some_and(|scope| self.seen.left.contains(&(scope, key.clone(), node)));
        if !self.failing && (stopped || self.seen.unneeded(self.graph, spec.scope, key)) {
            let nothing = vec![Carried::Nothing; 2 * carried];
            return Ok(nothing
                .into_iter()
                .chain(emits.into_iter().map(Carried::Many))
                .collect());
        }
        Err(Fails(node))
    }
}

fn words(carried: &Carried) -> Vec<Word> {
    match carried {
        Carried::Nothing => Vec::new(),
        Carried::One(word) => vec![*word],
        Carried::Many(words) => words.clone(),
    }
}

fn shortest(read: &[Carried]) -> usize {
    read.iter().map(|one| words(one).len()).min().unwrap_or(0)
}
