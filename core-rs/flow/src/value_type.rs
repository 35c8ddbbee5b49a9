//! Types of what travels on edges.

use std::fmt;

/// What a single value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Unicode text.
    Text,
    /// An encoded picture.
    Image,
    /// Sound.
    Audio,
    /// An encoded video.
    Video,
    /// A dense array.
    Tensor,
    /// Named fields.
    Record {
        /// The record's name.
        name: String,
        /// Its fields, by name.
        fields: Vec<(String, ValueType)>,
    },
    /// Values of one type, in order.
    List(Box<ValueType>),
    /// Truth.
    Boolean,
    /// A whole number.
    Integer,
    /// A real number.
    Real,
}

/// The type of a port: a kind of value, one of it or a stream, and whether it may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueType {
    /// What each frame is.
    pub kind: ValueKind,
    /// Any number of frames, then END; else exactly one frame.
    pub stream: bool,
    /// `T | None`: may be CLOSED instead, and then reads as `None`.
    pub optional: bool,
}

impl ValueType {
    /// One value of a kind, required.
    pub fn plain(kind: ValueKind) -> Self {
        Self {
            kind,
            stream: false,
            optional: false,
        }
    }

    /// A stream of a kind, required.
    pub fn stream(kind: ValueKind) -> Self {
        Self {
            kind,
            stream: true,
            optional: false,
        }
    }

    /// The same, but it may be missing.
    pub fn or_none(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("Text"),
            Self::Image => f.write_str("Image"),
            Self::Audio => f.write_str("Audio"),
            Self::Video => f.write_str("Video"),
            Self::Tensor => f.write_str("Tensor"),
            Self::Record { name, .. } => f.write_str(name),
            Self::List(item) => write!(f, "list[{item}]"),
            Self::Boolean => f.write_str("bool"),
            Self::Integer => f.write_str("int"),
            Self::Real => f.write_str("float"),
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stream {
            true => write!(f, "Stream[{}]", self.kind)?,
            false => write!(f, "{}", self.kind)?,
        }
        if self.optional {
            f.write_str(" | None")
        } else {
            Ok(())
        }
    }
}
