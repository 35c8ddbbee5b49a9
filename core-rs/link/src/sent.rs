//! Pieces that were sent and that the peer has not said it has: what a new socket needs.

use std::collections::VecDeque;

use crate::batch::Batch;
use crate::error::Malformation;
use crate::message::Piece;

/// Pieces by number, without a gap, from the first that the peer may lack.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pieces: VecDeque<Piece>,
    /// The number of the first one; the peer has all before it.
    base: u64,
    /// How many of them went out on the present socket.
    on_socket: usize,
    bytes: usize,
}

impl Sent {
    /// Whether the peer lacks nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether pieces wait to be sent again; until then nothing new may go.
    pub(crate) fn is_behind(&self) -> bool {
        self.on_socket < self.pieces.len()
    }

    /// A piece that goes out on the present socket, behind all others.
    pub(crate) fn keep(&mut self, piece: Piece) {
        debug_assert_eq!(
            piece.header.sequence,
            self.next(),
            "pieces are kept in order"
        );
        debug_assert!(
            !self.is_behind(),
            "nothing new overtakes what is sent again"
        );
        self.bytes += piece.wire_bytes();
        self.pieces.push_back(piece);
        self.on_socket += 1;
    }

    /// The number after the last piece.
    fn next(&self) -> u64 {
        self.base + self.pieces.len() as u64
    }

    /// The peer has every piece below `next`. What it says again, or late, changes nothing.
    pub(crate) fn received(&mut self, next: u64) -> Result<(), Malformation> {
        if next > self.next() {
            return Err(Malformation::NeverSent {
                received: next,
                sent: self.next(),
            });
        }
        while self.base < next
            && let Some(piece) = self.pieces.pop_front()
        {
            self.bytes -= piece.wire_bytes();
            self.base += 1;
            self.on_socket = self.on_socket.saturating_sub(1);
        }
        Ok(())
    }

    /// Whether a peer that has every piece below `next` can be sent all others.
    pub(crate) fn covers(&self, next: u64) -> bool {
        (self.base..=self.next()).contains(&next)
    }

    /// There is a new socket, and the peer has every piece below `next`: the others go again.
    pub(crate) fn rewind(&mut self, next: u64) -> Result<(), Malformation> {
        self.received(next)?;
        self.on_socket = 0;
        Ok(())
    }

    /// Moves about `limit` bytes to `batch`, of what has to go again.
    pub(crate) fn resend(&mut self, batch: &mut Batch, limit: usize) {
        while self.is_behind() && batch.len() < limit {
            self.pieces[self.on_socket].write(batch);
            self.on_socket += 1;
        }
    }

    /// Everything is given up.
    pub(crate) fn forget(&mut self) {
        self.pieces = VecDeque::new();
        self.on_socket = 0;
        self.bytes = 0;
    }
}
