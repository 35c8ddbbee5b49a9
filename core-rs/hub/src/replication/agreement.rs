//! What clients may be told, while a standby follows: a state machine without clock or I/O.
//!
//! etcd has a set of journals that hold all that any client was told; only their schedulers may lead. A new leader's election
//! makes its own the only one. A standby that has caught up is *entered*: from then on clients wait for its acknowledgements,
//! and only then is etcd asked to admit it. It is in the set until etcd has said that it is not: a leader that asks without an
//! answer goes on waiting for the standby, and takes no new jobs while neither of the two is there.

/// Micros of the caller's clock.
type Time = u64;

/// How the standby's journal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not in the set: nobody waits for it.
    Out,
    /// Not in the set: clients wait for it, until it has this record, and then etcd is asked.
    Entering { needs: u64 },
    /// etcd is asked to take it into the set, which it may have done.
    Admitting,
    /// In the set.
    In,
    /// etcd is asked to take it out of the set, which it may not have done.
    Removing,
}

/// What etcd is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Names the request in its answer.
    pub ticket: u64,
    /// The journal that the set holds beside the leader's; none: the leader's alone.
    pub standby: Option<String>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// It is written.
    Done,
    /// No answer came: it may be written.
    Unknown,
    /// Another leader has been elected: nothing is told any more.
    Superseded,
}

/// A standby's link.
#[derive(Clone, Debug)]
struct Session {
    number: u64,
    journal: String,
    acked: u64,
    /// Records come to it as they are made, from the one after this on.
    live: Option<u64>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Agreement {
    limit: Time,
    written: u64,
    told: u64,
    standing: Standing,
    /// Whose standing it is.
    journal: String,
    /// What that one has.
    acked: u64,
    session: Option<Session>,
    /// Since when clients wait for it and nothing comes.
    silent_since: Option<Time>,
    mark: Option<Mark>,
    /// The mark was handed out: etcd may have it.
    asked: bool,
    tickets: u64,
    /// The last question had no answer.
    unanswered: bool,
    superseded: bool,
    kick: Option<u64>,
}

impl Agreement {
    /// A leader that is alone in the set; a standby that is silent for longer than `limit` is taken out of it.
    pub(crate) fn new(limit: Time) -> Self {
        Self {
            limit,
            written: 0,
            told: 0,
            standing: Standing::Out,
            journal: String::new(),
            acked: 0,
            session: None,
            silent_since: None,
            mark: None,
            asked: false,
            tickets: 0,
            unanswered: false,
            superseded: false,
            kick: None,
        }
    }

