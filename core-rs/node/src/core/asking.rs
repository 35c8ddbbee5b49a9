//! Binds that frames here wait for (rule 15): asked for once, in batches.

use omniflow_flow::EdgeId;

use crate::core::job::{At, Context, Job};

impl Job {
    /// Something was sent to a node that is not bound. One behind gates is bound when its branch is taken.
    pub(crate) fn ask(&mut self, edge: EdgeId, at: At, cx: &mut Context<'_>) {
        if self.flow.wires.asks(edge) && self.asked.insert(at.clone()) {
            cx.site.want(self.info.id, &at, cx.out);
        }
    }

    /// A scheduler is there (again), and may have heard nothing.
    pub(crate) fn ask_again(&self, cx: &mut Context<'_>) {
        for at in &self.asked {
            cx.site.want(self.info.id, at, cx.out);
        }
    }
}
