//! Why a graph can never work.

use std::fmt;

use crate::ids::{EdgeId, NodeId};

/// One reason why a graph can never work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Stable name of the kind of problem.
    pub code: ProblemCode,
    /// What is wrong, and why it can never work.
    pub message: String,
    /// What to do about it.
    pub cure: String,
    /// The node at fault, if it is one's.
    pub node: Option<NodeId>,
    /// The edge at fault, if it is one's.
    pub edge: Option<EdgeId>,
}

/// Kinds of problems. `as_str` is stable: tools and tests match on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemCode {
    /// An index or an end that names nothing, or a type that is missing.
    BrokenReference,
    /// Two nodes, inputs, results or ports of one node share a name, or a name is empty.
    DuplicateName,
    /// The kinds of value at the two ends of an edge differ.
    TypeMismatch,
    /// A stream goes into a port that takes one value.
    StreamIntoPlain,
    /// One value goes into a port that takes a stream.
    PlainIntoStream,
    /// No edge feeds a port.
    UnfedPort,
    /// Several edges feed one port.
    FedTwice,
    /// A node with inputs has no trigger, or an alternative that waits for nothing.
    EmptyTrigger,
    /// An input port is part of no alternative.
    UnusedPort,
    /// One alternative waits for two ports that exclude each other, e.g. both sides of one `any_of`.
    ExclusiveJoin,
    /// A parameter is fed in one alternative and forgotten in another.
    MissingParameter,
    /// An earlier alternative is always complete before this one.
    ShadowedAlternative,
    /// An `any_of` over optional ports: the first one CLOSED would win.
    OptionalChoice,
    /// A result may stay empty, but its type does not say `| None`.
    OptionalResult,
    /// A cycle outside a `loop`.
    Cycle,
    /// No path of edges leads to a result.
    UnreachableResult,
    /// What a node makes reaches no result.
    DanglingNode,
    /// The flow has no result at all.
    NoResults,
    /// A value of an `each` or `loop` goes out of it other than by what closes it.
    LeavesScope,
    /// A stream from outside goes into an `each` or `loop`.
    StreamIntoScope,
    /// A node in an `each` or `loop` that can fire without anything of it.
    UnkeyedNode,
    /// Nothing that an `each` makes leaves it.
    UncollectedEach,
    /// A control node without the ports of its kind.
    BadControlNode,
    /// A loop without a bound.
    UnboundedLoop,
    /// A loop whose end no role of its body decides.
    UntilOutsideLoop,
    /// An alternative that does not wait for the branch that its node is in.
    MissingGate,
    /// An option of a node that means nothing.
    BadOption,
}

impl ProblemCode {
    /// The stable name, e.g. `unreachable-result`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BrokenReference => "broken-reference",
            Self::DuplicateName => "duplicate-name",
            Self::TypeMismatch => "type-mismatch",
            Self::StreamIntoPlain => "stream-into-plain",
            Self::PlainIntoStream => "plain-into-stream",
            Self::UnfedPort => "unfed-port",
            Self::FedTwice => "fed-twice",
            Self::EmptyTrigger => "empty-trigger",
            Self::UnusedPort => "unused-port",
            Self::ExclusiveJoin => "exclusive-join",
            Self::MissingParameter => "missing-parameter",
            Self::ShadowedAlternative => "shadowed-alternative",
            Self::OptionalChoice => "optional-choice",
            Self::OptionalResult => "optional-result",
            Self::Cycle => "cycle",
            Self::UnreachableResult => "unreachable-result",
            Self::DanglingNode => "dangling-node",
            Self::NoResults => "no-results",
            Self::LeavesScope => "leaves-scope",
            Self::StreamIntoScope => "stream-into-scope",
            Self::UnkeyedNode => "unkeyed-node",
            Self::UncollectedEach => "uncollected-each",
            Self::BadControlNode => "bad-control-node",
            Self::UnboundedLoop => "unbounded-loop",
            Self::UntilOutsideLoop => "until-outside-loop",
            Self::MissingGate => "missing-gate",
            Self::BadOption => "bad-option",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} [{}]; {}",
            self.message,
            self.code.as_str(),
            self.cure
        )
    }
}
