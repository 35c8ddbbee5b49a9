//! How much may be on its way, as its reader and its sender count it. Pure.

/// How many frames, and how many bytes in them, from a stream's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
}

impl Amount {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            frames: self.frames.saturating_add(other.frames),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            frames: self.frames.saturating_sub(other.frames),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    fn half(self) -> Self {
        Self {
            frames: self.frames / 2,
            bytes: self.bytes / 2,
        }
    }

    /// In frames or in bytes.
    fn reaches(self, other: Self) -> bool {
        self.frames >= other.frames || self.bytes >= other.bytes
    }
}

/// What a reader lets its producer send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// As much as the producer can keep: the reader has not begun, keeps up, or waits for something else.
    All,
    /// Up to here: the reader is behind.
    Upto(Amount),
}

impl Grant {
    /// Whether a producer that has sent so much may send one more. The last frame may go beyond: what is larger than a
    /// window has to get through too.
    pub(crate) fn has_room(self, sent: Amount) -> bool {
        match self {
            Self::All => true,
            Self::Upto(limit) => sent.frames < limit.frames && sent.bytes < limit.bytes,
        }
    }
}

/// Counts what is read of a stream, and says when its producer has to hear of it.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    read: Amount,
    granted: Option<Amount>,
}

impl Meter {
    /// Something was read, and so much waits unread. A reader that keeps up says nothing; one that is a window behind
    /// grants a window more than it has read, and again with every half of it.
    pub(crate) fn note(&mut self, read: Amount, unread: Amount, window: Amount) -> Option<Grant> {
        self.read = self.read.plus(read);
        let target = self.read.plus(window);
        let due = match self.granted {
            None => unread.reaches(window),
            Some(granted) => target.minus(granted).reaches(window.half()),
        };
        due.then(|| {
            self.granted = Some(target);
            Grant::Upto(target)
        })
    }

    /// The reader waits for something else, or reads no more: this must not hold its producer up.
    pub(crate) fn lift(&mut self) -> Option<Grant> {
        self.granted.take().map(|_| Grant::All)
    }
}
