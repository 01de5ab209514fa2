//! Where a worker's tokens wait for the stream that will send them.
//!
//! Outputs of one choice are merged until they are read, so what a slow client holds is bounded by
//! its `max_tokens` and a fast worker never waits for it.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use spectrie_proto::worker_v1::{FinishKind, Learn, RequestOutput, RequestStats, TokenLogprob};
use tokio::sync::Notify;

use crate::fleet::Origin;
use crate::sync::{lock, now};

/// How a worker ended a choice.
#[derive(Debug)]
pub(crate) struct WorkerFinish {
    pub(crate) kind: FinishKind,
    pub(crate) message: Option<String>,
    pub(crate) stats: RequestStats,
    /// What the worker learns from it, where others may.
    pub(crate) lesson: Option<Arc<Lesson>>,
}

/// What a worker learned from an attempt that it ended. It comes right after the end, and waits until its
/// stream has taken that: one that finds nonsense before the end has the choice go on elsewhere, and the text
/// comes again.
#[derive(Debug)]
pub(crate) struct Lesson {
    origin: Option<Origin>,
    state: Mutex<Learning>,
}

#[derive(Debug, Default)]
enum Learning {
    /// Neither the text came nor was the end taken.
    #[default]
    Open,
    /// The text came first.
    Waiting(Learn),
    /// The stream took the end.
    Taken,
}

impl Lesson {
    /// Of a choice of this stream, if other routers may go on with that.
    pub(super) fn new(origin: Option<Origin>) -> Self {
        Self {
            origin,
            state: Mutex::default(),
        }
    }

    /// The stream's choice that it is of.
    pub(super) fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// The stream took the end: gives the text, if that waits.
    pub(super) fn take(&self) -> Option<Learn> {
        match std::mem::replace(&mut *lock(&self.state), Learning::Taken) {
            Learning::Waiting(learn) => Some(learn),
            Learning::Open | Learning::Taken => None,
        }
    }

    /// The text came: gives it back if the stream has taken the end.
    pub(super) fn offer(&self, learn: Learn) -> Option<Learn> {
        let mut state = lock(&self.state);
        if matches!(*state, Learning::Taken) {
            return Some(learn);
        }
        *state = Learning::Waiting(learn);
        None
    }
}

/// What has come for one choice since the last look.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pub(crate) token_ids: Vec<u32>,
    /// One `spectrie.v1.Source` per token.
    pub(crate) sources: Vec<u32>,
    /// One per token, when asked for.
    pub(crate) logprobs: Vec<TokenLogprob>,
    /// One per token of the prompt, when asked for.
    pub(crate) prompt_logprobs: Vec<TokenLogprob>,
    pub(crate) finish: Option<WorkerFinish>,
    /// The worker is gone; nothing more will come from this attempt.
    pub(crate) lost: bool,
}

impl Inbox {
    fn is_empty(&self) -> bool {
        self.token_ids.is_empty() && self.finish.is_none() && !self.lost
    }
}

/// One inbox per choice of a request, and the bell that rings when one fills.
#[derive(Debug)]
pub(crate) struct Mailbox {
    inboxes: Mutex<Inboxes>,
    bell: Notify,
    /// The stream whose answers come here, where other routers may go on with it.
    origin: OnceLock<Origin>,
}

#[derive(Debug)]
struct Inboxes {
    of_choices: Vec<Inbox>,
    /// Since when something lies there that nobody took, or took from.
    unclaimed_since: Option<Instant>,
}

impl Inboxes {
    /// The inbox of a choice, into which something comes.
    fn filling(&mut self, index: usize) -> Option<&mut Inbox> {
        self.unclaimed_since.get_or_insert_with(now);
        self.of_choices.get_mut(index)
    }
}

impl Mailbox {
    pub(crate) fn new(num_choices: usize) -> Self {
        let inboxes = (0..num_choices).map(|_| Inbox::default()).collect();
        Self {
            inboxes: Mutex::new(Inboxes {
                of_choices: inboxes,
                unclaimed_since: None,
            }),
            bell: Notify::new(),
            origin: OnceLock::new(),
        }
    }

    /// Notes the stream whose answers come here, with which other routers may go on.
    pub(crate) fn is_of(&self, origin: Origin) {
        let _ = self.origin.set(origin);
    }

    /// A choice of that stream.
    pub(super) fn origin(&self, index: usize) -> Option<Origin> {
        self.origin.get().map(|origin| origin.of(index))
    }

