//! Streams of results: the scheduler says how far each may come, as its client reads (rule 10). Another scheduler has nothing
//! of them, and has granted nothing.

use omniflow_flow::{EdgeId, Key, Reader};
use omniflow_wire::v1;

use crate::core::job::{Context, Job};

impl Job {
    /// Another scheduler is there: what its predecessor had is to come again, from the first frame on. Once it is reachable,
    /// `pass_results_on`.
    pub(crate) fn begin_results_again(&mut self, cx: &mut Context<'_>) {
        for (edge, key) in self.streams_of_results() {
            self.credits.forget(edge, &key);
            if self.sent.has_given_up(edge, &key) {
                self.lose_result(edge, &key, cx);
            }
            self.sent.rewind(edge, &key);
        }
    }

    /// What may come of them, and has not gone yet.
    pub(crate) fn pass_results_on(&mut self, cx: &mut Context<'_>) {
        for (edge, key) in self.streams_of_results() {
            let mut effects = Vec::new();
            self.pass_on(edge, &key, &mut effects, cx);
            self.settle(effects, cx);
        }
    }

    fn streams_of_results(&self) -> Vec<(EdgeId, Key)> {
        let (graph, wires) = (&self.flow.graph, &self.flow.wires);
        let streams = self.sent.edges().filter(|(edge, key)| {
            wires.is_paced(*edge) && graph.reader(*edge, key) == Some(Reader::Scheduler)
        });
        streams.map(|(edge, key)| (edge, key.clone())).collect()
    }

    /// Rule 11: past the quota, what the client had read was given up.
    fn lose_result(&mut self, edge: EdgeId, key: &Key, cx: &mut Context<'_>) {
        let message = format!(
            "edge {}: result frames that an earlier scheduler had are kept no longer",
            self.flow.edge_name(edge)
        );
        let error = v1::Error {
            code: v1::ErrorCode::NotReplayable.into(),
            message,
            cure: "raise the worker's retention_job_bytes, so that it outlasts a scheduler"
                .to_owned(),
            ..Default::default()
        };
        self.give_out(edge, key, error, cx);
    }
}
