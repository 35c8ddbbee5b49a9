//! What frames carry in the tests, and what roles make of it.

#![allow(dead_code)]

use omniflow_flow::{ActivationInput, Delivered, InputValue, Key, NodeSpec, Payload, ValueKind};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Number(u64),
    Truth(bool),
    List(Vec<Value>),
}

/// A fixed scrambling of numbers (splitmix64).
pub fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |sum, part| {
        let mut value = (sum ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    })
}

impl Payload for Value {
    fn digest(&self) -> u64 {
        match self {
            Self::Number(number) => mix(&[1, *number]),
            Self::Truth(truth) => mix(&[2, u64::from(*truth)]),
            Self::List(items) => items.iter().fold(3, |sum, item| mix(&[sum, item.digest()])),
        }
    }

    fn size(&self) -> usize {
        8
    }

    fn list(items: Vec<Self>) -> Self {
        Self::List(items)
    }

    fn truth(&self) -> Option<bool> {
        match self {
            Self::Truth(truth) => Some(*truth),
            _ => None,
        }
    }

    fn names(&self) -> Option<Vec<String>> {
        let name = ["text", "image"][self.digest() as usize % 2];
        Some(vec![name.to_owned()])
    }
}

/// What a role yields on each output: the same for the same inputs. Streams have two to four frames; a loop has three rounds.
pub fn outputs(spec: &NodeSpec, key: &Key, inputs: &[ActivationInput<Value>]) -> Vec<Vec<Value>> {
    let seed = inputs.iter().fold(7, |sum, input| match &input.value {
        InputValue::Plain(value) => mix(&[sum, value.digest()]),
        InputValue::Stream | InputValue::None => sum,
    });
    let output = |(port, output): (u64, &omniflow_flow::PortSpec)| {
        let frames = match output.value_type.stream {
            true => 2 + seed % 3,
            false => 1,
        };
        let frame = |seq| match output.value_type.kind {
            ValueKind::Boolean => Value::Truth(key.path().last().is_some_and(|round| *round >= 2)),
            _ => Value::Number(mix(&[seed, port, seq])),
        };
        (0..frames).map(frame).collect()
    };
    (0..).zip(&spec.outputs).map(output).collect()
}

/// What a resumable role says after what was delivered: each attempt something else, and so many frames as it likes.
pub fn rest(delivered: &Delivered<Value>, epoch: u32) -> Vec<Value> {
    if delivered.ended {
        return Vec::new();
    }
    let said = delivered.frames.len() as u64;
    let more = mix(&[epoch.into(), said]) % 5;
    let frame = |seq| Value::Number(mix(&[epoch.into(), seq]));
    (said..said + more).map(frame).collect()
}
