//! Who sits where: holders by number, numbered from 0 for the bit sets.

use std::collections::HashMap;

use crate::cluster::Holder;
use crate::holders::Seat;

/// Seats are given again, so that sets stay as small as the cluster, however often its workers were restarted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seats {
    seats: HashMap<Holder, Seat>,
    holders: Vec<Option<Holder>>,
    free: Vec<Seat>,
}

impl Seats {
    pub(crate) fn seat(&self, holder: Holder) -> Option<Seat> {
        self.seats.get(&holder).copied()
    }

    pub(crate) fn holder(&self, seat: Seat) -> Option<Holder> {
        self.holders.get(seat as usize).copied().flatten()
    }

    /// A seat for a holder that has none.
    pub(crate) fn take(&mut self, holder: Holder) -> Seat {
        let seat = self.free.pop().unwrap_or(self.holders.len() as Seat);
        if seat as usize == self.holders.len() {
            self.holders.push(None);
        }
        self.holders[seat as usize] = Some(holder);
        self.seats.insert(holder, seat);
        seat
    }

    pub(crate) fn leave(&mut self, seat: Seat) {
        let Some(holder) = self.holders[seat as usize].take() else {
            return;
        };
        self.seats.remove(&holder);
        self.free.push(seat);
        if self.seats.is_empty() {
            *self = Self::default();
        }
    }
}
