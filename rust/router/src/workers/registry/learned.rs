//! What workers learned goes to the others, each text once.

use spectrie_proto::worker_v1::{Learn, Learned};

use super::Registry;
use crate::fleet::{Fleet, ModelKey};
use crate::sync::lock;
use crate::workers::worker::Worker;

impl Registry {
    /// Passes on what a worker learned from an answer: to the others of its model, and to those of other
    /// routers. Gives how many of its own lag, and did not get it.
    ///
    /// Only the attempt whose end was taken counts: of one that was cancelled, or whose worker was held for
    /// lost, the end comes too late, and whoever goes on with the choice teaches the same text.
    pub(crate) fn learned(
        &self,
        from: &Worker,
        model: &ModelKey,
        fleet: &Fleet,
        learned: Learned,
    ) -> usize {
        let Learned {
            namespace,
            token_ids,
            request_id,
            attempt,
        } = learned;
        let origin = if request_id.is_empty() {
            // Of a worker that does not say which request it was.
            None
        } else if let Some(ended) = from.learned(&request_id, attempt) {
            ended.origin
        } else {
            tracing::debug!(worker = %from.id, choice = %request_id, ?attempt,
                "text of an attempt that does not count is not learned");
            return 0;
        };
        let learn = Learn {
            namespace,
            token_ids,
        };
        // Where another router goes on with the request, that one teaches it.
        let lagging = if fleet.may_have_lost(origin.as_ref()) {
            0
        } else {
            self.fan_out(from, &learn)
        };
        fleet.publish(model, learn, origin);
        lagging
    }

    /// Passes learned text from one worker to the others of its model; the number that lag.
    fn fan_out(&self, from: &Worker, learn: &Learn) -> usize {
        let state = lock(&self.state);
        let Some(entry) = state.models.get(&from.hello.model) else {
            return 0;
        };
        let others = entry.workers.iter().filter(|other| other.id != from.id);
        others.filter(|other| !other.learn(learn.clone())).count()
    }
}
