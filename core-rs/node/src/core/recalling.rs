//! Binds that the scheduler calls back, for others could have them sooner (rule 15): what no engine has taken goes back.
//!
//! From then on nothing of such a bind runs here and nothing is sent to it, until the next bind says where it is: then
//! producers send everything to it that they have kept, as after any move.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use omniflow_flow::{Key, NodeId};
use omniflow_wire::v1;

use crate::core::Core;
use crate::core::job::{Context, Job};
use crate::core::outputs::Outputs;
use crate::ids::JobId;

impl Core {
    pub(super) fn recall(&mut self, recall: &v1::Recall, now: Instant, out: &mut Outputs) {
        self.step(JobId(recall.job), now, out, |job, cx, _| {
            job.give_back(&recall.binds, cx);
        });
    }
}

impl Job {
    fn give_back(&mut self, binds: &[v1::Bind], cx: &mut Context<'_>) {
        let binds = binds.iter().filter(|bind| self.let_go_of(bind, cx));
        let binds: Vec<v1::Bind> = binds.cloned().collect();
        if !binds.is_empty() {
            let job = self.info.id.0;
            cx.site.tell_scheduler(v1::Moved { job, binds }, cx.out);
        }
    }

    /// Whether the bind is here and nothing of it has run. Then it is not here any more.
    fn let_go_of(&mut self, bind: &v1::Bind, cx: &mut Context<'_>) -> bool {
        let (node, key) = (NodeId(bind.node), Key::new(&bind.key));
        let here = self.places.get(node, &key);
        let here = here.is_some_and(|place| place.is_here() && place.epoch == bind.epoch);
        if !here || self.flow.wires.node_depth(node) != key.depth() {
            return false;
        }
        match self.activations.get(&(node, key.clone())).map(Arc::clone) {
            Some(activation) => {
                let started = activation.started.load(Ordering::Relaxed);
                let queue = cx.site.queues.get(activation.role());
                // What is not in the queue any more is in an engine's hands.
                if started || !queue.is_some_and(|queue| queue.remove(&activation)) {
                    return false;
                }
                self.activations.remove(&(node, key.clone()));
                activation.cancel();
            }
            None if self.resolver.hosted(node, &key).is_none() => return false,
            None if self.resolver.is_over(node, &key) => return false,
            None => {}
        }
        self.resolver.unhost(node, &key);
        self.places.give_back(node, &key);
        true
    }
}
