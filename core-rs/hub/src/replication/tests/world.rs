//! Two schedulers, a link between them, and an etcd: as lists.

use std::collections::{BTreeSet, VecDeque};

use super::parts::{Delayed, Entry, Etcd, Leads, Link, Message, Node, Op, extent, name};
use crate::replication::agreement::{Agreement, Mark, Marked};

pub(super) const LIMIT: u64 = 50;

#[derive(Debug)]
pub(super) struct World {
    nodes: [Node; 2],
    etcd: Etcd,
    link: Option<Link>,
    delayed: Vec<Delayed>,
    told: BTreeSet<Entry>,
    latest: usize,
    numbers: u64,
    now: u64,
}

impl World {
    /// The first one leads, alone.
    pub(super) fn new() -> Self {
        let mut world = Self {
            nodes: [Node::default(), Node::default()],
            etcd: Etcd {
                up: true,
                set: BTreeSet::from([0, 1]),
                revision: 1,
                leader: None,
                term: 0,
            },
            link: None,
            delayed: Vec::new(),
            told: BTreeSet::new(),
            latest: 0,
            numbers: 0,
            now: 1,
        };
        world.step(&Op::Elect(0));
        world
    }

    /// The first one leads, the second one is in sync.
    pub(super) fn in_sync() -> Self {
        let mut world = Self::new();
        for op in [Op::Submit(0), Op::Take(0), Op::Persist(0), Op::Connect] {
            world.step(&op);
        }
        world.deliver();
        world.step(&Op::Mark(0));
        assert!(world.etcd.set.contains(&1));
        world
    }

    pub(super) fn agreement(&self, node: usize) -> Option<&Agreement> {
        self.nodes[node]
            .leads
            .as_ref()
            .map(|leads| &leads.agreement)
    }

    /// Of the latest leader, with its last entry's number.
    pub(super) fn leading(&self) -> (&Agreement, u64) {
        let node = &self.nodes[self.latest];
        let leads = node.leads.as_ref().expect("somebody leads");
        (&leads.agreement, node.log.len() as u64)
    }

    /// Everything that is under way arrives.
    pub(super) fn deliver(&mut self) {
        for _ in 0..64 {
            self.step(&Op::ToFollower);
            self.step(&Op::ToLeader);
        }
    }

    /// Nothing is wrong any more, for long enough.
    pub(super) fn heal(&mut self) {
        let all = [
            Op::Etcd(true),
            Op::DelayedArrives,
            Op::Restart(0),
            Op::Restart(1),
        ];
        for _ in 0..8 {
            all.iter().for_each(|op| self.step(op));
            for node in 0..2 {
                [
                    Op::Elect(node),
                    Op::Mark(node),
                    Op::Mark(node),
                    Op::Take(node),
                    Op::Persist(node),
                ]
                .iter()
                .for_each(|op| self.step(op));
                let stale = self.nodes[node].leads.as_ref();
                if stale.is_some_and(|leads| leads.term < self.etcd.term) {
                    self.step(&Op::Crash(node));
                    self.step(&Op::Restart(node));
                }
            }
            self.step(&Op::Pass(1));
            self.step(&Op::Connect);
            self.deliver();
        }
    }

    /// What was told is in the journal of whoever was elected last.
    pub(super) fn check(&self) -> Result<(), String> {
        let latest: BTreeSet<Entry> = self.nodes[self.latest].log.iter().copied().collect();
        match self.told.iter().find(|entry| !latest.contains(entry)) {
            None => Ok(()),
            Some(lost) => Err(format!("{lost:?} was told, and {} lacks it", self.latest)),
        }
    }

    pub(super) fn step(&mut self, op: &Op) {
        match *op {
            Op::Submit(node) => {
                self.numbers += 1;
                let number = self.numbers;
                if let Some(leads) = &mut self.nodes[node].leads {
                    leads.made.push((leads.term, number));
                }
            }
            Op::Take(node) => self.take(node),
            Op::Persist(node) => {
                let Node { log, leads, .. } = &mut self.nodes[node];
                if let Some(leads) = leads {
                    log.append(&mut leads.taken);
                    leads.agreement.wrote(log.len() as u64, self.now);
                }
            }
            Op::ToFollower => self.follower_hears(),
            Op::ToLeader => self.leader_hears(),
            Op::Connect => self.connect(),
            Op::Cut => self.cut(false),
            Op::Leave => self.cut(true),
            Op::Pass(time) => {
                self.now += time;
                for node in 0..2 {
                    self.on(node, |agreement, now| agreement.tick(now));
                }
            }
            Op::Mark(node) => self.mark(node, Marked::Done),
            Op::MarkAnswerLost(node) => self.mark(node, Marked::Unknown),
            Op::MarkDelayed(node) => self.delay(node),
            Op::DelayedArrives => {
                for delayed in std::mem::take(&mut self.delayed) {
                    if self.etcd.up && delayed.revision == self.etcd.revision {
                        self.etcd.set = delayed.set;
                        self.etcd.revision += 1;
                    }
                }
            }
            Op::Etcd(up) => self.etcd.up = up,
            Op::LeaderExpires => self.etcd.leader = None,
            Op::Elect(node) => self.elect(node),
            Op::Crash(node) => {
                self.nodes[node].down = true;
                self.nodes[node].leads = None;
                self.cut(false);
                if self.etcd.leader == Some(node) {
                    self.etcd.leader = None;
                }
            }
            Op::Restart(node) => self.nodes[node].down = false,
        }
        self.note_told();
    }

