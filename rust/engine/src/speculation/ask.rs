//! Asks requests for drafts: one after the other, or on several threads where there is enough to do.
//!
//! A request's drafter is its own, and what it reads of others' text is a view that no draft changes. So what
//! each offers does not depend on who is asked beside it.

use std::sync::Arc;

use spectrie_trie::DraftTree;

use super::speculator::Speculator;
use super::step::{Candidate, Offer, Question, Terms};
use crate::clock::Clock;

/// A thread more is worth so much work at least: waking one takes some tens of microseconds.
const LEAST_MS: f64 = 0.1;

impl Question {
    /// Whether a drafter of the runner's is tried on the candidate at `index`.
    pub(super) fn is_probed(&self, index: usize) -> bool {
        self.probed.is_some_and(|probed| probed.is(index))
    }

    /// Whether it is the turn of the candidate at `index` without that.
    pub(super) fn is_due(&self, candidate: &Candidate<'_>) -> bool {
        !self.is_plain && candidate.drafting.backoff.is_due(self.step)
    }

    /// Whether the candidate at `index` is asked at all, whose question the allowance `affords` or does not.
    fn may_ask(&self, index: usize, candidate: &Candidate<'_>, affords: bool) -> bool {
        affords || candidate.is_fixed() || self.is_probed(index)
    }

    /// Whether it is asked for nothing but the trial of a drafter.
    fn is_for_trial(&self, index: usize, candidate: &Candidate<'_>, affords: bool) -> bool {
        self.is_probed(index) && !(affords && self.is_due(candidate))
    }
}

