//! Drafters in random traffic: their levels, what they answer, their failure, and forwards of others.

use spectrie_types::Source;
use spectrie_types::sizes::TOP_K;

use super::fake_head::FakeHead;
use super::head::{Answers, Head, Script};
use super::model::VOCABULARY;
use super::{Traffic, check_pages};
use crate::error::EngineError;

/// What it answers most of the time is what the model says.
const SCRIPTS: [Script; 6] = [
    Script::Right,
    Script::Right,
    Script::Right,
    Script::Wrong,
    Script::Random,
    Script::Nan,
];

impl Traffic {
    /// Some levels of the step, whose answers are anything; the head may fail at one.
    pub(super) fn ask(&mut self) {
        let now_s = self.now_s();
        self.answers.iter_mut().for_each(Head::begin);
        self.counts.steps_with_head += u64::from(!self.heads.is_empty());
        if self.nods && self.dice.once_in(20) {
            let sleeps = self.dice.once_in(2);
            self.scheduler.speculator.set_asleep(sleeps);
        }
        let mut before = None;
        while !self.heads.is_empty() {
            if self.dice.once_in(8) {
                return;
            }
            let Some(level) = self.scheduler.draft_plan(now_s).unwrap() else {
                return;
            };
            self.counts.levels += 1;
            self.counts.deep_levels += u64::from(level.level > 1);
            self.check_asked();
            let number = level.drafter;
            self.counts.turns += u64::from(before.is_some_and(|before| before != number));
            before = Some(number);
            let mut heads = self.heads.iter_mut();
            let may_fail = heads.any(|head| head.number == number && head.may_fail);
            let fails = may_fail && self.dice.once_in(100);
            // It may have copied before.
            if !fails || self.dice.once_in(2) {
                for head in &mut self.heads {
                    if head.number == number {
                        head.level(&level);
                    } else {
                        head.beside(&level);
                    }
                }
                let head = &mut self.answers[number];
                head.script = SCRIPTS[self.dice.below(SCRIPTS.len())];
                let mut answers = head.answer(&level, &mut self.model);
                if self.dice.once_in(6) {
                    repeat_first(&mut answers);
                }
                if fails || self.dice.once_in(20) {
                    self.check_refusal(&answers);
                }
                if !fails {
                    let results = self.scheduler.draft_results(&answers.view(), 0.01);
                    results.unwrap();
                }
            }
            if fails {
                self.give_up(number);
                return;
            }
            check_pages(&self.scheduler);
        }
    }

    /// A forward of somebody else's while nothing runs; the head may keep its features before.
    pub(super) fn rest(&mut self) {
        if self.heads.is_empty() {
            return;
        }
        if self.dice.once_in(2)
            && let Some(plan) = self.scheduler.feature_plan().unwrap()
        {
            self.heads.iter_mut().for_each(|head| head.keep(&plan));
            self.scheduler.note_features_copied();
            self.counts.features_kept += 1;
        }
        if self.dice.once_in(2) {
            self.scheduler.scratch(1).unwrap();
            self.heads.iter_mut().for_each(FakeHead::disturb);
        }
    }

    /// Notes what drafters saw, once they answer no more.
    pub(super) fn count_heads(&mut self) {
        while let Some(head) = self.heads.pop() {
            self.count(&head);
        }
        let accepted = self.scheduler.load().accepted_by_source;
        self.counts.from_head =
            accepted[Source::Head as usize] + accepted[Source::DraftModel as usize];
    }

    fn count(&mut self, head: &FakeHead) {
        self.counts.features_from_pages += head.num_from_pages;
        self.counts.rows_again += head.num_recomputed;
        self.counts.made_up += head.num_made_up;
        self.counts.made_up_behind_others += head.num_shared;
        self.counts.rows_left_out += head.num_left_out;
        self.counts.rows_passed += head.num_passed;
        self.counts.asked_late += head.num_asked_late;
        self.counts.made_up_unasked += head.num_unasked;
    }

    fn give_up(&mut self, number: usize) {
        self.scheduler.draft_failed().unwrap();
        let index = self.heads.iter().position(|head| head.number == number);
        let head = self.heads.remove(index.unwrap());
        self.count(&head);
        self.counts.heads_given_up += 1;
        self.counts.given_up_beside_others += u64::from(!self.heads.is_empty());
        let again = self.scheduler.draft_failed();
        assert!(matches!(again, Err(EngineError::NoLevel)));
        if self.heads.is_empty() {
            assert_eq!(self.scheduler.draft_plan(self.now_s()), Ok(None));
        }
    }

    /// Answers that do not fit are refused, and the level waits for others.
    fn check_refusal(&mut self, answers: &Answers) {
        let (mut ids, mut probabilities) = (answers.ids.clone(), answers.probabilities.clone());
        match self.dice.below(3) {
            // A level that only makes keys has no answers.
            _ if ids.is_empty() => ids.push(0),
            0 => {
                let index = self.dice.below(ids.len());
                ids[index] = (VOCABULARY + self.dice.below(1000)) as i32;
            }
            1 => drop(ids.pop()),
            _ => probabilities.push(0.5),
        }
        let wrong = Answers {
            ids,
            probabilities,
            scored: answers.scored.clone(),
        };
        let refused = self.scheduler.draft_results(&wrong.view(), 0.01);
        assert!(matches!(refused, Err(EngineError::Logits { .. })));
        let early = self.scheduler.plan(self.now_s());
        assert!(matches!(early, Err(EngineError::LevelInFlight { .. })));
        self.counts.refused_answers += 1;
    }

    /// No request is asked about whose text the head did not learn, nor one behind its end.
    fn check_asked(&self) {
        let Some(prepared) = &self.scheduler.prepared else {
            return;
        };
        let questions = prepared.questions.as_ref().unwrap();
        let mut heads = self.heads.iter();
        let head = heads.find(|head| Some(head.number) == questions.drafter());
        let head = head.unwrap();
        for row in &questions.open().unwrap().rows {
            let sequence = &self.scheduler.running[&prepared.decoding[row.candidate]];
            let (named, own) = (head.info.namespaces.as_ref(), sequence.table.namespace());
            assert!(named.is_none_or(|names| names.iter().any(|name| **name == **own)));
            let depth = usize::from(row.inquiry.depth);
            assert!(
                depth + 1 < sequence.num_left(),
                "row {depth} behind the end"
            );
        }
    }
}

/// Names the first token eight times, and is sure of it each time.
fn repeat_first(answers: &mut Answers) {
    for row in answers.ids.chunks_mut(TOP_K) {
        row.fill(row[0]);
    }
    answers.probabilities.fill(0.9);
}
