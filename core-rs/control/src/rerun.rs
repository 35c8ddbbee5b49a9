//! Which binds run again when a worker has died (rules 11 and 12).
//!
//! Lost are the dead worker's binds that are not over, and those that are, but whose frames somebody still needs: a worker
//! retains what it sent, and the dead one's retention is gone. So are those that were stopped because a reader that runs again
//! wanted no more of them: it may want more now, which nobody has kept. That goes on upstream, to the job's inputs, which the
//! scheduler keeps. Consumers that live keep what was delivered to them, for a new attempt sends the same, unless it comes
//! from a node that is not deterministic, or reads what is new: then all that may have read it runs again too, or, when some
//! of that is with the client, the job cannot go on. A resumable node is different: it goes on from what its living readers
//! hold, whatever it would say instead, so that only those of them run on something new that are lost themselves.
//!
//! Control nodes live and die with the node at whose side they run. When that is a loop, it runs all its rounds again. Of a scope that has ended, the frames inside are gone,
//! while what has left it is kept by the workers that made it. So whoever has read from it can read again as long as those
//! live; whoever needs more than that needs the whole job again, from its inputs. The same holds for a scope in a loop of
//! which a round is over, and for one whose end a living worker may just be telling.

use std::collections::BTreeSet;

use omniflow_flow::Key;

use crate::event::NodeState;
use crate::fleet::Fleet;
use crate::job::Job;
use crate::plan::{Link, Plan, PlannedNode};
use crate::slot::{Slot, Stand};

/// A bind: the node, and the key.
pub(crate) type At = (usize, Key);

/// What becomes of a job that has lost a worker.
#[derive(Debug)]
pub(crate) enum Rerun {
    /// These run again; the first ones are lost, the others have read what is no longer true.
    Binds {
        lost: BTreeSet<At>,
        again: BTreeSet<At>,
        /// Of what runs again or waits for a place: what reads something new, so that nothing of it can be gone on from.
        new: BTreeSet<At>,
    },
    /// Everything does.
    Everything,
    /// The client has something of this node that a new attempt would contradict.
    Never(At),
}

/// Decides it. Nothing is changed.
pub(crate) fn rerun(job: &Job, plan: &Plan, fleet: &Fleet) -> Rerun {
    let mut search = Search {
        job,
        plan,
        fleet,
        again: BTreeSet::new(),
        new: BTreeSet::new(),
        everything: false,
    };
    search.add_lost();
    let lost = search.placed();
    // A reader that runs again may need producers that had ended and are gone, and those may have other readers.
    loop {
        match search.add_readers() {
            Err(node) => return Rerun::Never(node),
            Ok(true) => search.add_lost(),
            Ok(false) => break,
        }
    }
    if search.everything || search.reads_what_is_gone() {
        return match shown_by_chance(job, plan) {
            Some(node) => Rerun::Never((node, Key::ROOT)),
            None => Rerun::Everything,
        };
    }
    let (again, new) = (search.placed(), search.new);
    Rerun::Binds { lost, again, new }
}

struct Search<'a> {
    job: &'a Job,
    plan: &'a Plan,
    fleet: &'a Fleet,
    /// What runs again, and what is to be placed anyway.
    again: BTreeSet<At>,
    /// Of these, what reads something new.
    new: BTreeSet<At>,
    everything: bool,
}

