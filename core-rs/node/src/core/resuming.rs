//! Resumable nodes (rule 12): what a place that reads from one tells of it when its worker is lost, and how its next attempt
//! goes on from that.

use std::sync::Arc;

use bytes::Bytes;
use omniflow_flow::{Delivered, Effect, Key, NodeId, Payload, PortIx};
use omniflow_wire::v1;
use omniflow_wire::v1::node_progress::State;
use rustc_hash::FxHashMap;

use crate::activation::Activation;
use crate::core::Core;
use crate::core::binds::NewPlace;
use crate::core::job::{At, Context, Job};
use crate::core::outputs::{Outputs, Target};
use crate::ids::JobId;

/// The one output of a resumable node.
const OUTPUT: PortIx = PortIx(0);
/// What is told of one node at most: an attempt that goes on from less makes the rest once more.
const MOST_BYTES: usize = 32 << 20;

/// What came along with binds of one job, until their activations begin: with the epoch that it is for.
#[derive(Debug, Default)]
pub(crate) struct Resuming(FxHashMap<At, (u32, Delivered<Bytes>)>);

impl Resuming {
    /// Keeps what came along with these binds.
    pub(crate) fn expect(&mut self, delivered: Vec<v1::Delivered>, binds: &[NewPlace]) {
        for told in delivered {
            let at = (NodeId(told.node), Key::new(&told.key));
            let mut binds = binds.iter();
            if let Some(bind) = binds.find(|bind| bind.node == at.0 && bind.key == at.1) {
                let delivered = Delivered {
                    frames: told.frames,
                    ended: told.ended,
                };
                self.0.insert(at, (bind.epoch, delivered));
            }
        }
    }

    /// What an activation goes on from.
    pub(crate) fn take(&mut self, node: NodeId, key: &Key, epoch: u32) -> Delivered<Bytes> {
        if self.0.is_empty() {
            return Delivered::default();
        }
        let known = self.0.remove(&(node, key.clone()));
        let delivered = known.filter(|(of, _)| *of == epoch);
        delivered
            .map(|(_, delivered)| delivered)
            .unwrap_or_default()
    }
}

impl Core {
    /// The worker of a resumable node is lost: from now on, nothing of its earlier attempts is taken in.
    pub(crate) fn tell_delivered(&mut self, wanted: v1::DeliveredWanted, out: &mut Outputs) {
        let (node, key) = (NodeId(wanted.node), Key::new(&wanted.key));
        let job = self.jobs.get_mut(&JobId(wanted.job));
        let delivered = job.map(|job| {
            job.resolver.producer_restarted(node, &key, wanted.epoch);
            within(job.resolver.delivered(node, &key), MOST_BYTES)
        });
        let Delivered { frames, ended } = delivered.unwrap_or_default();
        let report = v1::DeliveredReport {
            job: wanted.job,
            epoch: wanted.epoch,
            delivered: Some(v1::Delivered {
                node: wanted.node,
                key: wanted.key,
                frames,
                ended,
            }),
        };
        out.send(Target::Scheduler, report);
    }
}

/// The beginning of it that has so many bytes.
fn within(mut delivered: Delivered<Bytes>, most: usize) -> Delivered<Bytes> {
    let mut bytes = 0;
    let fits = delivered.frames.iter().take_while(|frame| {
        bytes += frame.len();
        bytes <= most
    });
    let fits = fits.count();
    delivered.ended &= fits == delivered.frames.len();
    delivered.frames.truncate(fits);
    delivered
}

impl Job {
    /// An activation begins with what its readers have: whoever lacks some of it gets that from here, as does whoever reads
    /// it later.
    pub(crate) fn resume(
        &mut self,
        activation: &Activation,
        delivered: &Delivered<Bytes>,
        more: &mut Vec<Effect<Bytes>>,
        cx: &mut Context<'_>,
    ) {
        if delivered.is_empty() {
            return;
        }
        let (node, key) = (activation.node, &activation.key);
        for frame in &delivered.frames {
            let bytes = self.read_bytes(node, frame);
            activation.traffic.gave(OUTPUT.0, bytes, cx.now);
        }
        if let Err(error) = self.resolver.resume(node, key, delivered, more) {
            let error = v1::Error {
                code: v1::ErrorCode::Internal.into(),
                message: format!("it cannot go on from what was delivered: {error}"),
                cure: "check that all workers run the same version of omniflow".to_owned(),
                ..Default::default()
            };
            let subject = self.subject(activation);
            cx.site
                .failed(&subject, Some(&self.flow), error, cx.now, cx.out);
        }
    }

    /// Nothing is left to be done: one of its readers has all of it.
    pub(crate) fn end_resumed(
        &mut self,
        activation: &Arc<Activation>,
        delivered: &Delivered<Bytes>,
        more: &mut Vec<Effect<Bytes>>,
        cx: &mut Context<'_>,
    ) {
        self.resume(activation, delivered, more, cx);
        let at = (activation.node, activation.key.clone());
        // Its only output has ended.
        let _ = self.resolver.finish(at.0, &at.1, more);
        self.let_go_of_inputs(&at, cx);
        let subject = self.subject(activation);
        cx.site.event(&subject, State::Done, cx.now, cx.out);
        cx.site.events.tell_traffic(&activation.traffic, cx.now);
    }

    /// How much of a frame its readers get to see, which is what they count.
    pub(crate) fn read_bytes(&self, node: NodeId, frame: &Bytes) -> usize {
        match self.flow.graph.resumes(node) {
            true => frame.shown().len(),
            false => frame.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_the_beginning_that_has_room() {
        let delivered = Delivered {
            frames: vec![Bytes::from_static(&[7; 100]); 5],
            ended: true,
        };
        let all = within(delivered.clone(), 500);
        assert_eq!(all, delivered);
        let some = within(delivered, 499);
        assert_eq!((some.frames.len(), some.ended), (4, false));
    }
}