    /// Up to this record clients may be told.
    pub(crate) fn told(&self) -> u64 {
        self.told
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether the set has the leader's journal alone, so that a standby may drop what it has.
    pub(crate) fn is_alone(&self) -> bool {
        self.standing == Standing::Out
    }

    /// Whether a standby's link is there.
    pub(crate) fn is_followed(&self) -> bool {
        self.session.is_some()
    }

    /// Records that the standby, if there is one, has not acknowledged.
    pub(crate) fn behind(&self) -> u64 {
        let acked = self.session.as_ref().map_or(0, |session| session.acked);
        self.written.saturating_sub(acked)
    }

    /// New jobs are refused: neither the standby nor etcd is there to say that they are safe.
    pub(crate) fn refuses(&self) -> bool {
        let waits = self.standing == Standing::Removing && self.unanswered;
        self.superseded || (waits && !self.is_live())
    }

    /// The next question for etcd, once.
    pub(crate) fn take_mark(&mut self) -> Option<Mark> {
        if self.asked {
            return None;
        }
        self.asked = self.mark.is_some();
        self.mark.clone()
    }

    /// Whether there is one.
    pub(crate) fn has_mark(&self) -> bool {
        self.mark.is_some() && !self.asked
    }

    /// A session that is to be ended, once.
    pub(crate) fn take_kick(&mut self) -> Option<u64> {
        self.kick.take()
    }

    /// The leader's own journal has everything up to this record.
    pub(crate) fn wrote(&mut self, last: u64, now: Time) {
        self.written = self.written.max(last);
        self.settle(now);
    }

    /// A standby's link: which journal it has, and what of the leader's. False: another one follows.
    pub(crate) fn follows(&mut self, number: u64, journal: &str, has: u64, now: Time) -> bool {
        if let Some(known) = &self.session {
            if known.journal != journal {
                return false;
            }
            self.kick = Some(known.number);
        }
        self.session = Some(Session {
            number,
            journal: journal.to_owned(),
            acked: has,
            live: None,
        });
        if self.is_of_the_set() {
            self.acked = has;
            // Its machine died and forgot what it had said, or it has to begin anew. It must not lead.
            if has < self.told {
                self.remove();
            }
        }
        self.settle(now);
        true
    }

    /// Its link brings records as they are made, from the one after this on.
    pub(crate) fn live(&mut self, number: u64, after: u64, now: Time) {
        if let Some(session) = self.session.as_mut().filter(|known| known.number == number) {
            session.live = Some(after);
        }
        self.settle(now);
    }

    /// Its journal has everything up to this record.
    pub(crate) fn acked(&mut self, number: u64, last: u64, now: Time) {
        let Some(session) = self.session.as_mut().filter(|known| known.number == number) else {
            return;
        };
        session.acked = session.acked.max(last);
        let acked = session.acked;
        if self.is_of_the_set() && acked > self.acked {
            self.acked = acked;
            self.silent_since = None;
        }
        self.settle(now);
    }

    /// Its link is gone; `left`: it said that it goes.
    pub(crate) fn gone(&mut self, number: u64, left: bool, now: Time) {
        if self
            .session
            .take_if(|known| known.number == number)
            .is_none()
        {
            return;
        }
        let of_the_set = self.is_waited_for();
        if of_the_set && (left || matches!(self.standing, Standing::Entering { .. })) {
            self.remove();
        }
        self.settle(now);
    }

    /// Time passes.
    pub(crate) fn tick(&mut self, now: Time) {
        let silent = self.silent_since.map(|since| now.saturating_sub(since));
        if silent.is_some_and(|silent| silent > self.limit) {
            self.remove();
            // It comes again and catches up, if it lives.
            let session = self.session.take_if(|known| known.journal == self.journal);
            self.kick = session.map(|session| session.number).or(self.kick);
        }
        self.settle(now);
    }

    /// What became of a question.
    pub(crate) fn marked(&mut self, ticket: u64, answer: Marked, now: Time) {
        if answer == Marked::Superseded {
            self.superseded = true;
        }
        if self.mark.as_ref().is_none_or(|mark| mark.ticket != ticket) {
            return;
        }
        let mark = self.mark.take();
        self.asked = false;
        self.unanswered = answer == Marked::Unknown;
        match answer {
            Marked::Done => {
                self.standing = match self.standing {
                    Standing::Admitting => Standing::In,
                    Standing::Removing => Standing::Out,
                    other => other,
                }
            }
            Marked::Unknown => self.ask(mark.and_then(|mark| mark.standby)),
            Marked::Superseded => {}
        }
        self.settle(now);
    }

    fn ask(&mut self, standby: Option<String>) {
        self.tickets += 1;
        let ticket = self.tickets;
        self.mark = Some(Mark { ticket, standby });
        self.asked = false;
    }

    /// Out of the set, which takes etcd's word where it may be in it.
    fn remove(&mut self) {
        match self.standing {
            Standing::Out | Standing::Removing => {}
            Standing::Entering { .. } => self.standing = Standing::Out,
            // Nobody has been asked yet.
            Standing::Admitting if self.has_mark() && !self.unanswered => {
                self.mark = None;
                self.standing = Standing::Out;
            }
            Standing::Admitting | Standing::In => {
                self.standing = Standing::Removing;
                self.unanswered = false;
                self.ask(None);
            }
        }
    }

    /// Whether clients wait for the standby.
    fn is_waited_for(&self) -> bool {
        self.standing != Standing::Out
    }

    /// Whether the link is that of the journal that clients wait for.
    fn is_of_the_set(&self) -> bool {
        let same = |session: &Session| session.journal == self.journal;
        self.is_waited_for() && self.session.as_ref().is_some_and(same)
    }

    fn is_live(&self) -> bool {
        let live = |session: &Session| session.live.is_some();
        self.is_of_the_set() && self.session.as_ref().is_some_and(live)
    }

    /// What follows from what has changed.
    fn settle(&mut self, now: Time) {
        if self.superseded {
            return;
        }
        self.enter();
        if let Standing::Entering { needs } = self.standing
            && self.acked >= needs
        {
            self.standing = Standing::Admitting;
            self.unanswered = false;
            self.ask(Some(self.journal.clone()));
        }
        let may_tell = if self.is_waited_for() {
            self.written.min(self.acked)
        } else {
            self.written
        };
        self.told = self.told.max(may_tell);
        let waits = matches!(
            self.standing,
            Standing::Entering { .. } | Standing::Admitting | Standing::In
        );
        let silent = self.acked < self.written || !self.is_of_the_set();
        self.silent_since = if waits && silent {
            self.silent_since.or(Some(now))
        } else {
            None
        };
    }

    /// A standby that has all that was in files when its live stream began, and is not in the set.
    fn enter(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let caught_up = session.live.is_some_and(|after| session.acked >= after);
        if self.standing == Standing::Out && caught_up {
            self.journal.clone_from(&session.journal);
            self.acked = session.acked;
            self.standing = Standing::Entering { needs: self.told };
        }
    }
}
