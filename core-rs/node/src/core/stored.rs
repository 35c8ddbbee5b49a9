//! One kept item: in memory, or its payload on disk.

use bytes::Bytes;
use omniflow_flow::Item;

use crate::core::retention::Kept;
use crate::spill::{Slot, Spill, SpillError};

/// What an item costs beside its payload.
pub(crate) const ITEM_BYTES: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) enum Stored {
    Here(Kept),
    /// A frame.
    Away {
        epoch: u32,
        seq: u64,
        slot: Slot,
    },
}

impl Stored {
    pub(crate) fn epoch(&self) -> u32 {
        match self {
            Self::Here(kept) => kept.epoch,
            Self::Away { epoch, .. } => *epoch,
        }
    }

    pub(crate) fn is_frame(&self) -> bool {
        match self {
            Self::Here(kept) => matches!(kept.item, Item::Frame { .. }),
            Self::Away { .. } => true,
        }
    }

    /// Of the job's quota.
    pub(crate) fn cost(&self) -> usize {
        match self {
            Self::Here(kept) => cost(&kept.item),
            Self::Away { slot, .. } => ITEM_BYTES + slot.len(),
        }
    }

    pub(crate) fn here(&self) -> Option<&Kept> {
        match self {
            Self::Here(kept) => Some(kept),
            Self::Away { .. } => None,
        }
    }

    pub(crate) fn load(&self, spill: &Spill) -> Result<Kept, SpillError> {
        Ok(match self {
            Self::Here(kept) => kept.clone(),
            Self::Away { epoch, seq, slot } => Kept {
                epoch: *epoch,
                item: Item::Frame {
                    seq: *seq,
                    payload: spill.get(slot)?,
                },
            },
        })
    }
}

/// What keeping an item costs.
pub(crate) fn cost(item: &Item<Bytes>) -> usize {
    match item {
        Item::Frame { payload, .. } => ITEM_BYTES + payload.len(),
        Item::End { .. } | Item::Closed => ITEM_BYTES,
    }
}

/// What is kept no longer: whoever gets it gives it back to the worker.
#[must_use]
#[derive(Debug, Default)]
pub(crate) struct Freed {
    /// Of the job's quota.
    pub(crate) bytes: usize,
    /// Of those, in memory.
    pub(crate) memory: usize,
    /// What was on disk.
    pub(crate) slots: Vec<Slot>,
}

impl Freed {
    pub(crate) fn add(&mut self, stored: Stored) {
        self.bytes += stored.cost();
        match stored {
            Stored::Here(kept) => self.memory += cost(&kept.item),
            Stored::Away { slot, .. } => {
                self.memory += ITEM_BYTES;
                self.slots.push(slot);
            }
        }
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.memory += other.memory;
        self.slots.extend(other.slots);
    }
}

impl FromIterator<Stored> for Freed {
    fn from_iter<I: IntoIterator<Item = Stored>>(items: I) -> Self {
        let mut freed = Self::default();
        items.into_iter().for_each(|stored| freed.add(stored));
        freed
    }
}
