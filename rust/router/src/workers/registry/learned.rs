//! What workers learned goes to the others, each text once.

use spectrie_proto::worker_v1::{Learn, Learned};

use super::Registry;
use crate::fleet::{Fleet, ModelKey, Origin};
use crate::sync::lock;
use crate::workers::mailbox::Lesson;
use crate::workers::worker::Worker;

impl Registry {
    /// Takes what a worker learned from an answer, and passes it on once the answer's stream has taken the end of
    /// that. Gives how many of this router's workers lag, and did not get it.
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
        let learn = Learn {
            namespace,
            token_ids,
        };
        if request_id.is_empty() {
            // Of a worker that does not say which request it was.
            return self.teach(from, model, fleet, (learn, None));
        }
        let Some(lesson) = from.learned(&request_id, attempt) else {
            tracing::debug!(worker = %from.id, choice = %request_id, ?attempt,
                "text of an attempt that does not count is not learned");
            return 0;
        };
        let learn = lesson.offer(learn);
        learn.map_or(0, |learn| {
            self.teach(from, model, fleet, (learn, lesson.origin()))
        })
    }

    /// A stream took the end of an attempt: what its worker learned from it is passed on, now if it has come. As
    /// [`Self::learned`].
    pub(crate) fn taken(
        &self,
        from: &Worker,
        model: impl FnOnce() -> ModelKey,
        fleet: &Fleet,
        lesson: &Lesson,
    ) -> usize {
        let learn = lesson.take();
        learn.map_or(0, |learn| {
            self.teach(from, &model(), fleet, (learn, lesson.origin()))
        })
    }

    /// Passes a text on to the other workers of a model, and to those of other routers; the number that lag.
    fn teach(
        &self,
        from: &Worker,
        model: &ModelKey,
        fleet: &Fleet,
        (learn, origin): (Learn, Option<&Origin>),
    ) -> usize {
        // Where another router goes on with the request, that one teaches it.
        let lagging = if fleet.may_have_lost(origin) {
            0
        } else {
            self.fan_out(from, &learn)
        };
        fleet.publish(model, learn, origin.cloned());
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
