//! The choices that a worker runs: where their outputs go, whose they are, how fast they end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use spectrie_proto::worker_v1::{RequestOutput, Start};
use spectrie_types::Holdings;

use super::mailbox::{Lesson, Mailbox};
use crate::sync::now;
use crate::sync::pace::Pace;

/// Ends of which a worker may be about to say what it learned; the oldest of more are forgotten.
const MAX_ENDED: usize = 1024;

/// Where outputs of a choice go.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) attempt: u32,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) index: usize,
    tenant: Arc<str>,
    /// Nothing else may run on the worker until this choice has a token.
    is_alone: bool,
    /// Whether others may learn its text.
    learn: bool,
}

/// An end that was taken, of a choice whose text others may learn.
#[derive(Debug)]
struct Ended {
    wire_id: String,
    attempt: u32,
    lesson: Arc<Lesson>,
}

/// Routes by wire id. What a tenant holds is counted where routes come and go, so it cannot drift
/// from what runs.
#[derive(Debug, Default)]
pub(super) struct Routes {
    by_id: BTreeMap<String, Route>,
    /// Wire ids and attempts that were cancelled and whose end the worker has not said yet: it may
    /// still compute them.
    leaving: BTreeSet<(String, u32)>,
    /// Ends that were taken; what the worker learned of each comes right after it, once.
    ended: VecDeque<Ended>,
    held: Holdings,
    /// Routes that must be alone.
    num_alone: usize,
    pace: Pace,
}

impl Routes {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether this attempt runs.
    pub(super) fn has(&self, wire_id: &str, attempt: u32) -> bool {
        let route = self.by_id.get(wire_id);
        route.is_some_and(|route| route.attempt == attempt)
    }

    /// Whether nothing runs, nor anything cancelled whose end is not confirmed.
    pub(super) fn is_idle(&self) -> bool {
        self.by_id.is_empty() && self.leaving.is_empty()
    }

    /// Whether a choice runs that must be alone.
    pub(super) fn is_reserved(&self) -> bool {
        self.num_alone > 0
    }

    /// Choices of each tenant.
    pub(super) fn held(&self) -> &Holdings {
        &self.held
    }

    /// Choices that end in a second, as far as it can be known.
    pub(super) fn pace(&self, now: Instant) -> f64 {
        self.pace.rate(now)
    }

    /// Adds the route of a choice that is about to start.
    pub(super) fn insert(
        &mut self,
        start: &Start,
        mailbox: Arc<Mailbox>,
        index: usize,
        is_alone: bool,
    ) {
        if self.by_id.is_empty() {
            self.pace.begin(now());
        }
        let tenant = self.held.add(tenant_of(start), 1);
        let route = Route {
            attempt: start.attempt,
            mailbox,
            index,
            tenant,
            is_alone,
            learn: start.learn,
        };
        self.num_alone += usize::from(is_alone);
        if let Some(replaced) = self.by_id.insert(start.request_id.clone(), route) {
            self.forget(&replaced);
        }
    }

    /// Where an output goes, with what is learned from it; none if it is of no attempt that runs. The last output
    /// of a choice takes its route out. `was_freed` is set when a choice need no longer be alone.
    pub(super) fn take(
        &mut self,
        output: &RequestOutput,
        was_freed: &mut bool,
    ) -> Option<(Arc<Mailbox>, usize, Option<Arc<Lesson>>)> {
        let has_ended = output.finish != 0;
        let route = self.by_id.get_mut(&output.request_id);
        let Some(route) = route.filter(|route| route.attempt == output.attempt) else {
            if has_ended {
                let attempt = (output.request_id.clone(), output.attempt);
                self.leaving.remove(&attempt);
            }
            return None;
        };
        if route.is_alone && (has_ended || !output.token_ids.is_empty()) {
            route.is_alone = false;
            self.num_alone -= 1;
            *was_freed = true;
        }
        let (mailbox, index) = (route.mailbox.clone(), route.index);
        let is_lesson = has_ended && route.learn;
        let lesson = is_lesson.then(|| Arc::new(Lesson::new(mailbox.origin(index))));
        if has_ended {
            self.remove(&output.request_id);
        }
        if let Some(lesson) = &lesson {
            self.ended.push_back(Ended {
                wire_id: output.request_id.clone(),
                attempt: output.attempt,
                lesson: lesson.clone(),
            });
            if self.ended.len() > MAX_ENDED {
                self.ended.pop_front();
            }
        }
        Some((mailbox, index, lesson))
    }