    /// Adds a worker's output to choice `index`, with what the worker learns if that is its end.
    pub(crate) fn deliver(&self, index: usize, output: RequestOutput, lesson: Option<Arc<Lesson>>) {
        let kind = output.finish();
        if let Some(inbox) = lock(&self.inboxes).filling(index) {
            if inbox.token_ids.is_empty() {
                inbox.token_ids = output.token_ids;
                inbox.sources = output.sources;
                inbox.logprobs = output.logprobs;
            } else {
                inbox.token_ids.extend_from_slice(&output.token_ids);
                inbox.sources.extend_from_slice(&output.sources);
                inbox.logprobs.extend(output.logprobs);
            }
            inbox.prompt_logprobs.extend(output.prompt_logprobs);
            if kind != FinishKind::FinishNone {
                inbox.finish = Some(WorkerFinish {
                    kind,
                    message: output.message,
                    stats: output.stats.unwrap_or_default(),
                    lesson,
                });
            }
        }
        self.bell.notify_one();
    }

    /// Empties choice `index` for a new attempt.
    pub(crate) fn reset(&self, index: usize) {
        if let Some(inbox) = lock(&self.inboxes).of_choices.get_mut(index) {
            *inbox = Inbox::default();
        }
    }

    /// Says that the worker of choice `index` is gone.
    pub(crate) fn lose(&self, index: usize) {
        if let Some(inbox) = lock(&self.inboxes).filling(index) {
            inbox.lost = true;
        }
        self.bell.notify_one();
    }

    /// Waits until something came and takes it, with the choice it is for.
    ///
    /// Has one reader: the bell remembers one ring.
    pub(crate) async fn take(&self) -> (usize, Inbox) {
        loop {
            let ring = self.bell.notified();
            if let Some(taken) = self.try_take() {
                return taken;
            }
            ring.await;
        }
    }

    /// Since when something lies here that no one takes.
    pub(crate) fn unclaimed_since(&self) -> Option<Instant> {
        lock(&self.inboxes).unclaimed_since
    }

    /// Takes what came, if anything did.
    pub(crate) fn try_take(&self) -> Option<(usize, Inbox)> {
        let mut inboxes = lock(&self.inboxes);
        let mut filled = inboxes.of_choices.iter();
        let Some(index) = filled.position(|inbox| !inbox.is_empty()) else {
            // What lay here went with its choice's attempt.
            inboxes.unclaimed_since = None;
            return None;
        };
        let has_more = filled.any(|inbox| !inbox.is_empty());
        inboxes.unclaimed_since = has_more.then(now);
        let taken = std::mem::take(inboxes.of_choices.get_mut(index)?);
        Some((index, taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(token_ids: &[u32]) -> RequestOutput {
        RequestOutput {
            token_ids: token_ids.to_vec(),
            sources: vec![1; token_ids.len()],
            ..Default::default()
        }
    }

    #[tokio::test]
    async fn outputs_of_one_choice_are_merged_in_order() {
        let mailbox = Mailbox::new(2);
        mailbox.deliver(1, output(&[1, 2]), None);
        mailbox.deliver(1, output(&[3]), None);
        mailbox.lose(0);
        let (first, inbox) = mailbox.take().await;
        assert!(first == 0 && inbox.lost);
        let (second, inbox) = mailbox.take().await;
        assert_eq!((second, inbox.token_ids), (1, vec![1, 2, 3]));
    }

    #[tokio::test]
    async fn what_went_with_an_attempt_waits_for_no_reader() {
        let mailbox = Mailbox::new(1);
        mailbox.deliver(0, output(&[1]), None);
        assert!(mailbox.unclaimed_since().is_some());
        mailbox.reset(0);
        assert!(mailbox.try_take().is_none());
        assert_eq!(mailbox.unclaimed_since(), None);
    }

    #[tokio::test]
    async fn reader_that_waits_is_woken() {
        let mailbox = Arc::new(Mailbox::new(1));
        let reader = tokio::spawn({
            let mailbox = mailbox.clone();
            async move { mailbox.take().await.1.token_ids }
        });
        tokio::task::yield_now().await;
        mailbox.deliver(0, output(&[9]), None);
        assert_eq!(reader.await.unwrap(), [9]);
    }

    #[test]
    fn what_a_worker_learned_waits_until_its_stream_has_taken_the_end() {
        let learn = || Learn {
            token_ids: vec![1],
            ..Default::default()
        };
        let lesson = Lesson::new(None);
        assert_eq!(lesson.offer(learn()), None);
        assert_eq!(lesson.take(), Some(learn()));
        let lesson = Lesson::new(None);
        assert_eq!(lesson.take(), None);
        assert_eq!(lesson.offer(learn()), Some(learn()));
    }
}
