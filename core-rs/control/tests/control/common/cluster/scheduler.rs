//! The scheduler of the cluster: what the job table decides, carried out.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;

impl Cluster {
    pub(super) fn step(&mut self, event: Event) {
        self.now.0 += 1;
        let mut effects = Vec::new();
        self.control.step(event, self.now, &mut effects);
        self.control.check().unwrap();
        for effect in effects {
            self.execute(effect);
        }
    }

    pub(super) fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::Accepted { job, .. } => self.job = job,
            Effect::Bind { workers, binds, .. } => {
                let binds: Vec<_> = binds
                    .iter()
                    .map(|bind| (bind.node, bind.key.clone(), bind.worker.0, bind.epoch))
                    .collect();
                self.begin_again(&binds);
                for worker in workers {
                    let link = self.links.entry((SCHEDULER, worker.0)).or_default();
                    for (node, key, _, epoch) in binds.iter().filter(|bind| bind.2 == worker.0) {
                        let at = (NodeId(*node), key.clone());
                        if let Some((_, delivered)) = self.resuming.remove(&at) {
                            self.resumptions += usize::from(!delivered.is_empty());
                            link.push_back(Message::Resume(at.0, at.1, *epoch, delivered));
                        }
                    }
                    link.push_back(Message::Bind(binds.clone()));
                    if self.told.insert(worker.0) {
                        link.extend(self.left.iter().cloned());
                    }
                }
                self.places.get_mut(&SCHEDULER).unwrap().bind(&binds);
                self.deliver(SCHEDULER);
            }
            Effect::Release { workers, fault, .. } => {
                let told = fault.as_ref().map(|fault| fault.code);
                assert!(
                    told.is_none_or(|code| code == Code::NotReplayable),
                    "{fault:?}"
                );
                for worker in workers {
                    let link = self.links.entry((SCHEDULER, worker.0)).or_default();
                    link.push_back(Message::Release);
                    *self.forgetting.entry(worker.0).or_default() += 1;
                }
            }
            Effect::Recall { worker, binds, .. } => {
                let binds = binds.into_iter();
                let binds = binds.map(|bind| (bind.node, bind.key, bind.epoch));
                let link = self.links.entry((SCHEDULER, worker.0)).or_default();
                link.push_back(Message::Recall(binds.collect()));
            }
            Effect::AskDelivered {
                node,
                key,
                epoch,
                workers,
                ..
            } => self.ask_delivered(NodeId(node), key, epoch, &workers),
            Effect::BeginAnew { node, key, .. } => {
                self.resuming.remove(&(NodeId(node), key));
            }
            Effect::StartOver { .. } => {
                self.starts += 1;
                self.resuming.clear();
                self.left.clear();
                self.told.clear();
                self.results.clear();
                let scheduler = Place::new(SCHEDULER, self.graph.clone());
                self.places.insert(SCHEDULER, scheduler);
                self.feed();
            }
            _ => {}
        }
    }

    pub(super) fn ask_delivered(
        &mut self,
        node: NodeId,
        key: Key,
        epoch: u32,
        workers: &[WorkerId],
    ) {
        let scheduler = self.places.get_mut(&SCHEDULER).unwrap();
        scheduler.resolver.producer_restarted(node, &key, epoch);
        let here = scheduler.resolver.delivered(node, &key);
        self.resuming.insert((node, key.clone()), (epoch, here));
        for worker in workers {
            let link = self.links.entry((SCHEDULER, worker.0)).or_default();
            link.push_back(Message::Ask(node, key.clone(), epoch));
        }
    }

    pub(super) fn delivered(
        &mut self,
        worker: u32,
        at: (NodeId, Key),
        epoch: u32,
        told: Delivered<Value>,
    ) {
        let frames = told.frames.len() as u64;
        if let Some((asked, known)) = self.resuming.get_mut(&at)
            && *asked == epoch
        {
            *known = std::mem::take(known).longer(told);
        }
        self.step(Event::Delivered {
            job: self.job,
            worker: WorkerId(worker),
            node: at.0.0,
            key: at.1,
            epoch,
            frames,
        });
    }

    /// What leaves beside a node that runs again is to leave again.
    pub(super) fn begin_again(&mut self, binds: &[(u32, Key, u32, u32)]) {
        let graph = self.graph.clone();
        let known = &self.places[&SCHEDULER].bound;
        let again = binds.iter().filter(|(node, key, _, epoch)| {
            let at = (NodeId(*node), key.clone());
            known.get(&at).is_some_and(|(_, known)| known < epoch)
        });
        for (node, bind, ..) in again {
            self.left.retain(|message| match message {
                Message::Left(_, key, by) => {
                    let beside = graph.home(*by) == Home::Node(NodeId(*node));
                    !(beside && (key.extends(bind) || bind.extends(key)))
                }
                _ => true,
            });
        }
    }
}