    /// The lesson of an attempt from which its worker learned; none if the end of that was not taken, or if it was
    /// learned from already. A worker of an older version names no attempt.
    pub(super) fn learned(&mut self, wire_id: &str, attempt: Option<u32>) -> Option<Arc<Lesson>> {
        let is_meant = |ended: &Ended| {
            ended.wire_id == wire_id && attempt.is_none_or(|attempt| attempt == ended.attempt)
        };
        let place = self.ended.iter().rposition(is_meant)?;
        Some(self.ended.remove(place)?.lesson)
    }

    /// Takes out the route of a choice that is about to be cancelled; `false` if it does not run.
    pub(super) fn leave(&mut self, wire_id: &str, attempt: u32) -> bool {
        if !self.has(wire_id, attempt) {
            return false;
        }
        self.remove(wire_id);
        self.leaving.insert((wire_id.to_owned(), attempt));
        true
    }

    /// Takes out the route of a choice that ended.
    fn remove(&mut self, wire_id: &str) {
        if let Some(route) = self.by_id.remove(wire_id) {
            self.forget(&route);
            self.pace.ended(now());
        }
    }

    /// Counts a route no more.
    fn forget(&mut self, route: &Route) {
        self.held.take(&route.tenant, 1);
        self.num_alone -= usize::from(route.is_alone);
    }

    pub(super) fn into_routes(self) -> impl Iterator<Item = Route> {
        self.by_id.into_values()
    }
}

/// Whose share of the workers a choice takes.
pub(super) fn tenant_of(start: &Start) -> &str {
    start.tenant.as_deref().unwrap_or(&start.namespace)
}

#[cfg(test)]
mod tests {
    use spectrie_proto::worker_v1::FinishKind;

    use super::*;

    fn begin(routes: &mut Routes, attempt: u32, learn: bool) {
        let start = Start {
            request_id: "a.0".into(),
            attempt,
            learn,
            ..Default::default()
        };
        routes.insert(&start, Arc::new(Mailbox::new(1)), 0, false);
    }

    fn last_output(attempt: u32) -> RequestOutput {
        RequestOutput {
            request_id: "a.0".into(),
            attempt,
            finish: FinishKind::FinishLength.into(),
            ..Default::default()
        }
    }

    fn end(routes: &mut Routes, attempt: u32) -> bool {
        routes.take(&last_output(attempt), &mut false).is_some()
    }

    #[test]
    fn text_is_learned_once_and_only_of_an_attempt_whose_end_was_taken() {
        let mut routes = Routes::default();
        begin(&mut routes, 0, true);
        assert!(routes.learned("a.0", Some(0)).is_none(), "it runs");
        // Its client was cut while its end was under way.
        assert!(routes.leave("a.0", 0));
        assert!(!end(&mut routes, 0));
        assert!(routes.learned("a.0", Some(0)).is_none());
        assert!(routes.learned("a.0", None).is_none());
        begin(&mut routes, 1, true);
        assert!(end(&mut routes, 1));
        assert!(routes.learned("a.0", Some(0)).is_none());
        assert!(routes.learned("a.1", Some(1)).is_none());
        assert!(routes.learned("a.0", Some(1)).is_some());
        assert!(routes.learned("a.0", Some(1)).is_none(), "once");
    }

    #[test]
    fn worker_that_names_no_attempt_is_believed_of_an_end_that_was_taken() {
        let mut routes = Routes::default();
        begin(&mut routes, 3, true);
        assert!(end(&mut routes, 3));
        assert!(routes.learned("a.0", None).is_some());
    }

    #[test]
    fn text_of_an_id_that_is_used_again_is_of_its_last_end() {
        let mut routes = Routes::default();
        // The first one failed, and nothing was learned of it.
        begin(&mut routes, 0, true);
        assert!(end(&mut routes, 0));
        begin(&mut routes, 0, true);
        let (_, _, last) = routes.take(&last_output(0), &mut false).unwrap();
        let learned = routes.learned("a.0", Some(0)).unwrap();
        assert!(Arc::ptr_eq(&learned, &last.unwrap()));
    }

    #[test]
    fn ends_of_what_is_not_to_be_learned_and_old_ones_are_not_remembered() {
        let mut routes = Routes::default();
        begin(&mut routes, 0, false);
        assert!(end(&mut routes, 0));
        assert!(routes.learned("a.0", Some(0)).is_none());
        for attempt in 1..=MAX_ENDED as u32 + 1 {
            begin(&mut routes, attempt, true);
            assert!(end(&mut routes, attempt));
        }
        assert!(routes.learned("a.0", Some(1)).is_none());
        assert!(routes.learned("a.0", Some(2)).is_some());
    }
}
