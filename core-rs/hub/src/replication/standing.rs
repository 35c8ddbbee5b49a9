//! The hub's turns around the agreement: what clients hear, what is refused, whose link is ended.

use std::time::Duration;

use omniflow_control::{Code, Fault, Micros};
use omniflow_link::LinkSender;
use omniflow_wire::v1;
use omniflow_wire::v1::standby_status::State as StandbyState;

use super::agreement::{Agreement, Mark, Marked, Standing};
use crate::journal::Extent;
use crate::state::State;

const RETRY_AFTER_MS: u64 = 1_000;

/// A standby's place in the hub's state.
pub(crate) struct Replication {
    agreement: Agreement,
    /// The link of the session of that number.
    link: Option<(u64, LinkSender)>,
    sessions: u64,
    /// Name of the process at its other end.
    name: String,
    /// Who wrote which part of the leader's journal, as it was opened.
    extent: Extent,
    refusing: bool,
}

impl Replication {
    pub(crate) fn new(limit: Duration, extent: Extent) -> Self {
        Self {
            agreement: Agreement::new(limit.as_micros() as u64),
            link: None,
            sessions: 0,
            name: String::new(),
            extent,
            refusing: false,
        }
    }

    /// What a standby's journal has in common with this one, whose last record that was taken has that number.
    pub(crate) fn common(&self, taken: u64, theirs: &Extent) -> u64 {
        let mine = Extent {
            last: taken,
            ..self.extent.clone()
        };
        mine.common(theirs)
    }
}

impl State {
    /// The leader's own journal has everything up to this record: up to where clients may be told.
    pub(crate) fn agreed(&mut self, written: u64, now: Micros) -> u64 {
        let Some(replication) = &mut self.replication else {
            return written;
        };
        replication.agreement.wrote(written, now.0);
        replication.agreement.told()
    }

    /// Why no job can be taken now, though the own journal can be written.
    pub(crate) fn replication_refuses(&self) -> Option<Fault> {
        let replication = self.replication.as_ref()?;
        if !replication.agreement.refuses() {
            return None;
        }
        let message = "neither the standby scheduler nor etcd answers: what is accepted now could be lost with this machine";
        let cure = "submit it again in a while; bring the standby scheduler or etcd back (`omniflow status`)";
        let mut fault = Fault::new(Code::Unavailable, message, cure);
        fault.retry_after_ms = RETRY_AFTER_MS;
        Some(fault)
    }

    /// A standby's greeting: its session's number; none while another journal's standby follows.
    pub(crate) fn standby_follows(
        &mut self,
        name: &str,
        journal: &str,
        has: u64,
        sender: LinkSender,
        now: Micros,
    ) -> Option<u64> {
        let replication = self.replication.as_mut()?;
        let number = replication.sessions + 1;
        if !replication.agreement.follows(number, journal, has, now.0) {
            return None;
        }
        self.end_kicked();
        let replication = self.replication.as_mut()?;
        replication.sessions = number;
        name.clone_into(&mut replication.name);
        replication.link = Some((number, sender));
        self.standby_changed(now);
        Some(number)
    }

    /// Whether a standby may drop what it has: it must not lead with less.
    pub(crate) fn standby_may_begin_anew(&self) -> bool {
        let replication = self.replication.as_ref();
        replication.is_none_or(|replication| replication.agreement.is_alone())
    }

    /// Records come to it as they are made.
    pub(crate) fn standby_lives(&mut self, session: u64, after: u64, now: Micros) {
        self.with_agreement(now, |agreement| agreement.live(session, after, now.0));
    }

    pub(crate) fn standby_acked(&mut self, session: u64, last: u64, now: Micros) {
        self.with_agreement(now, |agreement| agreement.acked(session, last, now.0));
    }

    /// Its link is over; `left`: in good order.
    pub(crate) fn standby_gone(&mut self, session: u64, left: bool, now: Micros) {
        if let Some(replication) = &mut self.replication {
            replication.link.take_if(|(number, _)| *number == session);
        }
        self.with_agreement(now, |agreement| agreement.gone(session, left, now.0));
    }

    pub(crate) fn standby_tick(&mut self, now: Micros) {
        self.with_agreement(now, |agreement| agreement.tick(now.0));
    }

    /// What etcd is to be asked, once.
    pub(crate) fn take_mark(&mut self) -> Option<Mark> {
        self.replication.as_mut()?.agreement.take_mark()
    }

    pub(crate) fn has_mark(&self) -> bool {
        let replication = self.replication.as_ref();
        replication.is_some_and(|replication| replication.agreement.has_mark())
    }

    pub(crate) fn marked(&mut self, ticket: u64, answer: Marked, now: Micros) {
        self.with_agreement(now, |agreement| agreement.marked(ticket, answer, now.0));
    }

    /// How the standby is, for operators; none without one in the configuration.
    pub(crate) fn standby_status(&self) -> Option<v1::StandbyStatus> {
        let replication = self.replication.as_ref()?;
        let agreement = &replication.agreement;
        let state = match agreement.standing() {
            Standing::In => StandbyState::InSync,
            Standing::Removing => StandbyState::Leaving,
            _ if agreement.is_followed() => StandbyState::CatchingUp,
            _ => StandbyState::Away,
        };
        let followed = agreement.is_followed();
        Some(v1::StandbyStatus {
            name: replication.name.clone(),
            state: state.into(),
            behind: if followed { agreement.behind() } else { 0 },
        })
    }

    fn with_agreement(&mut self, now: Micros, change: impl FnOnce(&mut Agreement)) {
        if let Some(replication) = &mut self.replication {
            change(&mut replication.agreement);
            self.standby_changed(now);
        }
    }

    fn standby_changed(&mut self, now: Micros) {
        self.end_kicked();
        let Some(replication) = &mut self.replication else {
            return;
        };
        let told = replication.agreement.told();
        let refuses = replication.agreement.refuses();
        let begins = refuses && !std::mem::replace(&mut replication.refusing, refuses);
        replication.refusing = refuses;
        self.clients.written(told);
        if begins {
            self.refuse_unwritten(now);
        }
    }

    fn end_kicked(&mut self) {
        let Some(replication) = &mut self.replication else {
            return;
        };
        let kicked = replication.agreement.take_kick();
        let of_it = |(number, _): &mut (u64, LinkSender)| Some(*number) == kicked;
        if let Some((_, sender)) = replication.link.take_if(of_it) {
            sender.abort();
        }
    }
}
