//! A job under a new scheduler: what it says of binds first is everything that it knows (rule 14).
//!
//! A node whose worker died with the scheduler, or before the scheduler could bind it elsewhere, is then nowhere: what waits
//! here for it asks for its bind, as if it had never been bound.

use omniflow_flow::{EdgeId, Key, Reader};

use crate::core::binds::NewPlace;
use crate::core::job::{At, Context, Job};
use crate::core::outputs::Target;

impl Job {
    /// Forgets where nodes were that the scheduler of a new term does not know.
    pub(crate) fn forget_strangers(&mut self, term: u64, binds: &[NewPlace]) -> Vec<At> {
        if !self.places.renew(term) {
            return Vec::new();
        }
        let told = |at: &At| {
            binds
                .iter()
                .any(|bind| bind.node == at.0 && bind.key == at.1)
        };
        let elsewhere = self.places.iter().filter(|(.., place)| !place.is_here());
        let elsewhere = elsewhere.map(|(node, key, _)| (node, key.clone()));
        let strangers: Vec<At> = elsewhere.filter(|at| !told(at)).collect();
        for (node, key) in &strangers {
            self.places.forget(*node, key);
        }
        strangers
    }

    /// Asks for those that something was sent to from here, and shows the scheduler the marks among it. What they made of it
    /// may be lost, even if they had ended.
    pub(crate) fn ask_for(&mut self, strangers: &[At], cx: &mut Context<'_>) {
        if strangers.is_empty() {
            return;
        }
        let graph = &self.flow.graph;
        let reads = |(edge, key): (EdgeId, &Key)| match graph.reader(edge, key) {
            Some(Reader::One(node, at)) => Some((edge, (node, at))),
            _ => None,
        };
        let read = self.sent.edges().filter_map(reads);
        let wanted: Vec<(EdgeId, At)> = read.filter(|(_, at)| strangers.contains(at)).collect();
        for (edge, at) in wanted {
            self.ask(edge, at, cx);
        }
        self.resend_to(Target::Scheduler, cx);
    }
}