impl Search<'_> {
    /// Of what runs again, that which has a place now.
    fn placed(&self) -> BTreeSet<At> {
        let placed = |(node, key): &&At| {
            let slot = self.job.slots.get(*node, key);
            slot.is_some_and(Slot::is_placed)
        };
        self.again.iter().filter(placed).cloned().collect()
    }

    /// Adds what died and is needed, until nothing is added.
    fn add_lost(&mut self) {
        let (job, mut ended) = (self.job, Vec::new());
        for (node, key, slot) in job.slots.iter() {
            let dead = slot.is_placed() && !self.fleet.is_alive(slot.worker);
            match slot.stand {
                // Waits for a place already: its producers are looked at as if it were lost now.
                Stand::Wanted => _ = self.again.insert((node, key.clone())),
                Stand::Held if dead && !self.is_over(node, key) => {
                    self.again.insert((node, key.clone()));
                }
                Stand::Over if (dead || slot.cut) && !self.is_over(node, key) => {
                    ended.push((node, key, dead));
                }
                _ => {}
            }
        }
        loop {
            let before = self.again.len();
            ended.retain(|(node, key, dead)| {
                let needed = match dead {
                    true => self.is_needed(*node, key),
                    false => self.is_read_again(*node, key),
                };
                if needed {
                    self.again.insert((*node, (*key).clone()));
                }
                !needed
            });
            self.add_rounds();
            if self.again.len() == before {
                return;
            }
        }
    }

    /// A loop that is lost begins again with its first round, of which the others have let go: they begin again, too.
    fn add_rounds(&mut self) {
        let (job, plan) = (self.job, self.plan);
        for (node, key) in self.again.clone() {
            let began = |slot: &Slot| slot.has_begun(job.floor);
            if !job.slots.get(node, &key).is_some_and(began) {
                continue;
            }
            let scopes = plan.nodes[node].closes.iter();
            let scopes = scopes.map(|scope| &plan.scopes[*scope as usize]);
            let loops = scopes.filter(|scope| scope.is_loop);
            for inside in loops.flat_map(|scope| &scope.inside) {
                let inside = *inside as usize;
                let bound = job.slots.under(inside, &key);
                let bound = bound.filter(|(_, slot)| slot.is_placed());
                self.again
                    .extend(bound.map(|(key, _)| (inside, key.clone())));
            }
        }
    }

    /// Whether the bind is in a fan-out that has ended.
    fn is_over(&self, node: usize, key: &Key) -> bool {
        !key.is_root() && self.job.is_over(self.plan, &self.plan.nodes[node], key)
    }

    /// Whether somebody still needs frames of a bind that is over, and whose retention is gone.
    fn is_needed(&self, node: usize, key: &Key) -> bool {
        let planned = &self.plan.nodes[node];
        let open = |port: &u32| self.job.open_results.get(*port as usize) == Some(&true);
        planned.results.iter().any(open) || planned.readers.iter().any(|link| self.lacks(link, key))
    }

    /// Whether some reader of the bind runs again.
    fn is_read_again(&self, node: usize, key: &Key) -> bool {
        self.plan.nodes[node].readers.iter().any(|link| {
            let prefix = key.prefix(link.common);
            let mut readers = self.job.slots.under(link.node as usize, &prefix);
            readers.any(|(at, _)| self.again.contains(&(link.node as usize, at.clone())))
        })
    }

    /// Whether a reader of what the bind sent may lack some of it.
    fn lacks(&self, link: &Link, key: &Key) -> bool {
        let (reader, prefix) = (link.node as usize, key.prefix(link.common));
        if link.into > 0 {
            // There may be keys that nobody has asked for yet.
            return !self.job.has_ended(link.into, &prefix);
        }
        if self.again.contains(&(reader, prefix.clone())) {
            return true;
        }
        if link.closes > 0 && self.job.was_read(link.closes, &prefix) {
            return false;
        }
        let Some(slot) = self.job.slots.get(reader, &prefix) else {
            return !self.is_over(reader, &prefix);
        };
        // A reader has everything for certain only once it has ended or, of a plain input, is queued: a producer's report
        // may have overtaken its frames.
        match slot.stand {
            Stand::Unasked | Stand::Wanted => true,
            Stand::Closed | Stand::Over => false,
            Stand::Held => slot.state == NodeState::Bound || !link.whole,
        }
    }

    /// Adds what may have read frames that a new attempt will not send again, until nothing is added. Whether that was
    /// anything; the error names a node of which the client has such frames.
    fn add_readers(&mut self) -> Result<bool, At> {
        let before = self.again.len();
        let mut open: Vec<At> = self.again.iter().cloned().collect();
        while let Some((node, key)) = open.pop() {
            let planned = &self.plan.nodes[node];
            let at = (node, key);
            let sends_new = !planned.deterministic || self.new.contains(&at);
            let slot = self.job.slots.get(at.0, &at.1);
            let may_have_sent = slot.is_some_and(|slot| {
                self.job.may_have_sent(planned, slot)
                    || planned.forwards && (slot.is_placed() || slot.has_begun(self.job.floor))
            });
            if !sends_new || !may_have_sent {
                continue;
            }
            if self.goes_on(&at) {
                self.add_lost_readers(&at, &mut open);
                continue;
            }
            if planned.results.iter().any(|port| self.has_shown(*port)) {
                return Err(at);
            }
            for link in &planned.readers {
                let prefix = at.1.prefix(link.common);
                let over = match link.into {
                    0 => self.is_over(link.node as usize, &prefix),
                    into => self.job.has_ended(into, &prefix),
                };
                self.everything |= over;
                let under = self.job.slots.under(link.node as usize, &prefix);
                for (key, slot) in under {
                    let reader = (link.node as usize, key.clone());
                    let reads = slot.is_placed() || slot.stand == Stand::Wanted;
                    if reads && self.new.insert(reader.clone()) {
                        self.again.insert(reader.clone());
                        open.push(reader);
                    }
                }
            }
        }
        Ok(self.again.len() > before)
    }

    /// Whether its next attempt can go on from what was delivered, and nothing that anybody has been given is contradicted by
    /// that: its readers' places keep it until the job is over, and the scheduler's, which shows it to the client, until it
    /// dies itself. Inside of fan-outs they keep it until the reader is over, which is too short to be sure. What a reader had
    /// heard that is dead, and over or has told on what it made of it, nobody knows any more.
    fn goes_on(&self, at: &At) -> bool {
        let planned = &self.plan.nodes[at.0];
        let forgotten = self.job.adopted && !planned.results.is_empty();
        let is_gone = |link: &Link| {
            let slot = self.job.slots.get(link.node as usize, &Key::ROOT);
            let over = |slot: &Slot| slot.stand == Stand::Over && !self.fleet.is_alive(slot.worker);
            slot.is_some_and(|slot| slot.lost_sent || over(slot))
        };
        planned.resumes
            && at.1.is_root()
            && !self.new.contains(at)
            && !forgotten
            && !planned.readers.iter().any(is_gone)
    }

    /// What had been delivered to a reader that is lost may go on otherwise than it had read.
    fn add_lost_readers(&mut self, at: &At, open: &mut Vec<At>) {
        for link in &self.plan.nodes[at.0].readers {
            let prefix = at.1.prefix(link.common);
            for (key, _) in self.job.slots.under(link.node as usize, &prefix) {
                let reader = (link.node as usize, key.clone());
                if self.again.contains(&reader) && self.new.insert(reader.clone()) {
                    open.push(reader);
                }
            }
        }
    }

    /// Whether a living worker may be saying right now that a scope has ended which is to begin again.
    fn may_yet_leave(&self, node: usize, key: &Key) -> bool {
        let slot = self.job.slots.get(node, key);
        let lives = |slot: &Slot| slot.is_placed() && self.fleet.is_alive(slot.worker);
        !self.plan.nodes[node].closes.is_empty() && slot.is_some_and(lives)
    }

    /// Whether frames of the result may be with the client. (Results that are not over are not told apart.)
    fn has_shown(&self, port: u32) -> bool {
        self.job.has_shown(port)
    }

    /// Whether something runs again that reads from inside of a scope that has ended, or from what a dead worker kept of it.
    fn reads_what_is_gone(&self) -> bool {
        if self
            .job
            .has_lost_what_is_read(|worker| self.fleet.is_alive(worker))
        {
            return true;
        }
        let read_before = |(node, key): &&At| {
            let slot = self.job.slots.get(*node, key);
            slot.is_some_and(|slot| slot.has_begun(self.job.floor))
        };
        self.again.iter().filter(read_before).any(|(node, key)| {
            let planned = &self.plan.nodes[*node];
            let mut ended = self.job.ended_beside(planned, key);
            let gone = ended.any(|(scope, ended)| {
                let is_loop = self.plan.scopes[scope as usize].is_loop;
                is_loop || !ended.is_kept(|worker| self.fleet.is_alive(worker))
            });
            gone || self.job.has_turned(planned, key) || self.may_yet_leave(*node, key)
        })
    }
}

/// A node that is not deterministic, when the client has anything of the job.
pub(crate) fn shown_by_chance(job: &Job, plan: &Plan) -> Option<usize> {
    let shown = job.first_frame.is_some() || job.open_results.contains(&false);
    let chance = |node: &PlannedNode| node.role.is_some() && !node.deterministic;
    let node = plan.nodes.iter().position(chance);
    node.filter(|_| shown)
}
