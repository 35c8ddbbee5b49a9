//! What one write takes: small parts copied next to each other, large ones shared.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;

use bytes::{Buf, Bytes};

/// Below this, copying is cheaper than one more slice for the kernel.
const COPY_BELOW: usize = 4 * 1024;
const MAX_SLICES: usize = 64;

#[derive(Debug)]
enum Part {
    Copied(Range<usize>),
    Shared(Bytes),
}

/// Bytes on their way to one (vectored) write.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    copied: Vec<u8>,
    parts: VecDeque<Part>,
    length: usize,
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn push_slice(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let start = self.copied.len();
        self.copied.extend_from_slice(bytes);
        self.length += bytes.len();
        if let Some(Part::Copied(range)) = self.parts.back_mut()
            && range.end == start
        {
            range.end = self.copied.len();
            return;
        }
        self.parts.push_back(Part::Copied(start..self.copied.len()));
    }

    pub(crate) fn push(&mut self, bytes: &Bytes) {
        if bytes.len() < COPY_BELOW {
            self.push_slice(bytes);
        } else {
            self.length += bytes.len();
            self.parts.push_back(Part::Shared(bytes.clone()));
        }
    }

    pub(crate) fn slices(&self) -> Vec<IoSlice<'_>> {
        self.parts
            .iter()
            .take(MAX_SLICES)
            .map(|part| match part {
                Part::Copied(range) => IoSlice::new(&self.copied[range.clone()]),
                Part::Shared(bytes) => IoSlice::new(bytes),
            })
            .collect()
    }

    /// Forgets the first `written` bytes.
    pub(crate) fn advance(&mut self, mut written: usize) {
        self.length -= written.min(self.length);
        while let Some(part) = self.parts.front_mut() {
            let length = match part {
                Part::Copied(range) => range.len(),
                Part::Shared(bytes) => bytes.len(),
            };
            if written < length {
                match part {
                    Part::Copied(range) => range.start += written,
                    Part::Shared(bytes) => bytes.advance(written),
                }
                return;
            }
            written -= length;
            self.parts.pop_front();
        }
        self.copied.clear();
    }
}