    fn on(&mut self, node: usize, change: impl FnOnce(&mut Agreement, u64)) {
        let now = self.now;
        let Some(leads) = &mut self.nodes[node].leads else {
            return;
        };
        change(&mut leads.agreement, now);
        let kicked = leads.agreement.take_kick();
        if self
            .link
            .as_ref()
            .is_some_and(|link| Some(link.number) == kicked)
        {
            self.link = None;
        }
    }

    fn note_told(&mut self) {
        for node in &self.nodes {
            let told = node
                .leads
                .as_ref()
                .map_or(0, |leads| leads.agreement.told());
            self.told.extend(&node.log[..told as usize]);
        }
    }

    fn term(&self, node: usize) -> u64 {
        let leads = self.nodes[node].leads.as_ref();
        leads.map_or(0, |leads| leads.term)
    }

    fn take(&mut self, node: usize) {
        let Some(leads) = &mut self.nodes[node].leads else {
            return;
        };
        let batch = std::mem::take(&mut leads.made);
        leads.taken.extend(&batch);
        if let Some(link) = self.link.as_mut().filter(|link| link.leader == node) {
            link.down.push_back(Message::Records(batch));
        }
    }

    fn connect(&mut self) {
        let leading = |node: &usize| self.nodes[*node].leads.is_some();
        let leader = (0..2)
            .filter(leading)
            .max_by_key(|node| *node == self.latest);
        let Some(leader) = leader.filter(|_| self.link.is_none()) else {
            return;
        };
        let follower = 1 - leader;
        if self.nodes[follower].down || self.nodes[follower].leads.is_some() {
            return;
        }
        let theirs = extent(&self.nodes[follower].log);
        // A leader of an earlier term does not know yet that it leads no longer.
        let term = self.term(leader);
        if theirs.newest_term() > term {
            return;
        }
        let Node { log, leads, .. } = &mut self.nodes[leader];
        let Some(leads) = leads else { return };
        let mut whole = log.clone();
        whole.extend(&leads.taken);
        let keep = extent(&whole).common(&theirs);
        self.numbers += 1;
        let (number, journal) = (self.numbers, name(follower));
        if !leads.agreement.follows(number, &journal, keep, self.now) {
            return;
        }
        let _ = leads.agreement.take_kick();
        let records = whole[keep as usize..].to_vec();
        self.link = Some(Link {
            number,
            leader,
            down: VecDeque::from([Message::Begin(keep as usize), Message::Records(records)]),
            acks: VecDeque::new(),
        });
        self.on(leader, |agreement, now| {
            agreement.live(number, whole.len() as u64, now);
        });
    }

    fn follower_hears(&mut self) {
        let Some(link) = &mut self.link else { return };
        let follower = 1 - link.leader;
        let log = &mut self.nodes[follower].log;
        match link.down.pop_front() {
            None => {}
            Some(Message::Begin(keep)) => {
                log.truncate(keep);
                link.acks.push_back(log.len() as u64);
            }
            Some(Message::Records(records)) => {
                log.extend(records);
                link.acks.push_back(log.len() as u64);
            }
        }
    }

    fn leader_hears(&mut self) {
        let Some(link) = &mut self.link else { return };
        let (number, leader) = (link.number, link.leader);
        if let Some(last) = link.acks.pop_front() {
            self.on(leader, |agreement, now| agreement.acked(number, last, now));
        }
    }

    fn cut(&mut self, left: bool) {
        if let Some(link) = self.link.take() {
            self.on(link.leader, |agreement, now| {
                agreement.gone(link.number, left, now);
            });
        }
    }

    fn set_of(node: usize, mark: &Mark) -> BTreeSet<usize> {
        let standby = mark.standby.as_ref().map(|_| 1 - node);
        standby.into_iter().chain([node]).collect()
    }

    fn question(&mut self, node: usize) -> Option<Mark> {
        self.nodes[node].leads.as_mut()?.agreement.take_mark()
    }

    fn mark(&mut self, node: usize, answer: Marked) {
        let Some(mark) = self.question(node) else {
            return;
        };
        let term = self.term(node);
        let mut answer = if self.etcd.up {
            answer
        } else {
            Marked::Unknown
        };
        if self.etcd.up && self.etcd.term > term {
            answer = Marked::Superseded;
        } else if self.etcd.up {
            self.etcd.set = Self::set_of(node, &mark);
            self.etcd.revision += 1;
        }
        self.on(node, |agreement, now| {
            agreement.marked(mark.ticket, answer, now);
        });
    }

    fn delay(&mut self, node: usize) {
        let Some(mark) = self.question(node) else {
            return;
        };
        let term = self.term(node);
        if self.etcd.term == term {
            self.delayed.push(Delayed {
                set: Self::set_of(node, &mark),
                revision: self.etcd.revision,
            });
        }
        self.on(node, |agreement, now| {
            agreement.marked(mark.ticket, Marked::Unknown, now);
        });
    }

    fn elect(&mut self, node: usize) {
        let may = self.etcd.up && self.etcd.leader.is_none() && self.etcd.set.contains(&node);
        if !may || self.nodes[node].down || self.nodes[node].leads.is_some() {
            return;
        }
        // It lets go of the old leader before it opens its journal.
        self.cut(true);
        self.etcd.term += 1;
        self.etcd.revision += 1;
        self.etcd.set = BTreeSet::from([node]);
        self.etcd.leader = Some(node);
        self.latest = node;
        self.numbers += 1;
        let opened = (self.etcd.term, self.numbers);
        self.nodes[node].leads = Some(Leads {
            term: self.etcd.term,
            agreement: Agreement::new(LIMIT),
            made: vec![opened],
            taken: Vec::new(),
        });
    }
}
