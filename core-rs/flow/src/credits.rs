//! How much of a stream may be on its way, as its reader and its sender count it (rule 10).

/// How many frames, and how many bytes in them, from a stream's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Their number.
    pub frames: u64,
    /// What is in them.
    pub bytes: u64,
}

impl Amount {
    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            frames: self.frames.saturating_add(other.frames),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// What is more than the other; never below nothing.
    pub fn minus(self, other: Self) -> Self {
        Self {
            frames: self.frames.saturating_sub(other.frames),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// Rounded down.
    pub fn half(self) -> Self {
        Self {
            frames: self.frames / 2,
            bytes: self.bytes / 2,
        }
    }

    /// In frames or in bytes.
    pub fn reaches(self, other: Self) -> bool {
        self.frames >= other.frames || self.bytes >= other.bytes
    }

    /// Whether one more frame fits behind so much. The last one may go beyond: what is larger than a window has to get
    /// through too.
    pub fn has_room(self, sent: Self) -> bool {
        sent.frames < self.frames && sent.bytes < self.bytes
    }
}

/// What a reader lets its producer do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// So much may come to the reader, from the stream's beginning. What is beyond stays with its producer.
    pub passes: Amount,
    /// The reader is behind: its producer is to make no more than that, either.
    pub holds: bool,
}

impl Grant {
    /// Whether a producer that has made so much may make one frame more.
    pub fn has_room(self, made: Amount) -> bool {
        !self.holds || self.passes.has_room(made)
    }
}

/// Counts what is read of a stream, and says when its producer has to hear of it. Before anything is said, a window may
/// come.
#[derive(Debug, Default)]
pub struct Meter {
    read: Amount,
    told: Option<Amount>,
    holds: bool,
}

impl Meter {
    /// Something was read, and so much waits unread. A window more than was read may come, which is said again with every
    /// half of it. A reader that has half of it unread is behind.
    pub fn note(&mut self, read: Amount, unread: Amount, window: Amount) -> Option<Grant> {
        self.read = self.read.plus(read);
        let target = self.read.plus(window);
        let behind = !self.holds && unread.reaches(window.half());
        let moved = target.minus(self.told.unwrap_or(window));
        if !behind && !moved.reaches(window.half()) {
            return None;
        }
        self.told = Some(target);
        self.holds |= behind;
        Some(Grant {
            passes: target,
            holds: self.holds,
        })
    }

    /// What was read.
    pub fn read(&self) -> Amount {
        self.read
    }

    /// What the producer may do now, for one that does not know it.
    pub fn now(&mut self, window: Amount) -> Grant {
        let passes = self.read.plus(window);
        self.told = Some(passes);
        Grant {
            passes,
            holds: self.holds,
        }
    }

    /// The reader waits for something else, or reads no more: this must not hold its producer up.
    pub fn lift(&mut self) -> Option<Grant> {
        let passes = self.told.filter(|_| self.holds)?;
        self.holds = false;
        Some(Grant {
            passes,
            holds: false,
        })
    }
}
