//! A drafter in random traffic: its levels, its failure, and forwards of others.

use super::head::Script;
use super::{Traffic, check_pages};

impl Traffic {
    /// Some levels of the step, whose answers are anything; the head may fail at one.
    pub(super) fn ask(&mut self) {
        let now_s = self.now_s();
        self.answers.begin();
        while let Some(head) = &mut self.head {
            if self.dice.once_in(8) {
                return;
            }
            let Some(level) = self.scheduler.draft_plan(now_s).unwrap() else {
                return;
            };
            self.counts.levels += 1;
            self.counts.deep_levels += u64::from(level.level > 1);
            let fails = !self.starts_early && self.dice.once_in(500);
            // It may have copied before.
            if !fails || self.dice.once_in(2) {
                head.level(&level);
                let scripts = [Script::Right, Script::Right, Script::Wrong, Script::Random];
                self.answers.script = scripts[self.dice.below(scripts.len())];
                let answers = self.answers.answer(&level, &mut self.model);
                if !fails {
                    let results = self.scheduler.draft_results(&answers.view(), 0.01);
                    results.unwrap();
                }
            }
            if fails {
                self.scheduler.draft_failed().unwrap();
                self.counts.features_from_pages += head.num_from_pages;
                self.counts.rows_again += head.num_recomputed;
                self.head = None;
                self.counts.heads_given_up += 1;
            }
            check_pages(&self.scheduler);
        }
    }

    /// A forward of somebody else's while nothing runs; the head may keep its features before.
    pub(super) fn rest(&mut self) {
        let Some(head) = &mut self.head else { return };
        if self.dice.once_in(2)
            && let Some(plan) = self.scheduler.feature_plan().unwrap()
        {
            head.keep(&plan);
            self.scheduler.note_features_copied();
            self.counts.features_kept += 1;
        }
        if self.dice.once_in(2) {
            self.scheduler.scratch(1).unwrap();
            head.disturb();
        }
    }
}