impl Speculator {
    /// Asks the candidates whose turn it is; what each offers, in their order.
    pub(super) fn ask(
        &mut self,
        question: &Question,
        candidates: &mut [Candidate<'_>],
        clock: &Arc<dyn Clock>,
    ) -> Vec<Offer> {
        let threads = self.threads_for(question, candidates);
        if threads > 1 && self.sharing.is_due() {
            return self.ask_beside(threads, question, candidates, clock);
        }
        let mut offers: Vec<Option<Offer>> = candidates.iter().map(|_| None).collect();
        for index in self.asking.order(candidates.len()) {
            let candidate = &mut candidates[index];
            let affords = self.asking.affords(&candidate.drafting.backoff);
            let terms = question.terms(index, candidate);
            let terms = terms.filter(|_| question.may_ask(index, candidate, affords));
            let is_for_trial = question.is_for_trial(index, candidate, affords);
            let began_s = terms.map(|_| clock.now_s());
            let tree = terms.map_or_else(DraftTree::default, |terms| {
                candidate.drafting.draft(terms.most, terms.min_value)
            });
            let offer = question.offer(index, candidate, terms, tree);
            let has_memory = offer.has_memory();
            offers[index] = Some(offer);
            let Some(began_s) = began_s else { continue };
            clock.drafted(candidate.drafting.visits());
            let took_ms = (clock.now_s() - began_s) * 1e3;
            self.note_lookup(candidate, has_memory);
            self.note_asked(index, candidate, took_ms, 1.0);
            if is_for_trial {
                self.note_tried(took_ms);
            }
        }
        offers.into_iter().flatten().collect()
    }

    /// Threads that the answers are worth, by what one took lately.
    fn threads_for(&self, question: &Question, candidates: &[Candidate<'_>]) -> usize {
        let most = self.config.draft_threads;
        let Some(each_ms) = self.question.get().filter(|_| most > 1) else {
            return 1;
        };
        let is_asked = |&(index, one): &(usize, &Candidate<'_>)| {
            let affords = self.asking.affords(&one.drafting.backoff);
            question.may_ask(index, one, affords) && question.terms(index, one).is_some()
        };
        let asked = candidates.iter().enumerate().filter(is_asked);
        num_threads(asked.count(), each_ms, most)
    }

    /// As [`Self::ask`], on `threads` threads, this one included.
    fn ask_beside(
        &mut self,
        threads: usize,
        question: &Question,
        candidates: &mut [Candidate<'_>],
        clock: &Arc<dyn Clock>,
    ) -> Vec<Offer> {
        let order: Vec<usize> = self.asking.order(candidates.len()).collect();
        let mut terms: Vec<Option<Terms>> = candidates.iter().map(|_| None).collect();
        let mut are_for_trial = vec![false; candidates.len()];
        // What those before it in the order are expected to take of the allowance.
        let mut reserved_ms = 0.0;
        for &index in &order {
            let candidate = &candidates[index];
            let backoff = &candidate.drafting.backoff;
            let affords = self.asking.affords_beside(backoff, reserved_ms);
            let wanted = question.terms(index, candidate);
            terms[index] = wanted.filter(|_| question.may_ask(index, candidate, affords));
            are_for_trial[index] = question.is_for_trial(index, candidate, affords);
            if terms[index].is_some() && !candidate.is_fixed() {
                reserved_ms += self.asking.reserved_ms(backoff);
            }
        }
        let began_s = clock.now_s();
        let mut jobs = Vec::with_capacity(candidates.len());
        for &index in &order {
            let drafting = &mut *candidates[index].drafting;
            let job = terms[index].and_then(|one| drafting.lend(index, one.most, one.min_value));
            jobs.extend(job);
        }
        let mut trees: Vec<DraftTree> = candidates.iter().map(|_| DraftTree::default()).collect();
        let mut took_ms = vec![0.0; candidates.len()];
        for answer in self.helpers.answer(jobs, threads, clock) {
            candidates[answer.index].drafting.take_back(answer.drafter);
            trees[answer.index] = answer.tree;
            took_ms[answer.index] = answer.took_ms;
        }
        let mut offers = Vec::with_capacity(candidates.len());
        for (index, tree) in trees.into_iter().enumerate() {
            let offered_s = clock.now_s();
            offers.push(question.offer(index, &mut candidates[index], terms[index], tree));
            took_ms[index] += (clock.now_s() - offered_s) * 1e3;
        }
        let passed_ms = (clock.now_s() - began_s) * 1e3;
        let asked = order.into_iter().filter(|&index| terms[index].is_some());
        let asked: Vec<usize> = asked.collect();
        let all_ms: f64 = asked.iter().map(|&index| took_ms[index]).sum();
        // Each is charged its part of the time that passed.
        let share = if all_ms > 0.0 {
            (passed_ms / all_ms).min(1.0)
        } else {
            1.0
        };
        let expected_ms = asked.len() as f64 * self.question.get().unwrap_or(0.0);
        if asked.len() >= threads && expected_ms > 0.0 {
            self.sharing.note(passed_ms / expected_ms);
        }
        for index in asked {
            self.note_lookup(&candidates[index], offers[index].has_memory());
            self.note_asked(index, &mut candidates[index], took_ms[index], share);
            if are_for_trial[index] {
                self.note_tried(took_ms[index] * share);
            }
        }
        offers
    }

    /// Charges the drafter that is tried with what asking a request for nothing else took.
    fn note_tried(&mut self, took_ms: f64) {
        if let Some(heads) = self.drafters.tried_mut() {
            heads.spend(took_ms);
        }
    }

    /// Notes a question to draft memory, if the candidate reads it, and whether that `has` offered anything.
    fn note_lookup(&mut self, candidate: &Candidate<'_>, has: bool) {
        if candidate.drafting.reads_memory() {
            self.totals.memory_lookups += 1;
            self.totals.memory_hits += u64::from(has);
        }
    }

    /// Notes that the candidate at `index` was asked, which took a thread `took_ms` and the step a `share`
    /// of that.
    fn note_asked(
        &mut self,
        index: usize,
        candidate: &mut Candidate<'_>,
        took_ms: f64,
        share: f64,
    ) {
        self.totals.draft_calls += 1;
        self.open.num_asked += 1;
        self.question.note(took_ms);
        if !candidate.is_fixed() {
            let backoff = &mut candidate.drafting.backoff;
            self.asking.note_drafting(index, backoff, took_ms * share);
        }
    }
}

/// Threads, at most `most`, that so many questions of `each_ms` are worth.
fn num_threads(questions: usize, each_ms: f64, most: usize) -> usize {
    let worth = (questions as f64 * each_ms / LEAST_MS) as usize;
    worth.min(questions).min(most).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_helps_for_each_tenth_of_a_millisecond_and_never_for_nothing() {
        for (questions, each_ms, most, expected) in [
            (0, 0.05, 8, 1),
            // One question is one thread's, however long it takes.
            (1, 50.0, 8, 1),
            (3, 50.0, 8, 3),
            (3, 0.05, 8, 1),
            (4, 0.05, 8, 2),
            (64, 0.000_5, 8, 1),
            (64, 0.015, 8, 8),
            (64, 0.015, 2, 2),
            (64, 0.015, 1, 1),
        ] {
            let threads = num_threads(questions, each_ms, most);
            assert_eq!(threads, expected, "{questions} questions of {each_ms} ms");
        }
    }
}
