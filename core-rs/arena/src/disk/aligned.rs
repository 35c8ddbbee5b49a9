//! Buffers that a disk can be read into and written from without a copy by the system.

use parking_lot::Mutex;

/// What direct reads and writes begin and end at: the block of every disk in use.
pub(super) const BLOCK: u64 = 4096;

/// Buffers kept for the next use; more threads than that at once make their own.
const KEPT: usize = 4;

/// Zeroed bytes that begin at a multiple of [`BLOCK`].
#[derive(Debug)]
pub(super) struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Self {
        let bytes = vec![0; len + BLOCK as usize];
        let start = bytes.as_ptr().align_offset(BLOCK as usize);
        Self { bytes, start, len }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// Whether a buffer can be read into or written from as it is.
pub(super) fn is_aligned(buffer: &[u8]) -> bool {
    let block = BLOCK as usize;
    buffer.as_ptr().align_offset(block) == 0 && buffer.len().is_multiple_of(block)
}

/// Buffers of one size.
#[derive(Debug)]
pub(super) struct Buffers {
    len: usize,
    spare: Mutex<Vec<Aligned>>,
}

impl Buffers {
    pub(super) fn new(len: usize) -> Self {
        Self {
            len,
            spare: Mutex::default(),
        }
    }

    /// Lends a buffer, whose content is left from before.
    pub(super) fn lend<T>(&self, work: impl FnOnce(&mut [u8]) -> T) -> T {
        let spare = self.spare.lock().pop();
        let mut buffer = spare.unwrap_or_else(|| Aligned::new(self.len));
        let done = work(buffer.bytes());
        let mut spare = self.spare.lock();
        if spare.len() < KEPT {
            spare.push(buffer);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_used_again() {
        let buffers = Buffers::new(3 * BLOCK as usize);
        let first = buffers.lend(|buffer| {
            assert!(is_aligned(buffer));
            assert_eq!(buffer.len(), 3 * BLOCK as usize);
            buffer.as_ptr()
        });
        assert_eq!(buffers.lend(|buffer| buffer.as_ptr()), first);
        assert!(!is_aligned(&[0; 100]));
    }
}
