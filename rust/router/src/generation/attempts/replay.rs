//! A stream that goes on from its record.

use std::time::Instant;

use spectrie_proto::v1;
use spectrie_proto::v1::generate_event::Event;
use spectrie_proto::worker_v1::RequestStats;
use spectrie_request::AnswerDelta;

use super::keeping::Kept;
use super::mark::Mark;
use super::place::{Place, Waiting};
use super::tally::Tally;
use crate::error::RequestError;
use crate::failover::RecordedChoice;
use crate::generation::choice::{Choice, Outcome};
use crate::generation::resolve::Resolved;
use crate::generation::run::{Parts, Run, event, started};
use crate::sync::now;

impl Run {
    /// The stream of `choices`, whose client is at `marks`; with everything from its first event on
    /// where it `repeats`.
    ///
    /// # Errors
    /// A stop text that the detokenizer does not take.
    pub(super) fn returning(
        parts: Parts,
        recorded: Vec<RecordedChoice>,
        marks: &[Mark],
        repeats: bool,
    ) -> Result<Self, RequestError> {
        let now = now();
        let mut run = Self::assemble(parts, Vec::new());
        let mut ends = recorded.iter().map(|choice| choice.end.as_ref());
        let had_ended = ends.clone().all(|end| end.is_some());
        if repeats {
            let mut started = started(&run.resolved, run.keeping.as_ref());
            // Where all has ended, the prompt was not kept.
            let usage = ends.find_map(|end| end?.usage);
            started.prompt_tokens =
                usage.map_or(started.prompt_tokens, |usage| usage.prompt_tokens);
            run.ready.push_back(event(Event::Started(started)));
        }
        for ((recorded, mark), index) in recorded.into_iter().zip(marks).zip(0..) {
            if !recorded.emitted.is_empty() {
                run.last_tokens = Some(now);
            }
            let ready = &mut run.ready;
            let mut push = |position, one| {
                if mark.sends(position) {
                    ready.push_back(event(one));
                }
            };
            let replay = Replay {
                resolved: &run.resolved,
                recorded,
                mark: *mark,
                now,
            };
            let (choice, ended) = replay.run(index, &mut push)?;
            if let Some((finished, stats)) = ended {
                run.finished(finished, &stats);
            }
            run.choices.push(choice);
        }
        // What had ended was counted then.
        run.is_complete = had_ended;
        for index in 0..run.choices.len() {
            run.keep_within_bounds(index, run.choices[index].num_tokens());
        }
        run.go_on(now)?;
        run.share_whole();
        Ok(run)
    }

    /// Looks for workers at once: a choice that waits is seen to wait, whether or not its client reads.
    fn go_on(&mut self, now: Instant) -> Result<(), RequestError> {
        if !self.is_waiting() {
            return Ok(());
        }
        self.check_time(now).inspect_err(|_| {
            // It failed, and leaves nothing.
            self.is_over = true;
            self.keeping = None;
            self.sharing = None;
        })
    }
}

/// Tokens that a client may have had and a record not, at the most: those of the last moments before its
/// router ended. What it says to have beyond them is charged as any.
const MAX_UNWRITTEN: u32 = 512;

/// One choice of a record.
struct Replay<'a> {
    resolved: &'a Resolved,
    recorded: RecordedChoice,
    mark: Mark,
    now: Instant,
}

impl Replay<'_> {
    /// The choice as it was, and its end, if that is known only now. `push` gets the events with
    /// their positions, none of them on both sides of the mark.
    fn run(
        self,
        index: u32,
        push: &mut impl FnMut(u32, Event),
    ) -> Result<(Choice, Option<(v1::Finished, RequestStats)>), RequestError> {
        let Self {
            resolved,
            recorded,
            mark,
            now,
        } = self;
        let num_tokens = recorded.emitted.len() as u32;
        let mut choice = Choice::new(resolved, index, Place::Done, now)?;
        choice.mark = Mark {
            counted: mark.position.min(num_tokens.saturating_add(MAX_UNWRITTEN)),
            ..mark
        };
        let mark = mark.position;
        let split = mark.min(num_tokens) as usize;
        let has_ended = recorded.end.is_some();
        let before = choice.replay(recorded.piece(0, split));
        let is_closed = mark > num_tokens && (has_ended || choice.is_complete(resolved));
        choice.send(resolved, before, is_closed, push);
        let after = choice.replay(recorded.piece(split, num_tokens as usize));
        let is_closed = mark <= num_tokens && (has_ended || choice.is_complete(resolved));
        choice.send(resolved, after, is_closed, push);

        choice.attempt = recorded.attempt;
        choice.emitted = recorded.emitted;
        choice.tally = Tally::resumed(recorded.stats, num_tokens, now);
        choice.blame = recorded.blame;
        // Where no one has tokens of it, any worker's will do.
        let has_tokens = num_tokens > 0 || mark > 0;
        choice.fingerprint = recorded.fingerprint.filter(|_| has_tokens);
        choice.numerics_changed = recorded.numerics_changed;
        choice.prompt_logprobs = recorded.prompt_logprobs;
        if let Some(end) = &recorded.end {
            push(end.position, Event::Finished(end.clone()));
        }
        choice.kept = Some(Kept::again(
            recorded.sources,
            recorded.logprobs,
            recorded.end,
        ));
        if has_ended {
            return Ok((choice, None));
        }
        match choice.lose(resolved, now) {
            Outcome::Finished(finished, stats) => Ok((choice, Some((*finished, stats)))),
            Outcome::Failed(error) => Err(error),
            Outcome::Continue | Outcome::Lost(..) => {
                choice.attempt += 1;
                // Who was to be alone before its client went is so still.
                let alone = choice.blame.is_alone();
                choice.place = Place::Waiting(Waiting::new(now, alone));
                Ok((choice, None))
            }
        }
    }
}

impl Choice {
    /// Sends what was taken again, with the text that was held back where it `is_closed` by it.
    fn send(
        &mut self,
        resolved: &Resolved,
        mut delta: AnswerDelta,
        is_closed: bool,
        push: &mut impl FnMut(u32, Event),
    ) {
        if is_closed {
            delta.text.push_str(&self.answer.rest());
        }
        if !delta.token_ids.is_empty() || !delta.text.is_empty() {
            let delta = self.event(resolved, delta, is_closed);
            push(delta.position, Event::Delta(delta));
        }
    }
}

impl RecordedChoice {
    /// What it sent with the tokens `from..to`.
    fn piece(&self, from: usize, to: usize) -> AnswerDelta {
        let sources = self.sources.get(from..to).unwrap_or_default().iter();
        AnswerDelta {
            text: String::new(),
            token_ids: self.emitted.get(from..to).unwrap_or_default().to_vec(),
            sources: sources.map(|source| u32::from(*source)).collect(),
            logprobs: self.logprobs.get(from..to).unwrap_or_default().to_vec(),
        }
    }
}
