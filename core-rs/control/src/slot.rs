//! Where a role node stands, for one key of its binds.

use omniflow_placement::WorkerId;

use crate::event::NodeState;

/// How a bind stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Nobody has asked for it. (Control nodes are never asked for.)
    Unasked,
    /// It was closed before anybody asked for it: there is nothing to run.
    Closed,
    /// To be placed.
    Wanted,
    /// A worker has it; it counts in the ledger.
    Held,
    /// It counts no longer. Its worker is known still: others may have to send there, or to be sent from there.
    Over,
}

/// The current attempt at a bind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// The attempt's number; before the first one, that of the last life of the scheduler.
    pub(crate) epoch: u32,
    /// Who has it, or had it last.
    pub(crate) worker: WorkerId,
    /// Its latest entry among the job's attempts, plus one; 0 without one.
    entry: u32,
    pub(crate) stand: Stand,
    /// How far its latest activation is.
    pub(crate) state: NodeState,
    /// Some attempt of it has said that it sent something.
    pub(crate) sent: bool,
    /// One that is lost had, made of what it had read, which others may not have.
    pub(crate) lost_sent: bool,
    /// It was stopped while it ran, for nobody wanted more of it: what was kept of it has no end.
    pub(crate) cut: bool,
    /// How often it went elsewhere before it had started: those epochs were no attempts.
    pub(crate) moves: u8,
}

impl Slot {
    pub(crate) fn new(epoch: u32, stand: Stand) -> Self {
        Self {
            epoch,
            worker: WorkerId(0),
            entry: 0,
            stand,
            state: NodeState::Bound,
            sent: false,
            lost_sent: false,
            cut: false,
            moves: 0,
        }
    }

    pub(crate) fn entry(&self) -> Option<usize> {
        (self.entry as usize).checked_sub(1)
    }

    pub(crate) fn set_entry(&mut self, entry: Option<usize>) {
        self.entry = entry.map_or(0, |entry| entry as u32 + 1);
    }

    /// Whether a worker has it, or had it until it was over.
    pub(crate) fn is_placed(&self) -> bool {
        matches!(self.stand, Stand::Held | Stand::Over)
    }

    /// Whether it was ever given to a worker. `floor` is the job's; a bind that was adopted is of an earlier life.
    pub(crate) fn has_begun(&self, floor: u32) -> bool {
        self.epoch > floor || self.sent || self.worker != WorkerId(0)
    }

    /// How many attempts there were after the epoch `floor`.
    pub(crate) fn attempts(&self, floor: u32) -> u32 {
        // One that was adopted has an epoch of an earlier life.
        let epochs = self.epoch.saturating_sub(floor);
        epochs.saturating_sub(u32::from(self.moves))
    }

    pub(crate) fn is_at(&self, worker: WorkerId) -> bool {
        self.is_placed() && self.worker == worker
    }

    /// Whether an activation has its inputs and has not said that it ended. (One that is still bound may never run: its
    /// path may be dead.)
    pub(crate) fn is_about_to_report(&self) -> bool {
        self.is_placed() && (NodeState::Queued..NodeState::Done).contains(&self.state)
    }
}
